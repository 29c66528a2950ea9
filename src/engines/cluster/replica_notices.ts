// What the servers that share a metadata store tell each other of the replicas of a warehouse, so that none of them reads a replica that lacks
// what another one has acknowledged.

export interface ReplicaNotices {
  /** Resolves when this server knows what others told before the call. Throws STORE_UNAVAILABLE. */
  follow(): Promise<void>;
  /**
   * These backends may lack what is about to be acknowledged: whoever knows that reads none of them until it has found that the backend lacks
   * nothing. Resolves when it is stored. Throws what the store throws.
   */
  tellBehind(backends: readonly string[]): Promise<void>;
  /**
   * This server is about to check what a backend lacks, and to read it if it lacks nothing: whoever knows that acknowledges nothing without
   * the backend, unless it tells that it is behind.
   */
  tellReading(backend: string): Promise<void>;
}

/** As the other servers get it. */
export type ReplicaFinding = 'behind' | 'reading';
