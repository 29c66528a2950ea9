// Quotas of one principal: running statements, unfinished tasks, bytes of spill. They apply to `root` too. Callers report what they run; a
// statement is stopped only through the callback that came with it.
import type { Kysely } from 'kysely';
import { unlessAborted } from '../../model/concurrency/bounded_waits.ts';
import { Failure } from '../../standard/failure.ts';
import { bytesOf } from '../../store/row_batches.ts';
import type { Schema, TaskState } from '../../store/schema.ts';
import { noneElsewhere, type QueriesElsewhere } from './queries_of_servers.ts';

/** 0: no limit for each principal. */
export interface QuotaSettings {
  readonly principalQueriesMax: number;
  readonly principalTasksMax: number;
  readonly principalSpillBytesMax: number;
}

export interface QuotasOptions {
  readonly settings: QuotaSettings;
  /** The bytes that a warehouse has spilled at present, as far as is known. */
  readonly spilledBytes: (warehouse: string) => Promise<number>;
  readonly spillCheckMs?: number;
  /** Of the stored requests of the unfinished tasks of one principal: beyond it, further tasks are refused. */
  readonly unfinishedTaskBytesMax?: number;
  /** The statements on the other servers of the store. */
  readonly elsewhere?: QueriesElsewhere | undefined;
}

/** Call it when the work has ended; further calls have no effect. */
export type ReleaseQuota = () => void;

interface Waiting {
  readonly begin: () => void;
}

interface RunningStatement {
  readonly principalId: string;
  readonly warehouse: string;
  readonly stop: (why: Failure) => void;
}

/** While one principal alone uses a warehouse, all growth of the spill is attributed to it. */
interface SoleUse {
  readonly principalId: string;
  spilledBefore: number;
}

const unfinishedStates: readonly TaskState[] = ['pending', 'running', 'cancelling'];
const spillCheckMs = 250;
const unfinishedTaskBytesDefault = 256 * 1024 * 1024;

export class Quotas {
  readonly #options: QuotasOptions;
  readonly #elsewhere: QueriesElsewhere;
  /** Statements of each principal, running or in the queue of a warehouse. */
  readonly #queries = new Map<string, number>();
  readonly #waiting = new Map<string, Set<Waiting>>();
  readonly #running = new Set<RunningStatement>();
  readonly #soleUse = new Map<string, SoleUse>();
  #timer: NodeJS.Timeout | undefined;
  #isChecking = false;

