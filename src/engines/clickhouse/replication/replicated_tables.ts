// Where replicas of a table find each other: paths in Keeper, which are never used again, and the engine clause of the tables of rows.

/** A table of rows, of which each server has the replica of its shard. */
export interface ReplicatedTable {
  /** Part of its path, and never used for another table: what a lost replica left there would be taken for its own. */
  readonly uuid: string;
  /** As stored (`StoredNames`). */
  readonly database: string;
  readonly localTable: string;
}

const root = '/tabularium';
const uuidPattern = /^[0-9a-f-]{32,36}$/;
const pathPattern = new RegExp(`^${root}/([0-9a-f-]{32,36})/([^/]+)$`);

export const isTableUuid = (text: string): boolean => uuidPattern.test(text);

/** The path under which the replicas of all shards are. */
export function pathOfTable(uuid: string): string {
  // It becomes part of SQL.
  if (!isTableUuid(uuid)) throw new TypeError(`not the UUID of a table: ${uuid}`);
  return `${root}/${uuid}`;
}

/** The engine of the table with the rows of one server, which replaces `{shard}` and `{replica}` itself. */
export const replicatedEngine = (uuid: string): string =>
  `ReplicatedMergeTree('${pathOfTable(uuid)}/{shard}', '{replica}')`;

/** What `system.replicas.zookeeper_path` says of a table; undefined if it is none of this product. */
export function tableOfPath(path: string): { readonly uuid: string; readonly shard: string } | undefined {
  const [, uuid, shard] = pathPattern.exec(path) ?? [];
  return uuid === undefined || shard === undefined ? undefined : { uuid, shard };
}
