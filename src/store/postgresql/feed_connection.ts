// The connection on which a server reads the feed of changes, and on which PostgreSQL notifies it of the commits of others. The periodic reads
// are what connects it again after it was lost: it listens before the first of them.
import { randomUUID } from 'node:crypto';
import { Kysely, PostgresDialect, type RawBuilder, sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { Schema } from '../schema.ts';
import type { FeedConnection } from '../store.ts';
import { openPool, type PostgresqlLimits } from './connection_pool.ts';
import type { PostgresqlLocation } from './postgresql_url.ts';

const channel = 'tabularium_changes';
/** Less than the time after which a server counts as not following, so that a lost connection is replaced soon. */
const waits = { connectionsMax: 1, connectMs: 1_500, statementMs: 1_500, graceMs: 500 } as const;

export class PostgresqlFeed implements FeedConnection {
  readonly db: Kysely<Schema>;
  /** The notifications of this server's own commits have it. */
  readonly #id = randomUUID();
  readonly #listeners: (() => void)[] = [];
  #listening: ClientBase | undefined;

  constructor(location: PostgresqlLocation, limits: PostgresqlLimits) {
    const onConnect = (client: ClientBase) => this.#listen(client);
    const pool = openPool(location, { ...limits, ...waits }, { name: 'tabularium feed', onConnect });
    this.db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
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
    await client.query(`listen ${channel}`);
    this.#listening = client;
  }

  #wake(): void {
    for (const listener of this.#listeners) listener();
  }
}
