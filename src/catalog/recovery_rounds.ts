// Schedules the recovery of interrupted changes: at start, immediately after a change was left open, and repeatedly until none is open.
// Statements of a warehouse wait for the running round; if an object's change is still open after it, statements on that object are
// refused, until the feed of changes shows that it ended. See changes/intent_recovery.ts for the recovery of one change.
import { setTimeout as pause } from 'node:timers/promises';
import { withTimeout } from '../model/concurrency/bounded_waits.ts';
import { foldName } from '../model/names.ts';
import { Failure } from '../standard/failure.ts';
import type { Change } from '../store/changes/change.ts';
import type { ChangeFollower } from '../store/changes/change_feed.ts';
import type { CatalogContext } from './changes/change_context.ts';
import { changePath } from './changes/change_path.ts';
import { type OpenIntent, openIntents, recoverWarehouse } from './changes/intent_recovery.ts';
import { changeOf, type IntentRow, nextOf } from './changes/intents.ts';

/** How long a statement waits for the changes of its warehouse to be recovered. */
const statementWaitMs = 5_000;
const pollMs = 20;
const roundPausesMs = [100, 300, 1_000, 3_000, 10_000];

/** Folded names of a table, a database or a catalog, root first. */
type Names = readonly string[];

export class RecoveryRounds implements ChangeFollower {
  readonly #context: CatalogContext;
  /** By warehouse. */
  readonly #running = new Map<string, Promise<void>>();
  #open: readonly OpenIntent[] = [];
  /** Whether `#open` contains every open change. */
  #isComplete = false;
  /** A change was left open since the last round began. */
  #isRoundRequested = false;
  #loop: Promise<void> | undefined;
  /** Ends the pause between two rounds. */
  #wake: (() => void) | undefined;
  #isStarted = false;
  #reading: Promise<void> = Promise.resolve();

  constructor(context: CatalogContext) {
    this.#context = context;
  }

  start(): void {
    this.#isStarted = true;
    this.schedule();
  }

  async stop(): Promise<void> {
    this.#isStarted = false;
    this.#wake?.();
    await this.#loop;
  }

  /** Called when a change was left open: it is recovered as soon as its engine is available. */
  schedule(): void {
    this.#isComplete = false;
    if (!this.#isStarted) return;
    this.#isRoundRequested = true;
    this.#wake?.();
    this.#loop ??= this.#rounds().finally(() => {
      this.#loop = undefined;
      if (this.#isRoundRequested) this.schedule();
    });
  }

