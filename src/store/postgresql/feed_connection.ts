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

export class PostgresqlFeed implements FeedConnection {
  readonly db: Kysely<Schema>;
  /** The notifications of this server's own commits have it. */
  readonly #id = randomUUID();
  readonly #listeners: (() => void)[] = [];
  readonly #serverId: string | undefined;
  #listening: ClientBase | undefined;

  /** While it is connected, no other server can connect with the same `serverId`. */
  constructor(location: PostgresqlLocation, limits: PostgresqlLimits, serverId: string | undefined) {
    this.#serverId = serverId;
    const onConnect = (client: ClientBase) => this.#listen(client);
    const pool = openPool(location, { ...limits, ...waits }, { name: 'tabularium feed', onConnect });
    this.db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
  }

  /** Connects. Throws StoreInUse if another process is connected with the id of this server. */
  async claim(): Promise<void> {
    const deadline = performance.now() + claimMs;
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

  /** The lock ends with the connection, as when the process is killed. */
  async #lock(client: ClientBase): Promise<void> {
    const id = this.#serverId;
    if (id === undefined) return;
    await client.query(noticeLostMachine);
    const { rows } = await client.query('select pg_try_advisory_lock(hashtextextended($1, 0)) as locked', [id]);
    if (rows[0].locked) return;
    throw new StoreInUse(
      `a server with the same id (${id}) is using the database: the data directory is a copy of that of the other server. ` +
        'Stop that server, or start this one with another, empty --data-dir',
    );
  }

  #wake(): void {
    for (const listener of this.#listeners) listener();
  }
}
