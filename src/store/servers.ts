// The servers of a shared store. Each has a row with the URL at which the others reach it, a lease that it renews every second, and a
// report of its state, and keeps the rows of the others in memory. A server whose lease has expired is down.
import { type RawBuilder, type Selectable, sql, type Transaction } from 'kysely';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import { type LeaseHolder, leaseMs, renewEveryMs } from './leases.ts';
import type { Schema, ServersTable } from './schema.ts';
import type { Store } from './store.ts';

export interface ServersOptions {
  readonly store: Store;
  readonly serverId: string;
  /** The leases of this process follow the clock of the store, which the heartbeat reads. */
  readonly holder: Pick<LeaseHolder, 'contact' | 'storeTime' | 'expiredUntil' | 'leasing' | 'leased' | 'unleased'>;
  readonly release: string;
  /** The state that the others read, as JSON. */
  readonly report: () => Promise<string>;
  readonly observe: Observe;
  readonly clock?: (() => number) | undefined;
}

/** A server of the API, as the others see it. */
export interface ServerState {
  readonly id: string;
  /** Whether its lease has not expired. */
  readonly isAvailable: boolean;
  /** Whether it is this server. */
  readonly isCurrent: boolean;
  /** Whether it alone uses its store. */
  readonly isAlone: boolean;
  readonly release: string;
  /** In milliseconds since 1970. */
  readonly startedAt: number;
}

export interface OtherServer {
  readonly id: string;
  readonly url: string;
  readonly report: string;
}

/** Called when the report of another server differs from its previous one; undefined: there was none. */
type ReportListener = (serverId: string, report: string, previous: string | undefined) => void;

type Expiry = Pick<LeaseHolder, 'serverId' | 'expiredUntil'>;

/** Rows of another server that has stopped, whose lease has expired, or that was removed, by their column `server_id`. */
export const isOfLostServer = (holder: Expiry, now: number): RawBuilder<boolean> =>
  sql<boolean>`(server_id is not null and server_id <> ${holder.serverId ?? ''} and not exists
    (select 1 from servers where servers.id = server_id and servers.lease_until > ${holder.expiredUntil(now)}))`;

/** Rows that this server removes when they have expired. What a lost server has of them, it removes itself if it ever starts again. */
export const isSweptHere = (holder: Expiry, now: number): RawBuilder<boolean> =>
  sql<boolean>`(server_id is null or server_id = ${holder.serverId ?? ''} or ${isOfLostServer(holder, now)})`;

/** The columns of a statement whose server has stopped. */
export const interruptedStatement = {
  state: 'failed',
  error_code: 'STATEMENT_INTERRUPTED',
  error_message: 'the server that ran the statement has stopped; a writing statement may have been applied',
  server_id: null,
} as const;

/** The clock of the store is not read from an answer that took longer. */
const clockReadMsMax = 500;

export class Servers {
  readonly #options: ServersOptions;
  readonly #ownClock: () => number;
  #url = '';
  readonly #listeners: ReportListener[] = [];
  #others: ReadonlyMap<string, Selectable<ServersTable>> = new Map();
  #startedAt = 0;
  #offsetMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<void> | undefined;

  constructor(options: ServersOptions) {
    this.#options = options;
    this.#ownClock = options.clock ?? Date.now;
  }

