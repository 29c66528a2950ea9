// The connections to PostgreSQL, as Kysely's dialect uses them. Every wait has a deadline, a statement outside a transaction is repeated
// after a conflict, and errors of the connection are Failures.
import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import { type ClientBase, DatabaseError, Pool, type PoolClient, type PoolConfig } from 'pg';
import type { FaultInjector } from '../store.ts';
import { StoreFull, StoreUnavailable } from '../store_errors.ts';
import { columnValues } from './column_values.ts';
import { hostsOf, type PostgresqlLocation } from './postgresql_url.ts';
import { retryConflicts } from './retried_conflicts.ts';

/** In milliseconds, except the first. */
export interface PostgresqlLimits {
  readonly connectionsMax: number;
  /** Waiting for a connection of the pool, and for the server to accept one. */
  readonly connectMs: number;
  readonly statementMs: number;
  readonly lockMs: number;
  /**
   * A transaction whose client sends no statement is rolled back: a server that is frozen in one holds locks that all others wait for. Less
   * than the time of a lease.
   */
  readonly idleInTransactionMs: number;
  /** Repeating a transaction, or a statement outside one, after conflicts. */
  readonly conflictsMs: number;
  /** Waiting for the transactions of the same server that began before. */
  readonly turnMs: number;
  /** Waiting for another server that migrates the database, and each statement of a migration. */
  readonly migrationMs: number;
  /** How much later than the server the client gives up: the server does not answer at all. */
  readonly graceMs: number;
}

export const defaultLimits: PostgresqlLimits = {
  connectionsMax: 10,
  connectMs: 5_000,
  statementMs: 30_000,
  lockMs: 10_000,
  idleInTransactionMs: 4_000,
  conflictsMs: 15_000,
  turnMs: 15_000,
  migrationMs: 600_000,
  graceMs: 5_000,
};

const diskFull = '53100';
/** Classes and codes of errors after which the same statement may succeed later: the connection, the resources or the server are missing. */
const unavailable = /^(08|53|57P|25006$|25P03$|55P03$|57014$)/;
/** The server has become a standby since the connection was made: read_only_sql_transaction. */
const readOnly = '25006';

/** The database accepts no changes, as that of a standby. */
class ReadOnlyDatabase extends Error {
  override name = 'ReadOnlyDatabase';
}

export interface PoolUse {
  readonly inject?: FaultInjector | undefined;
  /** Shown by PostgreSQL, in pg_stat_activity. */
  readonly name?: string;
  /** Called with each new connection, before it is used. */
  readonly onConnect?: (client: ClientBase) => Promise<void>;
}

export function openPool(location: PostgresqlLocation, limits: PostgresqlLimits, use: PoolUse = {}): PostgresPool {
  const pools = hostsOf(location).map((host) => openPoolOf({ ...location, ...host }, limits, use));
  let current = 0;
  /** Tries the host of the last connection first. */
  const connect = async (): Promise<PoolClient> => {
    let failure: unknown;
    for (let tried = 0; tried < pools.length; tried++) {
      const attempted = current;
      try {
        return await (pools[attempted] as Pool).connect();
      } catch (error) {
        // A host that is no standby says more than one that is.
        if (failure === undefined || failure instanceof ReadOnlyDatabase) failure = error;
        if (current === attempted) current = (attempted + 1) % pools.length;
      }
    }
    throw failure;
  };
  return {
    options: (pools[0] as Pool).options,
    async connect() {
      const client = await connect().catch((error: unknown) => {
        throw toStoreError(error);
      });
      return new StoreConnection(client, limits, use.inject);
    },
    end: async () => void (await Promise.all(pools.map((pool) => pool.end()))),
  };
}