  /** One round over all open changes. */
  async run(): Promise<void> {
    // A running round holds locks, so its changes would look like those of requests.
    await Promise.allSettled(this.#running.values());
    this.#isComplete = true;
    this.#isRoundRequested = false;
    await this.#readOpen();
    if (this.#open.length === 0) return;
    const warehouses = new Set(this.#open.map(({ warehouse }) => warehouse));
    await Promise.all([...warehouses].map((warehouse) => this.#recover(warehouse)));
    await this.#readOpen();
  }

  /** One after the other, so that what is read last remains. */
  #readOpen(): Promise<void> {
    const reading = this.#reading.then(() => this.#readOpenNow());
    this.#reading = reading.catch(() => {});
    return reading;
  }

  async #readOpenNow(): Promise<void> {
    this.#open = await this.#openHere();
    // Some may have ended since they were read. From here on, the feed removes those that end.
    if (this.#open.length > 0) await this.#forgetEnded();
  }

  /** Without those of warehouses on other servers. */
  async #openHere(): Promise<OpenIntent[]> {
    const all = await openIntents(this.#context);
    if (all.length === 0) return all;
    const elsewhere = await this.#context.warehousesElsewhere();
    return all.filter(({ warehouse }) => !elsewhere.has(warehouse));
  }

  /**
   * The transaction that ends the change of an object, here or in another server, appends the object or one above it to the feed; the
   * one that blocks an object, whose change may be unknown here, appends the object.
   */
  changed(change: Change): Promise<void> | undefined {
    if (change.kind !== 'object') return undefined;
    if (change.object?.isBlocked) return this.#follow(() => this.#readOpen());
    const isOpen = this.#open.some(({ path }) => path.includes(change.objectId));
    return isOpen ? this.#follow(() => this.#forgetEnded()) : undefined;
  }

  reload(): Promise<void> {
    return this.#follow(() => this.#readOpen());
  }

  /** A failure only delays refusals, or the end of refusals, until the next round. */
  async #follow(read: () => Promise<void>): Promise<void> {
    try {
      await read();
    } catch (error) {
      this.#context.observe({ kind: 'backgroundError', what: 'recovery', error });
    }
  }

  async #forgetEnded(): Promise<void> {
    const rows = await this.#context.store.db.selectFrom('intents').select('id').execute();
    const ids = new Set(rows.map(({ id }) => id));
    this.#open = this.#open.filter(({ intent }) => ids.has(intent.id));
  }

  /** Waits up to 5 s for the recovery of the changes of a warehouse. Undefined if there is nothing to wait for. */
  waitForRecovery(warehouse: string): Promise<void> | undefined {
    return this.#isUnsettled(warehouse) ? this.#wait(warehouse) : undefined;
  }

  /** Throws CHANGE_IN_PROGRESS if a name refers to an object with an open change. `isPart`: names may lack leading parts. */
  requireNoOpenChange(names: readonly Names[], isPart = false): void {
    for (const { intent, reason } of this.#open) {
      if (!isAffected(intent, names, isPart)) continue;
      const why =
        reason === null ? 'a change of this object was interrupted and is being recovered' : `it is blocked: ${reason}`;
      throw inProgress(intent, why);
    }
  }

  /** Throws CHANGE_IN_PROGRESS if a request or a task is renaming an object of one of the names. The names may lack leading parts. */
  async requireNotBeingRenamed(names: readonly Names[]): Promise<void> {
    const updates = await this.#context.store.db
      .selectFrom('intents')
      .selectAll()
      .where('verb', '=', 'update')
      .execute();
    const renamed = updates.find((intent) => nextOf(intent).name !== undefined && isAffected(intent, names, true));
    if (renamed) throw inProgress(renamed, 'it is being renamed');
  }

  #isUnsettled(warehouse: string): boolean {
    if (this.#loop === undefined) return false;
    return !this.#isComplete || this.#open.some((intent) => intent.warehouse === warehouse && intent.reason === null);
  }

  async #wait(warehouse: string): Promise<void> {
    const deadline = performance.now() + statementWaitMs;
    while (this.#isUnsettled(warehouse) && performance.now() < deadline) await pause(pollMs);
  }

  /** Longer outages are left to the round that runs every minute, and blocked changes to an operator. */
  async #rounds(): Promise<void> {
    for (let n = 0; n < roundPausesMs.length && this.#isStarted; n++) {
      try {
        await this.run();
      } catch (error) {
        this.#isComplete = false;
        this.#context.observe({ kind: 'backgroundError', what: 'recovery', error });
      }
      if (this.#isComplete && this.#open.every(({ reason }) => reason !== null)) return;
      await this.#pause(roundPausesMs[n] as number);
      if (this.#isRoundRequested) n = -1;
    }
  }

  async #pause(ms: number): Promise<void> {
    if (this.#isRoundRequested) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    await withTimeout(promise, ms);
    this.#wake = undefined;
  }

  #recover(warehouse: string): Promise<void> {
    let running = this.#running.get(warehouse);
    if (!running) {
      running = recoverWarehouse(this.#context, warehouse).finally(() => this.#running.delete(warehouse));
      this.#running.set(warehouse, running);
    }
    return running;
  }
}

function isAffected(intent: IntentRow, names: readonly Names[], isPart: boolean): boolean {
  const path = changePath(changeOf(intent)).map(foldName);
  const { name } = nextOf(intent);
  const paths = name === undefined ? [path] : [path, [...path.slice(0, -1), foldName(name)]];
  const meets = (names: Names) => paths.some((each) => (isPart ? overlaps(each, names) : beginsWith(names, each)));
  return names.some((path) => meets(path.map(foldName)));
}

function inProgress(intent: IntentRow, why: string): Failure {
  const path = changePath(changeOf(intent)).map((name) => JSON.stringify(name));
  return new Failure('CHANGE_IN_PROGRESS', `${path.join('.')}: ${why}`);
}

const beginsWith = (names: Names, start: Names) => start.every((name, n) => names[n] === name);

/** `t` and `d.t` may refer to `c.d.t`. */
const overlaps = (path: Names, part: Names) => {
  const missing = path.length - part.length;
  return missing >= 0 ? part.every((name, n) => path[missing + n] === name) : beginsWith(part.slice(-missing), path);
};
