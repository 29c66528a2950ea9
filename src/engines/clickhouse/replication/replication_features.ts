// What servers of a version can do in the paths of replication. The product needs 24.8; these paths also run on servers of 2018, which
// are what tests can replicate with (docs/engines.md).

export interface ReplicationFeatures {
  /** An INSERT can have a token: of inserts with the same token, one is stored. */
  readonly insertTokens: boolean;
  /** Several inserts with a quorum into one table run at once. */
  readonly parallelQuorum: boolean;
  /** A replica can wait for the parts that others have, and not for merges too (`SYSTEM SYNC REPLICA ... LIGHTWEIGHT`). */
  readonly lightweightSync: boolean;
  /** What a lost replica left in Keeper can be deleted (`SYSTEM DROP REPLICA`). */
  readonly dropReplica: boolean;
  /** The server reports its session with Keeper (`system.zookeeper_connection`). */
  readonly keeperSession: boolean;
  /** A database can have a comment. */
  readonly databaseComments: boolean;
  /** Rows that a Distributed table has not sent yet can be sent by a statement (`SYSTEM FLUSH DISTRIBUTED`). */
  readonly flushDistributed: boolean;
}

/** @param version such as `24.8.1.1`. */
export function replicationFeatures(version: string): ReplicationFeatures {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isAtLeast = (year: number, month: number) => major > year || (major === year && minor >= month);
  return {
    insertTokens: isAtLeast(22, 2),
    parallelQuorum: isAtLeast(20, 10),
    lightweightSync: isAtLeast(24, 8),
    dropReplica: isAtLeast(20, 8),
    keeperSession: isAtLeast(24, 8),
    databaseComments: isAtLeast(21, 10),
    flushDistributed: isAtLeast(19, 14),
  };
}
