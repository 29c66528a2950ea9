// How far a server is with a mutation: whether it knows it, has carried it out, or cannot.
import { setTimeout as pause } from 'node:timers/promises';
import { Failure } from '../../../standard/failure.ts';
import type { ReportProgress } from '../../port/work.ts';
import { type ClickHouseError, parseError, serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseCluster, ClickHouseServer } from '../connection/server.ts';
import { type ProgressWatch, watchFraction } from '../query/progress.ts';
import { hasMutationInKeeper, pathInKeeper } from '../replication/keeper.ts';
import { quoteLiteral } from '../sql/identifiers.ts';

/** A mutation with a mark in its command. */
export interface MutationName {
  readonly mark: string;
  readonly database: string;
  readonly localTable: string;
}

const callTimeoutMs = 10_000;
const pollMsMin = 50;
const pollMsMax = 2000;
/** Of mutations that have ended, servers forget all but the latest ones: this many by default. */
const keptByDefault = 100;
/** By how much the clocks of servers differ at most. */
const clockSeconds = 60;

/** A mutation that does not come to its end: it was killed, or cannot be computed. Some of the rows may have been changed. */
export class MutationEnded extends Error {
  override name = 'MutationEnded';
}

const ofTable = ({ database, localTable }: MutationName): string =>
  `database = ${quoteLiteral(database)} AND table = ${quoteLiteral(localTable)}`;

const isOfMutation = (mutation: MutationName): string =>
  `${ofTable(mutation)} AND position(command, ${quoteLiteral(mutation.mark)}) > 0`;

export const killMutation = (server: ClickHouseServer, mutation: MutationName): Promise<string> =>
  server.text({ sql: `KILL MUTATION WHERE ${isOfMutation(mutation)}`, timeoutMs: callTimeoutMs });

interface Progress {
  readonly isPending: boolean;
  /** Why it has failed the last time; empty if it has not. */
  readonly reason: string;
}

async function progressOf(server: ClickHouseServer, mutation: MutationName): Promise<Progress | undefined> {
  const sql =
    'SELECT toString(count()) AS known, toString(countIf(is_done = 0)) AS pending, maxIf(latest_fail_reason, is_done = 0) AS reason ' +
    `FROM system.mutations WHERE ${isOfMutation(mutation)}`;
  const settings = { aggregate_functions_null_for_empty: 0 };
  const [row] = await server.rows<{ known: string; pending: string; reason: string }>({
    sql,
    settings,
    timeoutMs: callTimeoutMs,
  });
  if (!row || row.known === '0') return undefined;
  return { isPending: row.pending !== '0', reason: row.reason };
}

/** Reports which part of the parts of its table it has rewritten, on one replica of each shard. */
export const watchMutation = (
  cluster: ClickHouseCluster,
  mutation: MutationName,
  report: ReportProgress | undefined,
): ProgressWatch =>
  watchFraction(report, async () => {
    const sql =
      `SELECT toString(count()) AS known, toString(sum(parts_to_do)) AS left, ` +
      `toString((SELECT count() FROM system.parts WHERE active AND ${ofTable(mutation)})) AS all ` +
      `FROM system.mutations WHERE ${isOfMutation(mutation)}`;
    const settings = { aggregate_functions_null_for_empty: 0 };
    const ask = ([server]: readonly ClickHouseServer[]) =>
      server?.rows<Record<'known' | 'left' | 'all', string>>({ sql, settings, timeoutMs: callTimeoutMs }) ?? [];
    const rows = (await Promise.all(cluster.availableOfShards().map(ask))).flat();
    const all = rows.reduce((sum, row) => sum + Number(row.all), 0);
    const left = rows.reduce((sum, row) => sum + Number(row.known === '0' ? row.all : row.left), 0);
    return all === 0 ? 0 : Math.max(0, 1 - left / all);
  });

/** Whether it was begun: a replica learns of it a moment after the one that it was sent to, and has it in Keeper before that. */
export async function isKnown(server: ClickHouseServer, mutation: MutationName): Promise<boolean> {
  if (await progressOf(server, mutation)) return true;
  const { database, localTable, mark } = mutation;
  const path = await pathInKeeper(server, { database, table: localTable }, callTimeoutMs);
  return path !== undefined && (await hasMutationInKeeper(server, path, mark, callTimeoutMs));
}