  constructor(options: QuotasOptions) {
    this.#options = options;
    this.#elsewhere = options.elsewhere ?? noneElsewhere;
    this.#elsewhere.onRead(
      () => this.#beginWaiting(),
      () => this.#waiting.size > 0,
    );
  }

  /** For a caller who waits for the response. Throws TOO_MANY_QUERIES. */
  startQuery(principalId: string): ReleaseQuota {
    const { principalQueriesMax } = this.#options.settings;
    const running = this.#runningOf(principalId);
    if (principalQueriesMax > 0 && running >= principalQueriesMax) {
      const message = `this principal has ${running} statements running or queued (limit ${principalQueriesMax}); retry when one has ended`;
      throw new Failure('TOO_MANY_QUERIES', message, { principalQueriesMax });
    }
    this.#count(principalId, 1);
    return this.#releaseOf(principalId);
  }

  /** For a task: waits until the number of statements is below the limit. Throws STATEMENT_CANCELLED. */
  async waitForQuerySlot(principalId: string, signal: AbortSignal): Promise<ReleaseQuota> {
    const { principalQueriesMax } = this.#options.settings;
    if (principalQueriesMax === 0 || this.#runningOf(principalId) < principalQueriesMax)
      return this.startQuery(principalId);
    const { promise, resolve } = Promise.withResolvers<void>();
    const all = this.#waiting.get(principalId) ?? new Set();
    const waiting: Waiting = { begin: resolve };
    this.#waiting.set(principalId, all.add(waiting));
    // Perhaps no statement runs here whose end would begin this one.
    this.#elsewhere.changed(principalId, this.#queries.get(principalId) ?? 0);
    const cancelled = () => new Failure('STATEMENT_CANCELLED', 'the statement was cancelled while it waited');
    try {
      await unlessAborted(promise, signal, cancelled);
    } catch (error) {
      // The slot may have been granted at the same moment: it passes to the next in the queue.
      if (!all.delete(waiting)) this.#releaseOf(principalId)();
      if (all.size === 0 && this.#waiting.get(principalId) === all) this.#waiting.delete(principalId);
      throw error;
    }
    return this.#releaseOf(principalId);
  }

  /** Throws TOO_MANY_TASKS. To be called in the transaction that adds a task. */
  async requireTaskQuota(db: Kysely<Schema>, principalId: string): Promise<void> {
    const { settings, unfinishedTaskBytesMax = unfinishedTaskBytesDefault } = this.#options;
    const { principalTasksMax } = settings;
    const { count, bytes } = await db
      .selectFrom('tasks')
      .select((e) => [
        e.fn.countAll<number | string>().as('count'),
        e.fn.sum<number | string | null>(bytesOf(['request'])).as('bytes'),
      ])
      .where('owner', '=', principalId)
      .where('state', 'in', unfinishedStates)
      .executeTakeFirstOrThrow();
    if (principalTasksMax > 0 && Number(count) >= principalTasksMax) {
      const message = `this principal has ${count} unfinished tasks (limit ${principalTasksMax}); retry when one has ended`;
      throw new Failure('TOO_MANY_TASKS', message, { principalTasksMax });
    }
    if (Number(bytes ?? 0) < unfinishedTaskBytesMax) return;
    const message = `the requests of the unfinished tasks of this principal have ${bytes} bytes (limit ${unfinishedTaskBytesMax}); retry when one has ended`;
    throw new Failure('TOO_MANY_TASKS', message, { unfinishedTaskBytesMax });
  }

  /**
   * Tracks a statement that runs in a warehouse. Engines do not report spill by statement: growth while only the statements of one
   * principal run in the warehouse is attributed to that principal, and beyond its limit all of them are stopped.
   */
  trackStatement(principalId: string, warehouse: string, stop: (why: Failure) => void): ReleaseQuota {
    if (this.#options.settings.principalSpillBytesMax === 0) return () => {};
    const statement = { principalId, warehouse, stop };
    this.#running.add(statement);
    this.#timer ??= setInterval(() => void this.checkSpill(), this.#options.spillCheckMs ?? spillCheckMs).unref();
    // Growth caused by another principal until the next check must not be attributed to this one.
    if (this.#soleUse.get(warehouse)?.principalId !== principalId) this.#soleUse.delete(warehouse);
    return () => {
      this.#running.delete(statement);
      if (this.#running.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
      this.#soleUse.clear();
    };
  }

  async checkSpill(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    try {
      for (const warehouse of new Set([...this.#running].map((statement) => statement.warehouse))) {
        const spilled = await this.#options.spilledBytes(warehouse).catch(() => undefined);
        if (spilled !== undefined) this.#enforceSpill(warehouse, spilled);
      }
    } finally {
      this.#isChecking = false;
    }
  }

  #enforceSpill(warehouse: string, spilled: number): void {
    const { principalSpillBytesMax } = this.#options.settings;
    const statements = [...this.#running].filter((statement) => statement.warehouse === warehouse);
    const [first] = statements;
    if (!first || statements.some((statement) => statement.principalId !== first.principalId)) {
      this.#soleUse.delete(warehouse);
      return;
    }
    const soleUse = this.#soleUse.get(warehouse);
    if (soleUse?.principalId !== first.principalId) {
      this.#soleUse.set(warehouse, { principalId: first.principalId, spilledBefore: spilled });
      return;
    }
    soleUse.spilledBefore = Math.min(soleUse.spilledBefore, spilled);
    if (spilled - soleUse.spilledBefore <= principalSpillBytesMax) return;
    const message = `the statements of this principal exceed the limit of ${principalSpillBytesMax} bytes of temporary disk space`;
    for (const { stop } of statements) stop(new Failure('SPILL_LIMIT_EXCEEDED', message, { principalSpillBytesMax }));
  }

  #releaseOf(principalId: string): ReleaseQuota {
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      // The slot passes to the next in the queue; the count stays the same.
      if (!this.#beginNext(principalId)) this.#count(principalId, -1);
    };
  }

  #runningOf(principalId: string): number {
    return (this.#queries.get(principalId) ?? 0) + this.#elsewhere.countOf(principalId);
  }

  #count(principalId: string, change: 1 | -1): void {
    const running = (this.#queries.get(principalId) ?? 0) + change;
    if (running === 0) this.#queries.delete(principalId);
    else this.#queries.set(principalId, running);
    this.#elsewhere.changed(principalId, running);
  }

  #beginNext(principalId: string): boolean {
    const waiting = this.#waiting.get(principalId);
    for (const next of waiting ?? []) {
      waiting?.delete(next);
      if (waiting?.size === 0) this.#waiting.delete(principalId);
      next.begin();
      return true;
    }
    return false;
  }

  /** Statements on other servers may have ended. */
  #beginWaiting(): void {
    const { principalQueriesMax } = this.#options.settings;
    for (const principalId of [...this.#waiting.keys()])
      while (this.#runningOf(principalId) < principalQueriesMax && this.#beginNext(principalId))
        this.#count(principalId, 1);
  }
}
