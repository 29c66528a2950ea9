// What a server missed while it was out of service: tables that its peers have dropped, and tables that they have under other names.
import type { ClickHouseServer } from '../connection/server.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { replicasInKeeper } from './keeper.ts';
import { type ReplicaState, replicaStates } from './replica_states.ts';
import type { OwnsDatabase } from './server_schema.ts';

/**
 * Whether the replicas that other servers had of a table were dropped, by the path of the table and the name of the server's own replica. A drop
 * removes a replica from Keeper, a lost disk does not. So the others were dropped if none is registered there, and at least one has been: a table
 * that only ever had this replica is not proven to be dropped. Throws what the server answers.
 */
export async function isProvenDropped(
  server: ClickHouseServer,
  { path, replica }: Pick<ReplicaState, 'path' | 'replica'>,
  timeoutMs: number,
): Promise<boolean> {
  const registered = await replicasInKeeper(server, path, timeoutMs);
  if (!registered.includes(replica) || registered.some((other) => other !== replica)) return false;
  // The counter of the children of a node: 1 if this replica is the only one that was ever made.
  const where = `path = ${quoteLiteral(path)} AND name = 'replicas'`;
  const sql = `SELECT toInt32(cversion) AS changes FROM system.zookeeper WHERE ${where}`;
  const [node] = await server.rows<{ changes: number }>({ sql, timeoutMs });
  return node !== undefined && node.changes > 1;
}

export interface StrayOptions {
  /** The servers that count. */
  readonly peers: readonly ClickHouseServer[];
  readonly owns: OwnsDatabase;
  /** Whether a database belongs to a catalog of another warehouse, which may be on the same servers, as of the call. Absent: none does. */
  readonly ofOthers?: (() => Promise<OwnsDatabase>) | undefined;
  readonly timeoutMs: number;
}

/**
 * The replicas of a server in former databases: they are not owned, and have tables that peers have in databases that are, because catalogs had
 * other names before. Throws what the server answers.
 */
export async function strayReplicas(
  server: ClickHouseServer,
  { peers, owns, ofOthers, timeoutMs }: StrayOptions,
): Promise<readonly ReplicaState[]> {
  const candidates = (await replicaStates(server, timeoutMs)).filter(({ database }) => !owns(database));
  if (candidates.length === 0) return [];
  const ofPeers = await Promise.all(
    peers.map((peer) => replicaStates(peer, timeoutMs).catch((): ReplicaState[] => [])),
  );
  const owned = new Set(ofPeers.flat().flatMap(({ database, uuid }) => (owns(database) ? [uuid] : [])));
  return straysAmong(candidates, (uuid) => owned.has(uuid), (await ofOthers?.()) ?? (() => false));
}

/** What was moved aside is in a database of its own, of which each table stands for itself. */
export const asideDatabase = '_tabularium_aside';

/**
 * @param candidates in databases that are not owned. @param isKnown whether peers have the table of this UUID.
 * @param ofOthers the name may have become that of a catalog of another warehouse: its tables are there, too.
 */
export function straysAmong<T extends { readonly database: string; readonly uuid?: string | undefined }>(
  candidates: readonly T[],
  isKnown: (uuid: string) => boolean,
  ofOthers: OwnsDatabase,
): readonly T[] {
  const known = candidates.filter(({ uuid }) => uuid !== undefined && isKnown(uuid));
  const isFormer = (database: string) => database !== asideDatabase && !ofOthers(database);
  const former = new Set(known.map(({ database }) => database).filter(isFormer));
  return candidates.filter((each) => each.uuid !== undefined && (former.has(each.database) || known.includes(each)));
}
