// The right to do the work of a step on a server: whoever repeats the step takes it over, and a process that had it before, and was only slow,
// can do nothing more. A claim is an empty database; statements are sent with it as their database, and a server refuses a statement whose
// database does not exist before it does anything.
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Failure } from '../../../standard/failure.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';
import { internalDatabase } from '../names.ts';
import { isAbsent } from '../replication/server_errors.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';

export const claimPrefix = `${internalDatabase}_claim_`;
const callTimeoutMs = 10_000;
/** A younger claim is left to whoever has it; by the clocks of this and of that process. */
const ownMs = 3000;
/** For the end of what others do. */
const waitMs = 20_000;
const pollMs = 200;
const attemptsMax = 10;

interface Claim {
  readonly name: string;
  readonly at: number;
}

/**
 * Runs work of which at most one process does at a time what changes the server: only statements of `claimed` do. Throws CHANGE_IN_PROGRESS if
 * another one has taken over, or does not end.
 */
export async function withClaim<T>(
  server: ClickHouseServer,
  key: string,
  work: (claimed: ClickHouseServer) => Promise<T>,
): Promise<T> {
  const prefix = `${claimPrefix}${createHash('sha256').update(key).digest('hex').slice(0, 32)}_`;
  const name = await take(server, prefix);
  try {
    return await work(claimedServer(server, name));
  } finally {
    await run(server, `DROP DATABASE IF EXISTS ${quoteIdentifier(name)}`).catch(() => undefined);
  }
}

/** Drops the claims of processes that have ended, older than this. */
export async function dropClaims(server: ClickHouseServer, olderThanMs: number): Promise<void> {
  for (const { name, at } of await claims(server, claimPrefix))
    if (Date.now() - at > olderThanMs) await run(server, `DROP DATABASE IF EXISTS ${quoteIdentifier(name)}`);
}

async function take(server: ClickHouseServer, prefix: string): Promise<string> {
  const deadline = performance.now() + waitMs;
  for (let attempt = 0; attempt < attemptsMax; ) {
    const others = await claims(server, prefix);
    if (others.some(({ at }) => Math.abs(Date.now() - at) < ownMs) || (await isBusy(server, prefix))) {
      if (performance.now() > deadline) throw inProgress();
      await pause(pollMs);
      continue;
    }
    attempt++;
    const name = `${prefix}${Date.now().toString(36)}_${randomBytes(4).toString('hex')}`;
    if (await replace(server, others[0]?.name, name)) {
      // Two processes that found none have created one each: it counts for neither.
      const found = await claims(server, prefix);
      if (found.length === 1 && found[0]?.name === name && !(await isBusy(server, prefix))) return name;
      for (const claim of found) await run(server, `DROP DATABASE IF EXISTS ${quoteIdentifier(claim.name)}`);
    }
    await pause(pollMs * Math.random());
  }
  throw inProgress();
}

/** @returns false if another process was faster. */
async function replace(server: ClickHouseServer, existing: string | undefined, name: string): Promise<boolean> {
  const to = quoteIdentifier(name);
  try {
    await run(
      server,
      existing === undefined
        ? `CREATE DATABASE ${to} ENGINE = Atomic`
        : `RENAME DATABASE ${quoteIdentifier(existing)} TO ${to}`,
    );
    return true;
  } catch (error) {
    if (isAbsent(error)) return false;
    throw error;
  }
}

async function claims(server: ClickHouseServer, prefix: string): Promise<readonly Claim[]> {
  const sql = `SELECT name FROM system.databases WHERE startsWith(name, ${quoteLiteral(prefix)})`;
  const rows = await server.rows<{ name: string }>({ sql, timeoutMs: callTimeoutMs });
  return rows.map(({ name }) => ({ name, at: Number.parseInt(name.split('_').at(-2) ?? '', 36) }));
}

/** Whether a statement of an earlier claim still runs. */
async function isBusy(server: ClickHouseServer, prefix: string): Promise<boolean> {
  const sql = `SELECT 1 AS found FROM system.processes WHERE startsWith(current_database, ${quoteLiteral(prefix)}) LIMIT 1`;
  return (await server.rows({ sql, timeoutMs: callTimeoutMs })).length > 0;
}

const run = (server: ClickHouseServer, sql: string) => server.text({ sql, timeoutMs: callTimeoutMs });

function claimedServer(server: ClickHouseServer, database: string): ClickHouseServer {
  const guarded = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      if (error instanceof ClickHouseError && isAbsent(error) && !(await isHeld(server, database)))
        throw inProgress(error);
      throw error;
    }
  };
  return {
    name: server.name,
    get version() {
      return server.version;
    },
    text: (call) => guarded(server.text({ ...call, database })),
    rows: <Row extends object>(call: ServerCall) => guarded(server.rows<Row>({ ...call, database })),
    stream: (call) => guarded(server.stream({ ...call, database })),
  };
}

async function isHeld(server: ClickHouseServer, database: string): Promise<boolean> {
  const found = await claims(server, database);
  return found.some(({ name }) => name === database);
}

const inProgress = (cause?: unknown): Failure =>
  new Failure('CHANGE_IN_PROGRESS', 'another server does this change', {}, { cause, outcome: 'unknown' });
