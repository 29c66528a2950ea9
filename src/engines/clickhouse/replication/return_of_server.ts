// How a server of a cluster that replicates comes to count, and counts on: what the checks of the cluster ask of this layer.
import { setTimeout as pause } from 'node:timers/promises';
import type { ClickHouseServer } from '../connection/server.ts';
import type { OwnsDatabase } from '../owned_databases.ts';
import { catchUp, type NotCaughtUp } from './catch_up.ts';
import { lostTables } from './lost_tables.ts';
import { type ReconcileOptions, reconcile } from './reconcile.ts';
import { healthTimeoutMs, replicaStates } from './replica_states.ts';
import { macroOf } from './server_macros.ts';
import { readSchema } from './server_schema.ts';

export interface ReturnOptions {
  /** The servers that count. */
  readonly peers: readonly ClickHouseServer[];
  readonly owns: OwnsDatabase;
  /** See `ReconcileOptions`. */
  readonly isDefined?: ReconcileOptions['isDefined'];
  readonly signal: AbortSignal;
}

/** For a statement, and for each table to catch up. */
const callMs = 5000;

/**
 * Gives a server what it missed, and waits until it has it. @returns what it lacks; undefined: it counts. Throws what a server answers.
 *
 * While no other server counts there is nothing to compare with: then it must have all tables that Keeper knows it to have, and all their parts.
 */
export async function takeBack(server: ClickHouseServer, options: ReturnOptions): Promise<string | undefined> {
  const { peers, owns, isDefined, signal } = options;
  if (peers.length > 0) {
    await reconcile(server, { peers, owns, isDefined, timeoutMs: callMs, signal });
  } else {
    const [replica, shard] = await Promise.all([macroOf(server, 'replica', callMs), macroOf(server, 'shard', callMs)]);
    const lost = await lostTables(server, { replica, shard, timeoutMs: callMs });
    if (lost.length > 0) return `it has lost ${lost.length} tables, and no other server is available that has them`;
  }
  const { objects } = await readSchema(server, owns, callMs);
  const expected = objects.flatMap(({ uuid, database, name }) => (uuid ? [{ uuid, database, localTable: name }] : []));
  const behind = await catchUp(server, { expected, peers, timeoutMs: callMs, signal });
  return behind[0] && `${behind.length} of its tables have not caught up: ${reasons[behind[0].reason]}`;
}

/** Throws what a server answers, and a TypeError without peers. */
export async function followNames(
  server: ClickHouseServer,
  { peers, owns, isDefined }: Omit<ReturnOptions, 'signal'>,
): Promise<void> {
  await reconcile(server, { peers, owns, isDefined, timeoutMs: callMs, isWithoutCreation: true });
}

const reasons: Readonly<Record<NotCaughtUp['reason'], string>> = {
  missing: 'a table is missing',
  'read-only': 'it has no session with Keeper',
  'session of another process': 'the session of its former process has not expired',
  'log not read': 'changes of other replicas are not read',
  'queue not empty': 'changes of other replicas are not carried out',
  'parts missing': 'it lacks parts that other replicas have',
  'not synchronized': 'it did not synchronize in time',
};

/** A table that is being created or dropped is read-only for a moment, which is no loss of Keeper. */
const settledMs = 1000;

/**
 * Whether a server that counts is cut off from Keeper while another one is not, so that rows are written without it. @returns why it counts no
 * more. While no server has Keeper nothing is written, and all of them remain right for reading.
 */
export async function cutOff(
  server: ClickHouseServer,
  peers: readonly ClickHouseServer[],
): Promise<string | undefined> {
  const before = await readOnlyPaths(server);
  if (before.size === 0) return undefined;
  await pause(settledMs);
  const paths = before.intersection(await readOnlyPaths(server));
  if (paths.size === 0) return undefined;
  for (const peer of peers) {
    const states = await replicaStates(peer, healthTimeoutMs).catch(() => []);
    if (states.some(({ path, isReadOnly }) => !isReadOnly && paths.has(path))) return reasons['read-only'];
  }
  return undefined;
}

async function readOnlyPaths(server: ClickHouseServer): Promise<ReadonlySet<string>> {
  const states = await replicaStates(server, healthTimeoutMs);
  return new Set(states.flatMap(({ path, isReadOnly }) => (isReadOnly ? [path] : [])));
}
