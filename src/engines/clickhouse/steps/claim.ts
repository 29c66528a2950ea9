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
  const name = await take(server, prefixOf(key));
  try {
    return await work(claimedServer(server, name));
  } finally {
    await drop(server, name);
  }
}

/** Of bringing a server to the definitions of others: a change that takes its claims there ends it. */
export const reconcileKey = 'reconcile';

const prefixOf = (key: string) => `${claimPrefix}${createHash('sha256').update(key).digest('hex').slice(0, 32)}_`;

/** One that stays is taken over, or dropped by its age. */
const drop = (server: ClickHouseServer, name: string) =>
  run(server, `DROP DATABASE IF EXISTS ${quoteIdentifier(name)}`).catch(() => undefined);

/** The claims of a change on servers, one on each, by which calls of its earlier attempts that arrive late are refused. */
export class Claims {
  readonly #prefix: string;
  readonly #confirm: () => Promise<void>;
  readonly #taken = new Map<string, { readonly server: ClickHouseServer; readonly name: string }>();

  /** `confirm`: throws if another process has taken over the change. Whoever does later takes the claims over first. */
  constructor(key: string, confirm: () => Promise<void>) {
    this.#prefix = prefixOf(key);
    this.#confirm = confirm;
  }

  /** Takes the claims on these servers, and ends those of `reconcileKey`. Throws as `withClaim`, and what `confirm` throws. */
  async takeOn(servers: readonly ClickHouseServer[]): Promise<void> {
    const missing = servers.filter(({ name }) => !this.#taken.has(name));
    if (missing.length === 0) return;
    const taking = missing.map(async (server) => {
      this.#taken.set(server.name, { server, name: await take(server, this.#prefix) });
      await endClaim(server, reconcileKey);
    });
    for (const result of await Promise.allSettled(taking)) if (result.status === 'rejected') throw result.reason;
    await this.#confirm();
  }

  /** The server for statements of the change. */
  async of(server: ClickHouseServer): Promise<ClickHouseServer> {
    await this.takeOn([server]);
    return claimedServer(server, this.#taken.get(server.name)?.name ?? '');
  }

  async drop(): Promise<void> {
    await Promise.all([...this.#taken.values()].map(({ server, name }) => drop(server, name)));
  }
}

/** Whoever has the claim on the server can do nothing more. Throws CHANGE_IN_PROGRESS if a statement of it does not end. */
export async function endClaim(server: ClickHouseServer, key: string): Promise<void> {
  const prefix = prefixOf(key);
  const deadline = performance.now() + waitMs;
  for (;;) {
    const { claims: left, isBusy } = await stateOf(server, prefix);
    if (left.length === 0 && !isBusy) return;
    if (performance.now() > deadline) throw inProgress();
    for (const { name } of left) await run(server, `DROP DATABASE IF EXISTS ${quoteIdentifier(name)}`);
    if (isBusy) await pause(pollMs);
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
    const { claims: others, isBusy } = await stateOf(server, prefix);
    if (isBusy || others.some(({ at }) => Math.abs(Date.now() - at) < ownMs)) {
      if (performance.now() > deadline) throw inProgress();
      await pause(pollMs);
      continue;
    }
    attempt++;
    const name = `${prefix}${Date.now().toString(36)}_${randomBytes(4).toString('hex')}`;
    if (await replace(server, others[0]?.name, name)) {
      // Two processes that found none have created one each: it counts for neither.
      const { claims: found, isBusy } = await stateOf(server, prefix);
      if (found.length === 1 && found[0]?.name === name && !isBusy) return name;
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
  return rows.map(({ name }) => claimOf(name));
}

const claimOf = (name: string): Claim => ({ name, at: Number.parseInt(name.split('_').at(-2) ?? '', 36) });

/** The claims of a key, and whether a statement of an earlier one still runs. */
async function stateOf(server: ClickHouseServer, prefix: string) {
  const begins = (column: string) => `startsWith(${column}, ${quoteLiteral(prefix)})`;
  const sql = `SELECT name FROM system.databases WHERE ${begins('name')}
    UNION ALL SELECT '' FROM system.processes WHERE ${begins('current_database')}`;
  const rows = await server.rows<{ name: string }>({ sql, timeoutMs: callTimeoutMs });
  const names = rows.flatMap(({ name }) => name || []);
  return { claims: names.map(claimOf), isBusy: names.length < rows.length };
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
