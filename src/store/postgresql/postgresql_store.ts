// The metadata store as a database of PostgreSQL, which several servers can share.
import { setTimeout as pause } from 'node:timers/promises';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { migrate } from '../migrations/migrate.ts';
import type { Schema } from '../schema.ts';
import { type FaultInjector, movedSetting, type Store } from '../store.ts';
import { StoreUnavailable, StoreUnusable } from '../store_errors.ts';
import { Transactions } from '../transactions.ts';
import { postgresqlColumnTypes } from './column_values.ts';
import { defaultLimits, openPool, type PostgresqlLimits } from './connection_pool.ts';
import { type DatabaseUse, PostgresqlFeed } from './feed_connection.ts';
import { hostsOf, type PostgresqlLocation } from './postgresql_url.ts';
import { retryConflicts } from './retried_conflicts.ts';
import { SearchedTextsDialect } from './searched_texts.ts';
import { TransactionTurns } from './transaction_turns.ts';

export type { PostgresqlLocation } from './postgresql_url.ts';

export interface PostgresqlStoreOptions {
  /** An existing database with the encoding UTF8. Its user may create tables. */
  readonly location: PostgresqlLocation;
  readonly inject?: FaultInjector | undefined;
  readonly limits?: Partial<PostgresqlLimits>;
  /** Absent: other processes are not excluded. */
  readonly use?: DatabaseUse;
}

/** The keys of advisory locks: any numbers that no one else uses. */
const migrationLock = 7_104_233_190;
const changesLock = 7_104_233_191;
const migrationPollMs = 200;

/**
 * Throws StoreUnusable if the database cannot be used, StoreTooNew if a later release wrote it, StoreInUse if another process has opened
 * it for a use that excludes this one.
 */
export async function openPostgresqlStore(options: PostgresqlStoreOptions): Promise<Store> {
  const { location, inject, limits, use } = options;
  const allLimits = { ...defaultLimits, ...limits };
  const dialect = new SearchedTextsDialect({ pool: openPool(location, allLimits, { inject }) });
  const db = new Kysely<Schema>({ dialect });
  const feed = new PostgresqlFeed(location, allLimits, use);
  const close = async () => void (await Promise.all([feed.db.destroy(), db.destroy()]));
  try {
    await prepareAlone(location, allLimits);
    if (use !== undefined) await feed.claim();
    if (use !== 'alone') await requireNotMoved(db);
  } catch (error) {
    await close();
    throw toStoreUnusable(location, error) ?? error;
  }
  const turns = new TransactionTurns(allLimits.turnMs);
  const transactions = new Transactions(db, (transaction) =>
    turns.run(() => retryConflicts(transaction, allLimits.conflictsMs)),
  );
  return {
    db,
    isShared: true,
    feed,
    transaction: (run) => transactions.run(run),
    atEnd(tx, { write, committed }) {
      // Positions of changes have the order of the commits: see writeChanges.
      const writeInOrder = async () => {
        await sql`select pg_advisory_xact_lock(${changesLock}), ${feed.notification}`.execute(tx);
        await write?.();
      };
      transactions.atEnd(tx, { write: write && writeInOrder, committed });
    },
    time: () => timeOf(db),
    vacuum: async (table) => void (await sql`vacuum full ${sql.table(table)}`.execute(db)),
    close,
  };
}

/** Throws StoreUnusable. */
async function requireNotMoved(db: Kysely<Schema>): Promise<void> {
  const row = await db.selectFrom('settings').select('value').where('key', '=', movedSetting).executeTakeFirst();
  if (row)
    throw new StoreUnusable(
      `\`store migrate\` moved the metadata in this database (${row.value}), where it may have been changed since: start the server on that store. ` +
        `To use this database all the same, delete the row ${movedSetting} of its table settings`,
    );
}

async function timeOf(db: Kysely<Schema>): Promise<number> {
  const milliseconds = sql<number>`floor(extract(epoch from clock_timestamp()) * 1000)::bigint`.as('now');
  return (await db.selectNoFrom(milliseconds).executeTakeFirstOrThrow()).now;
}

/** On a connection of its own, because a migration of large tables takes longer than statements of requests may. */
async function prepareAlone(location: PostgresqlLocation, limits: PostgresqlLimits): Promise<void> {
  const own = { ...limits, connectionsMax: 1, statementMs: limits.migrationMs };
  const dialect = new PostgresDialect({ pool: openPool(location, own, { name: 'tabularium migration' }) });
  const db = new Kysely<Schema>({ dialect });
  try {
    await db.connection().execute((connected) => prepare(connected, limits.migrationMs));
  } finally {
    await db.destroy();
  }
}

/** Of several servers that start at once, one migrates and the others wait. After an error, the end of the connection releases the lock. */
async function prepare(db: Kysely<Schema>, waitMs: number): Promise<void> {
  const deadline = performance.now() + waitMs;
  while (!(await isLocked(db))) {
    if (performance.now() >= deadline)
      throw new StoreUnusable(
        `another server has been migrating the database for ${waitMs / 1000} s: start this one when it has ended`,
      );
    await pause(migrationPollMs);
  }
  const { rows } = await sql<{ server_encoding: string }>`show server_encoding`.execute(db);
  const encoding = rows[0]?.server_encoding;
  if (encoding !== 'UTF8') throw new StoreUnusable(`the database has the encoding ${encoding}: create it with UTF8`);
  await migrate(db, postgresqlColumnTypes);
  await createJsonExtract(db);
  await sql`select pg_advisory_unlock(${migrationLock})`.execute(db);
}

async function isLocked(db: Kysely<Schema>): Promise<boolean> {
  const { rows } = await sql<{ locked: boolean }>`select pg_try_advisory_lock(${migrationLock}) as locked`.execute(db);
  return rows[0]?.locked ?? false;
}

/**
 * The function of SQLite by which tasks are found by a field of their request; `path` is `$.` and a name. PostgreSQL reads no JSON with an escaped
 * NUL, in whichever field: see searched_texts.ts.
 */
async function createJsonExtract(db: Kysely<Schema>): Promise<void> {
  await sql`
    create or replace function json_extract(json_text text, path text) returns text
    language sql immutable as $$
      select (case when strpos(json_text, '\\u0000') = 0 then json_text
        else regexp_replace(json_text, '(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000', '\\1\\\\u0001', 'g') end)::json ->> substr(path, 3)
    $$`.execute(db);
}

/** Undefined if the error does not concern the connection to the database. */
function toStoreUnusable(location: PostgresqlLocation, error: unknown): StoreUnusable | undefined {
  const { database } = location;
  const where = hostsOf(location).map(({ host, port }) => `${host}:${port}`);
  const cause = error instanceof StoreUnavailable ? error.cause : error;
  const { code = '', message } = cause as { readonly code?: string; readonly message?: string };
  // Invalid authorization, no such database, insufficient privilege.
  if (!(error instanceof StoreUnavailable) && !/^(28|3D000$|42501$)/.test(code)) return undefined;
  return new StoreUnusable(`the database ${database} at ${where.join(' or ')} cannot be used: ${message}`, {
    cause: error,
  });
}
