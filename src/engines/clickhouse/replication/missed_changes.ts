// What a server missed while it was out of service: tables that its peers have dropped, and tables that they have under other names.
import type { ClickHouseServer } from '../connection/server.ts';
import { type OwnsDatabase, readDatabases } from '../owned_databases.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { replicasInKeeper } from './keeper.ts';
import { type ReplicaState, replicaStates } from './replica_states.ts';

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
  readonly timeoutMs: number;
}

/**
 * The replicas of a server in databases that are not owned, of tables that peers have in databases that are, such as those that were moved aside.
 * Throws what the server answers.
 */
export async function strayReplicas(
  server: ClickHouseServer,
  { peers, owns, timeoutMs }: StrayOptions,
): Promise<readonly ReplicaState[]> {
  const replicasOf = async (on: ClickHouseServer) => {
    const [states, databases] = await Promise.all([replicaStates(on, timeoutMs), readDatabases(on, { timeoutMs })]);
    const owned = new Set(databases.filter(owns).map(({ name }) => name));
    return states.map((state) => ({ state, isOwned: owned.has(state.database) }));
  };
  const candidates = (await replicasOf(server)).flatMap(({ state, isOwned }) => (isOwned ? [] : [state]));
  if (candidates.length === 0) return [];
  const ofPeers = await Promise.all(peers.map((peer) => replicasOf(peer).catch(() => [])));
  const known = new Set(ofPeers.flat().flatMap(({ state, isOwned }) => (isOwned ? [state.uuid] : [])));
  return candidates.filter(({ uuid }) => known.has(uuid));
}

/** What was moved aside is in a database of its own, of which each table stands for itself. */
export const asideDatabase = '_tabularium_aside';