  /** By the clock of the store. */
  #clock(): number {
    return this.#options.holder.storeTime(this.#ownClock());
  }

  get serverId(): string {
    return this.#options.serverId;
  }

  /**
   * Removes the row of another server. @returns false if there is none. Throws SERVER_AVAILABLE if its lease has not expired for certain.
   */
  async remove(tx: Transaction<Schema>, id: string): Promise<boolean> {
    const { holder } = this.#options;
    const row = await tx.selectFrom('servers').select('lease_until').where('id', '=', id).executeTakeFirst();
    if (!row) return false;
    if (id === this.serverId || row.lease_until > holder.expiredUntil(this.#ownClock()))
      throw new Failure('SERVER_AVAILABLE', `the server ${id} responds, or did until a moment ago`);
    await tx.deleteFrom('servers').where('id', '=', id).execute();
    return true;
  }

  /** Whether the others know this server. */
  get isStarted(): boolean {
    return this.#startedAt > 0;
  }

  onReport(listener: ReportListener): void {
    this.#listeners.push(listener);
  }

  /** All servers, with those that are down. */
  states(): readonly ServerState[] {
    const now = this.#clock();
    const { serverId, release } = this.#options;
    const common = { isAlone: false };
    const others = this.#others.values().map((row) => {
      const { id, lease_until: until, release: theirs, started_at: startedAt } = row;
      return { ...common, id, isAvailable: until > now, isCurrent: false, release: theirs, startedAt };
    });
    return [
      { ...common, id: serverId, isAvailable: true, isCurrent: true, release, startedAt: this.#startedAt },
      ...others,
    ];
  }

  /** Another server; undefined if it is down. */
  find(id: string): OtherServer | undefined {
    const row = this.#others.get(id);
    return row && row.lease_until > this.#clock() ? row : undefined;
  }

  /** The URL of the server of a row; undefined if it is this one. Throws WAREHOUSE_ON_ANOTHER_SERVER if it is down. */
  urlOf(serverId: string | null): string | undefined {
    if (serverId === null || serverId === this.serverId) return undefined;
    const server = this.find(serverId);
    if (server) return server.url;
    const message = `the data is on the server ${serverId}, which does not respond`;
    throw new Failure('WAREHOUSE_ON_ANOTHER_SERVER', message, { serverId });
  }

  /** Reads the rows of the other servers. Called before requests are accepted, and by each heartbeat. */
  async read(): Promise<void> {
    const { store, serverId } = this.#options;
    const rows = await store.db.selectFrom('servers').selectAll().where('id', '!=', serverId).execute();
    const previous = this.#others;
    this.#others = new Map(rows.map((row) => [row.id, row]));
    for (const { id, report } of rows) {
      const before = previous.get(id)?.report;
      if (before !== report) for (const listener of this.#listeners) listener(id, report, before);
    }
  }

  /** `url`: where the other servers reach this one. */
  async start(url: string): Promise<void> {
    const { holder } = this.#options;
    const began = holder.leasing();
    await this.#readClock();
    this.#url = url;
    this.#startedAt = this.#clock();
    await this.#register();
    holder.leased(began);
    this.#schedule();
  }

  async #register(): Promise<void> {
    const { store, serverId, release, report } = this.#options;
    const times = { started_at: this.#startedAt, lease_until: this.#clock() + leaseMs };
    const row = { url: this.#url, release, ...times, report: await report() };
    await store.db
      .insertInto('servers')
      .values({ id: serverId, ...row })
      .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
      .execute();
  }

  /** The other servers know at once that this one is down. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#beating;
    clearTimeout(this.#timer);
    const { store, serverId, observe, holder } = this.#options;
    holder.unleased();
    await store.db
      .updateTable('servers')
      .set({ lease_until: 0 })
      .where('id', '=', serverId)
      .execute()
      .catch((error: unknown) => observe({ kind: 'backgroundError', what: 'end the lease of this server', error }));
  }

  async #readClock(): Promise<void> {
    const { store, holder } = this.#options;
    const began = performance.now();
    const time = await store.time?.();
    const tookMs = performance.now() - began;
    if (time !== undefined && tookMs <= clockReadMsMax)
      this.#offsetMs = Math.round(time + tookMs / 2 - this.#ownClock());
    holder.contact(this.#offsetMs);
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat();
    }, renewEveryMs).unref();
  }

  async #beat(): Promise<void> {
    const { store, serverId, report, observe, holder } = this.#options;
    const began = holder.leasing();
    try {
      await this.#readClock();
      const set = { lease_until: this.#clock() + leaseMs, report: await report() };
      const beaten = await store.db.updateTable('servers').set(set).where('id', '=', serverId).executeTakeFirst();
      // It was cut off for so long that an operator has removed it.
      if (beaten.numUpdatedRows === 0n) await this.#register();
      holder.leased(began);
      await this.read();
    } catch (error) {
      observe({ kind: 'backgroundError', what: 'heartbeat of this server', error });
    }
    if (this.#timer) this.#schedule();
  }
}