function openPoolOf(
  { tls, others: _, ...location }: PostgresqlLocation,
  limits: PostgresqlLimits,
  { name = 'tabularium', onConnect }: PoolUse,
): Pool {
  const options: PoolConfig = {
    ...location,
    ssl: tls ?? false,
    max: limits.connectionsMax,
    connectionTimeoutMillis: limits.connectMs,
    statement_timeout: limits.statementMs,
    query_timeout: limits.statementMs + limits.graceMs,
    lock_timeout: limits.lockMs,
    idle_in_transaction_session_timeout: limits.idleInTransactionMs,
    options: '-c default_transaction_isolation=serializable -c client_min_messages=warning',
    application_name: name,
    keepAlive: true,
    types: columnValues,
    async onConnect(client) {
      await requireWritable(client);
      await onConnect?.(client);
    },
  };
  const pool = new Pool(options);
  // A lost connection also fails its next statement; without listeners, the event would end the process.
  pool.on('error', () => {});
  pool.on('connect', (client) => void client.on('error', () => {}));
  return pool;
}

async function requireWritable(client: ClientBase): Promise<void> {
  const { rows } = await client.query('show transaction_read_only');
  if (rows[0].transaction_read_only === 'on')
    throw new ReadOnlyDatabase(
      'it accepts no changes (a standby, or a database that is set to read only): name the primary server',
    );
}

/** One use of a connection, from its pool and back. */
class StoreConnection implements PostgresPoolClient {
  readonly #client: PoolClient;
  readonly #limits: PostgresqlLimits;
  readonly #inject: FaultInjector | undefined;
  #isInTransaction = false;
  #isLost = false;
  /** Why the open transaction can no longer commit: later statements fail for that reason too. */
  #reason: unknown;

  constructor(client: PoolClient, limits: PostgresqlLimits, inject: FaultInjector | undefined) {
    this.#client = client;
    this.#limits = limits;
    this.#inject = inject;
  }

  query<R>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
  query<R>(
    sql: string | PostgresCursor<R>,
    parameters: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<R>> | PostgresCursor<R> {
    if (typeof sql !== 'string') throw new Error('rows of the store are read in pages, not streamed');
    return this.#execute<R>(sql, parameters);
  }

  release(isDiscarded?: boolean): void {
    this.#client.release(isDiscarded || this.#isLost || this.#isInTransaction);
  }

  async #execute<R>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>> {
    this.#inject?.({ sql, parameters });
    if (sql === 'begin') return this.#begin();
    if (sql === 'commit' || sql === 'rollback') return this.#end(sql);
    if (this.#isInTransaction) return this.#run(sql, parameters);
    return retryConflicts(() => this.#run<R>(sql, parameters), this.#limits.conflictsMs);
  }

  async #begin<R>(): Promise<PostgresQueryResult<R>> {
    const result = await this.#run<R>('begin', []);
    this.#isInTransaction = true;
    this.#reason = undefined;
    return result;
  }

  async #end<R>(sql: 'commit' | 'rollback'): Promise<PostgresQueryResult<R>> {
    // The server has rolled back the transaction of a lost connection, or will.
    if (sql === 'rollback' && this.#isLost) return { command: 'ROLLBACK', rowCount: 0, rows: [] };
    if (sql === 'commit' && this.#reason !== undefined) throw this.#reason;
    const result = await this.#run<R>(sql, []);
    this.#isInTransaction = false;
    return result;
  }

  async #run<R>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>> {
    try {
      const { command, rowCount, rows } = await this.#client.query(sql, [...parameters]);
      return { command, rowCount, rows } as PostgresQueryResult<R>;
    } catch (error) {
      const translated = toStoreError(error);
      const isEnded =
        error instanceof DatabaseError ? error.severity === 'FATAL' || error.code === readOnly : translated !== error;
      if (isEnded) this.#isLost = true;
      this.#reason ??= translated;
      throw this.#isInTransaction ? this.#reason : translated;
    }
  }
}

/** Errors of a statement and of a column's value are returned unchanged. */
function toStoreError(error: unknown): unknown {
  if (error instanceof RangeError) return error;
  if (!(error instanceof DatabaseError)) return new StoreUnavailable('the metadata store does not respond', error);
  const { code = '' } = error;
  if (code === diskFull) return new StoreFull(error);
  return unavailable.test(code) ? new StoreUnavailable('the metadata store does not respond', error) : error;
}
