// Notices between servers that share a metadata store about the replicas of a warehouse, so that no server reads a replica that lacks a change
// which another server has acknowledged.

export interface ReplicaNotices {
  /** Resolves when this server has processed the notices that were published before the call. Throws STORE_UNAVAILABLE. */
  follow(): Promise<void>;
  /**
   * Publishes, before a change is acknowledged, that these backends may lack it. A server that processes the notice does not read them until
   * its own check finds them complete. Resolves with the commit. Throws what the store throws.
   */
  publishBehind(backends: readonly string[]): Promise<void>;
  /**
   * Publishes, before this server checks a backend, that it reads the backend if it is complete. A server that processes the notice acknowledges
   * a change only if the backend has it, or after `publishBehind`.
   */
  publishReading(backend: string): Promise<void>;
}

export type ReplicaFinding = 'behind' | 'reading';
