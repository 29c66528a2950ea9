// The connection on which a server reads the feed of changes, and on which PostgreSQL notifies it of the commits of others. The periodic reads
// are what connects it again after it was lost: it listens before the first of them.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Kysely, PostgresDialect, type RawBuilder, sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { Schema } from '../schema.ts';
import type { FeedConnection } from '../store.ts';
import { StoreInUse } from '../store_errors.ts';
import { openPool, type PostgresqlLimits } from './connection_pool.ts';
import type { PostgresqlLocation } from './postgresql_url.ts';

const channel = 'tabularium_changes';
/** Less than the time after which a server counts as not following, so that a lost connection is replaced soon. */
const waits = { connectionsMax: 1, connectMs: 1_500, statementMs: 1_500, graceMs: 500 } as const;

/** PostgreSQL notices within 11 s that the machine of a server is gone. */
const noticeLostMachine = `
  set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3; set tcp_user_timeout = 11000`;
/** How long a server waits for the connection of its previous process to end. */
const claimMs = 15_000;
const claimEveryMs = 200;
const claimAloneMs = 1_000;
/** The key of the advisory lock that each server shares; any number that no one else uses. */
const useLock = 7_104_233_192;

/** By a server, which no other process with its id may use at the same time, or by a command, while no server uses the database. */
export type DatabaseUse = { readonly serverId: string } | 'alone';

export class PostgresqlFeed implements FeedConnection {
  readonly db: Kysely<Schema>;
  /** The notifications of this server's own commits have it. */
  readonly #id = randomUUID();
  readonly #listeners: (() => void)[] = [];
  readonly #use: DatabaseUse | undefined;
  #listening: ClientBase | undefined;

  /** While it is connected, no other process can connect whose use excludes this one. */
  constructor(location: PostgresqlLocation, limits: PostgresqlLimits, use: DatabaseUse | undefined) {
    this.#use = use;
    const onConnect = (client: ClientBase) => this.#listen(client);
    const pool = openPool(location, { ...limits, ...waits }, { name: 'tabularium feed', onConnect });
    this.db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
  }

  /** Connects. Throws StoreInUse if another process is connected that excludes it. */
  async claim(): Promise<void> {
    const deadline = performance.now() + (this.#use === 'alone' ? claimAloneMs : claimMs);
    for (;;) {
      try {
        await sql`select 1`.execute(this.db);
        return;
      } catch (error) {
        const { cause } = error as Error;
        if (!(cause instanceof StoreInUse)) throw error;
        if (performance.now() >= deadline) throw cause;
      }
      await pause(claimEveryMs);
    }
  }

  get isNotified(): boolean {
    return this.#listening !== undefined;
  }

  onNotification(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** An expression for a transaction that writes changes: the other servers are notified when it commits. */
  get notification(): RawBuilder<unknown> {
    return sql`pg_notify(${channel}, ${this.#id})`;
  }

  async #listen(client: ClientBase): Promise<void> {
    client.on('notification', ({ payload }) => {
      if (payload !== this.#id) this.#wake();
    });
    client.once('end', () => {
      if (this.#listening !== client) return;
      this.#listening = undefined;
      this.#wake();
    });
    await this.#lock(client);
    await client.query(`listen ${channel}`);
    this.#listening = client;
  }

  /** The locks end with the connection, as when the process is killed. */
  async #lock(client: ClientBase): Promise<void> {
    const use = this.#use;
    if (use === undefined) return;
    await client.query(noticeLostMachine);
    const isFree = async (lock: string, key: unknown): Promise<boolean> => {
      const { rows } = await client.query(`select ${lock} as locked`, [key]);
      return rows[0].locked;
    };
    if (use === 'alone') {
      if (await isFree('pg_try_advisory_lock($1)', useLock)) return;
      throw new StoreInUse('a server uses the database, or another command: stop all servers that use it first');
    }
    if (!(await isFree('pg_try_advisory_lock_shared($1)', useLock)))
      throw new StoreInUse('the command `store migrate` uses the database: start the server when it has ended');
    if (await isFree('pg_try_advisory_lock(hashtextextended($1, 0))', use.serverId)) return;
    throw new StoreInUse(
      `a server with the same id (${use.serverId}) is using the database: the data directory is a copy of that of the other server. ` +
        'Stop that server, or start this one with another, empty --data-dir',
    );
  }

  #wake(): void {
    for (const listener of this.#listeners) listener();
  }
}
