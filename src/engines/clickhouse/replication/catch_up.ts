// Whether a server has everything that was acknowledged, so that its answers count.
import { setTimeout as pause } from 'node:timers/promises';
import type { ClickHouseServer } from '../connection/server.ts';
import { qualifiedName, quoteLiteral } from '../sql/identifiers.ts';
import { atOnce } from './at_once.ts';
import { activeNode, childrenInKeeper, partsOfOthersInKeeper } from './keeper.ts';
import { missingParts } from './parts.ts';
import { type ReplicaState, replicaStates, startOf } from './replica_states.ts';
import type { ReplicatedTable } from './replicated_tables.ts';
import { replicationFeatures } from './replication_features.ts';

const lagPollMs = 20;

export interface CatchUpOptions {
  /** The tables that the server must have. */
  readonly expected: readonly ReplicatedTable[];
  /** The other servers that answer. Those of other shards are of no use and do no harm. */
  readonly peers: readonly ClickHouseServer[];
  /** For each table. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Why a replica does not count yet. */
export interface NotCaughtUp {
  readonly database: string;
  readonly table: string;
  readonly reason:
    | 'missing'
    | 'read-only'
    | 'session of another process'
    | 'log not read'
    | 'queue not empty'
    | 'parts missing'
    | 'not synchronized';
  readonly detail: string;
}

/**
 * Waits until a server has taken over what its peers have, a few tables at once. @returns the replicas that have not within the time; none: the
 * server counts. Throws if the server does not answer.
 *
 * A server that was killed serves what it has from its start on, which may be nothing, until its former session with Keeper has expired:
 * it is not read-only, its queue is empty, and its log may look read to the end. Parts that other replicas have and it lacks show it, and
 * that its node in Keeper belongs to another session than its own.
 */
export async function catchUp(server: ClickHouseServer, options: CatchUpOptions): Promise<NotCaughtUp[]> {
  const states = new Map((await replicaStates(server, options.timeoutMs)).map((state) => [state.uuid, state]));
  const problems = await atOnce(options.expected, async ({ uuid, database, localTable }) => {
    const state = states.get(uuid);
    const isThere = state?.database === database && state.table === localTable;
    return isThere
      ? catchUpTable(server, state, options)
      : { database, table: localTable, reason: 'missing' as const, detail: '' };
  });
  return problems.flatMap((problem) => problem ?? []);
}

async function catchUpTable(
  server: ClickHouseServer,
  replica: ReplicaState,
  { peers, timeoutMs, signal }: CatchUpOptions,
): Promise<NotCaughtUp | undefined> {
  const problem = (reason: NotCaughtUp['reason'], detail = ''): NotCaughtUp => ({
    database: replica.database,
    table: replica.table,
    reason,
    detail,
  });
  if (replica.isReadOnly) return problem('read-only');
  if (!(await isActive(server, replica, timeoutMs))) return problem('session of another process');
  const partsOfOthers = async () => [
    ...(await partsOfOthersInKeeper(server, replica.path, replica.replica, timeoutMs)),
    ...(await partsOfPeers(replica.path, peers, timeoutMs)),
  ];
  // Before the synchronization: what others merge later is in no part of theirs now.
  const needed = await partsOfOthers();
  try {
    await server.text({ sql: `SYSTEM SYNC REPLICA ${qualifiedName(replica)}`, timeoutMs, signal });
  } catch (error) {
    return problem('not synchronized', (error as Error).message);
  }
  const present = await activeParts(server, replica, timeoutMs);
  const lag = await lagOf(server, replica, timeoutMs);
  if (lag) return problem(lag);
  const missing = missingParts(needed, present);
  // Unless they were dropped meanwhile.
  const stillNeeded = missing.length > 0 ? await partsOfOthers() : [];
  const lacked = missing.filter((name) => missingParts([name], stillNeeded).length === 0);
  return lacked.length > 0 ? problem('parts missing', lacked.slice(0, 3).join(', ')) : undefined;
}

/** Waits for a moment at which the replica has carried out the whole log: while rows are written there are entries at most moments. */
async function lagOf(
  server: ClickHouseServer,
  replica: ReplicaState,
  timeoutMs: number,
): Promise<NotCaughtUp['reason'] | undefined> {
  const endMs = performance.now() + timeoutMs;
  for (;;) {
    const [state] = await replicaStates(server, timeoutMs, replica);
    if (state?.path !== replica.path) return 'missing';
    if (state.isReadOnly) return 'read-only';
    if (state.hasReadLog && state.queueSize === 0) return undefined;
    // Before the first entry there is nothing to read, and no pointer beyond it.
    const isEmpty =
      !state.hasReadLog && (await childrenInKeeper(server, `${replica.path}/log`, timeoutMs)).length === 0;
    if (isEmpty) return undefined;
    if (performance.now() > endMs) return state.hasReadLog ? 'queue not empty' : 'log not read';
    await pause(lagPollMs);
  }
}

/** Whether the replica is active by a session of this process: until then it takes over nothing that is written. */
async function isActive(server: ClickHouseServer, replica: ReplicaState, timeoutMs: number): Promise<boolean> {
  const node = await activeNode(server, replica.path, replica.replica, timeoutMs);
  if (!node) return false;
  if (replicationFeatures(server.version).keeperSession) {
    const sql = 'SELECT toString(client_id) AS session FROM system.zookeeper_connection';
    const sessions = await server.rows<{ session: string }>({ sql, timeoutMs });
    return sessions.some(({ session }) => session === node.session);
  }
  // By clocks, which are of one machine in tests; servers of these versions are not used otherwise.
  return node.createdAtSeconds >= (await startOf(server)) - 1;
}

/** Of the peers that have a replica of the same shard and are not read-only. A peer that does not answer has nothing that is needed. */
async function partsOfPeers(path: string, peers: readonly ClickHouseServer[], timeoutMs: number): Promise<string[]> {
  const lists = await Promise.all(
    peers.map(async (peer) => {
      try {
        const replica = (await replicaStates(peer, timeoutMs)).find((state) => state.path === path);
        return replica ? await activeParts(peer, replica, timeoutMs) : [];
      } catch {
        return [];
      }
    }),
  );
  return [...new Set(lists.flat())];
}

export async function activeParts(
  server: ClickHouseServer,
  { database, table }: { readonly database: string; readonly table: string },
  timeoutMs: number,
): Promise<string[]> {
  const where = `active AND database = ${quoteLiteral(database)} AND table = ${quoteLiteral(table)}`;
  const rows = await server.rows<{ name: string }>({ sql: `SELECT name FROM system.parts WHERE ${where}`, timeoutMs });
  return rows.map(({ name }) => name);
}
