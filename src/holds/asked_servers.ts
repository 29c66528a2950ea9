// The other servers that write to a catalog while this one moves it or takes a snapshot of it: asks them, through the store, what they have
// written, and to hold their writes. A server counts until its lease is over; by then it writes nothing any more.
import { setTimeout as pause } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.ts';
import { otherLiveServers, reportsOf } from '../catalog/moves/move_reports.ts';
import { wasWritten } from '../engines/copies/catalog_writes.ts';
import type { LeaseHolder } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import type { WriteReport } from './write_reporter.ts';

export interface AskedServersParts {
  readonly catalog: Pick<Catalog, 'askServers' | 'endHold' | 'endAsking'>;
  readonly store: Store;
  readonly holder: LeaseHolder;
}

/** By the id of each watch: the moment of its last report. */
export type OthersMoment = ReadonlyMap<string, number>;

/** A server that answers other requests, but not this one for so long, is of a release that does not know such questions. */
const answerMsMax = 30_000;
const pollMsMin = 5;
const pollMsMax = 100;

/** A server writes to the warehouse that has the catalog, and does not answer. */
export class ServerNotAnswering extends Error {
  override name = 'ServerNotAnswering';
  readonly serverId: string;

  constructor(serverId: string) {
    super(
      `the server ${serverId} writes to the warehouse that has the catalog, and does not answer questions about it`,
    );
    this.serverId = serverId;
  }
}

export class AskedServers {
  readonly #parts: AskedServersParts;
  readonly #taskId: string;
  /** The last report of each server that is not down, by the id of its watch. */
  #reports: ReadonlyMap<string, WriteReport> = new Map();
  #asks = 0;
  #isHeld = false;

  constructor(parts: AskedServersParts, taskId: string) {
    this.#parts = parts;
    this.#taskId = taskId;
  }

  /** The question with which the writes are held, to be asserted when the work that needs the hold is done. */
  get heldBy(): number | undefined {
    return this.#isHeld ? this.#asks : undefined;
  }

  /** Resolves when every server has reported what it wrote until now. Throws ServerNotAnswering. */
  async ask(signal: AbortSignal, isHeld = this.#isHeld): Promise<void> {
    this.#isHeld = isHeld;
    const asks = await this.#parts.catalog.askServers(this.#taskId, isHeld);
    this.#asks = asks;
    const began = performance.now();
    for (let pollMs = pollMsMin; ; pollMs = Math.min(pollMsMax, 2 * pollMs)) {
      const late = await this.#read(asks);
      if (late === undefined) return;
      if (performance.now() - began > answerMsMax) throw new ServerNotAnswering(late);
      await pause(pollMs, undefined, { signal });
    }
  }

  /** @returns a server that has not answered yet. */
  async #read(asks: number): Promise<string | undefined> {
    const { store, holder } = this.#parts;
    // In this order: a server that starts later reads the question before it writes.
    const servers = await otherLiveServers(store.db, holder);
    const stored = new Map((await reportsOf(store.db, this.#taskId)).map((report) => [report.serverId, report]));
    const reports = new Map<string, WriteReport>();
    for (const id of servers) {
      const found = stored.get(id);
      if (!found || found.asks < asks) return id;
      const report = JSON.parse(found.report) as WriteReport;
      reports.set(report.watchId, report);
    }
    this.#reports = reports;
    return undefined;
  }

  /** Of the last reports. */
  moment(): OthersMoment {
    return new Map([...this.#reports].map(([watchId, { moment }]) => [watchId, moment]));
  }

  /** By the last reports. `unknown`: a server that has ended since may have written to the table. */
  written(key: string, since: OthersMoment): 'yes' | 'no' | 'unknown' {
    const reports = [...this.#reports];
    if (reports.some(([watchId, report]) => wasWritten(report, key, since.get(watchId) ?? 0))) return 'yes';
    return [...since.keys()].every((watchId) => this.#reports.has(watchId)) ? 'no' : 'unknown';
  }

  get areWriting(): boolean {
    return this.#reports.values().some(({ running }) => running.length > 0);
  }

  get areReading(): boolean {
    return this.#reports.values().some(({ isRead }) => isRead);
  }

  /** Lets the servers write again, unless a move has switched. */
  async endHold(): Promise<void> {
    this.#isHeld = false;
    await this.#parts.catalog.endHold(this.#taskId);
  }

  /** Nobody will be asked any more. */
  async close(): Promise<void> {
    await this.#parts.catalog.endAsking(this.#taskId);
  }
}