/**
 * Whether a server that does not know the mutation may have carried it out: since then, so many others have ended that it was forgotten.
 * `atSeconds`: before which it was not begun, since 1970.
 */
export async function mayBeForgotten(
  server: ClickHouseServer,
  mutation: MutationName,
  atSeconds: number,
): Promise<boolean> {
  const settingsTable = (name: string) =>
    `(SELECT any(value) FROM system.${name} WHERE name = 'finished_mutations_to_keep')`;
  const sql =
    `SELECT toString(countIf(is_done)) AS ended, toString(countIf(is_done AND toUnixTimestamp(create_time) < ${atSeconds - clockSeconds})) AS older, ` +
    `(SELECT any(engine_full) FROM system.tables WHERE database = ${quoteLiteral(mutation.database)} AND name = ${quoteLiteral(mutation.localTable)}) AS engine, ` +
    `${settingsTable('merge_tree_settings')} AS plain, ${settingsTable('replicated_merge_tree_settings')} AS replicated ` +
    `FROM system.mutations WHERE ${ofTable(mutation)}`;
  const [row] = await server.rows<Readonly<Record<'ended' | 'older' | 'engine' | 'plain' | 'replicated', string>>>({
    sql,
    settings: { aggregate_functions_null_for_empty: 0 },
    timeoutMs: callTimeoutMs,
  });
  if (!row) return true;
  const [, ofItsOwn] = /\bfinished_mutations_to_keep = (\d+)/.exec(row.engine) ?? [];
  const ofServer = /^Replicated/.test(row.engine) ? row.replicated : row.plain;
  const kept = Number(ofItsOwn ?? (ofServer || keptByDefault));
  // The earliest are forgotten first.
  return kept > 0 && Number(row.ended) >= kept && row.older === '0';
}

/**
 * Resolves when this server has carried out a mutation that it knows. Throws MutationEnded if it does not come to its end, or is not known any more,
 * and WAREHOUSE_FAILED after `timeoutMs`.
 */
export async function waitForMutation(
  server: ClickHouseServer,
  mutation: MutationName,
  timeoutMs: number,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = pollMsMin; performance.now() < deadline; pauseMs = Math.min(2 * pauseMs, pollMsMax)) {
    const progress = await progressOf(server, mutation);
    if (progress && !progress.isPending) return;
    const failed = progress && permanentFailure(progress.reason);
    if (failed) throw new MutationEnded('the mutation cannot be computed', { cause: failed });
    // Killed, or ended and forgotten, or its table is another one: none of it says that the rows were changed.
    if (!progress && !(await isKnown(server, mutation))) throw new MutationEnded('the mutation is not known any more');
    await pause(pauseMs);
  }
  const message = 'the servers of the warehouse do not end a change of rows';
  throw new Failure('WAREHOUSE_FAILED', message, {}, { outcome: 'unknown' });
}

/** Why a mutation does not come to its end, after a statement that waits for it has failed; undefined if it still may. */
export async function endOf(server: ClickHouseServer, mutation: MutationName): Promise<MutationEnded | undefined> {
  const progress = await progressOf(server, mutation);
  if (!progress && !(await isKnown(server, mutation))) return new MutationEnded('the mutation was killed');
  const failed = progress?.isPending ? permanentFailure(progress.reason) : undefined;
  return failed && new MutationEnded('the mutation cannot be computed', { cause: failed });
}

/** Not a condition of the server, after which it succeeds when it is tried again. */
function permanentFailure(reason: string): ClickHouseError | undefined {
  const error = parseError(reason);
  return error && serverFailure(error) === error && !passing.has(error.code) ? error : undefined;
}

/** Of files and parts that are missing or damaged, and what a server calls a defect of its own. */
const passing: ReadonlySet<number> = new Set([49, 74, 75, 76, 95, 107, 173, 228, 232, 246, 271, 384, 1000, 1001, 1002]);
