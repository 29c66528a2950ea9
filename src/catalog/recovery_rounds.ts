// When interrupted changes are recovered: at the start, at once when a change was left open, and again until none is. Statements of a
// warehouse wait for the round that runs; those of an object whose change is still open after it are refused. How one is ended is recovery.ts.
import { setTimeout as pause } from 'node:timers/promises';
import { foldName } from '../model/names.ts';
import { Failure } from '../standard/failure.ts';
import { type CatalogContext, changePath } from './changes/change_context.ts';
import { type OpenIntent, openIntents, recoverWarehouse } from './changes/intent_recovery.ts';
import { changeOf, type IntentRow, nextOf } from './changes/intents.ts';

/** How long a statement waits for the changes of its warehouse to be recovered. */
const statementWaitMs = 5_000;
const lookMs = 20;
const roundPausesMs = [100, 300, 1_000, 3_000, 10_000];

/** Names of a table, a database or a catalog, from the root; folded. */
type Names = readonly string[];

export class RecoveryRounds {
  readonly #context: CatalogContext;
  /** By warehouse. */
  readonly #running = new Map<string, Promise<void>>();
  #open: readonly OpenIntent[] = [];
  /** Whether `#open` has all that was left open. */
  #isComplete = false;
  /** A change was left open since the last round began. */
  #isRoundRequested = false;
  #loop: Promise<void> | undefined;
  /** Ends the pause between two rounds. */
  #wake: (() => void) | undefined;
  #isStarted = false;

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

  /** A change was left open: it is recovered as soon as its engine is back. */
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

  /** One round over all that is open. */
  async run(): Promise<void> {
    // What a round is at work on is held, and would look like the change of a request.
    await Promise.allSettled(this.#running.values());
    this.#isComplete = true;
    this.#isRoundRequested = false;
    this.#open = await openIntents(this.#context);
    if (this.#open.length === 0) return;
    const warehouses = new Set(this.#open.map(({ warehouse }) => warehouse));
    await Promise.all([...warehouses].map((warehouse) => this.#recover(warehouse)));
    this.#open = await openIntents(this.#context);
  }

  forgetEnded(intentId: string): void {
    this.#open = this.#open.filter(({ intent }) => intent.id !== intentId);
  }

  /** Waits for the recovery of a warehouse's changes, but not for long. Undefined where there is nothing to wait for. */
  waitForRecovery(warehouse: string): Promise<void> | undefined {
    return this.#isUnsettled(warehouse) ? this.#wait(warehouse) : undefined;
  }

  /** Throws CHANGE_IN_PROGRESS for names of what a change left open, or may have renamed. `isPart`: the names may lack their beginning. */
  requireNoOpenChange(names: readonly Names[], isPart = false): void {
    for (const { intent, reason } of this.#open) {
      if (!isAffected(intent, names, isPart)) continue;
      const why =
        reason === null ? 'a change of it was interrupted and is being recovered' : `it is blocked: ${reason}`;
      throw inProgress(intent, why);
    }
  }

  /** Throws CHANGE_IN_PROGRESS where one of the names is of what a request or a task is renaming. The names may lack their beginning. */
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
    return !this.#isComplete || this.#open.some((one) => one.warehouse === warehouse && one.reason === null);
  }

  async #wait(warehouse: string): Promise<void> {
    const deadline = performance.now() + statementWaitMs;
    while (this.#isUnsettled(warehouse) && performance.now() < deadline) await pause(lookMs);
  }

  /** Longer outages are left to the round of every minute, and what is set aside to an operator. */
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
    const timer = setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
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
  const meets = (one: Names) => paths.some((each) => (isPart ? overlaps(each, one) : beginsWith(one, each)));
  return names.some((one) => meets(one.map(foldName)));
}

function inProgress(intent: IntentRow, why: string): Failure {
  const path = changePath(changeOf(intent)).map((one) => JSON.stringify(one));
  return new Failure('CHANGE_IN_PROGRESS', `${path.join('.')}: ${why}`);
}

const beginsWith = (names: Names, start: Names) => start.every((name, n) => names[n] === name);

/** `t` and `d.t` may be `c.d.t`. */
const overlaps = (path: Names, part: Names) => {
  const missing = path.length - part.length;
  return missing >= 0 ? part.every((name, n) => path[missing + n] === name) : beginsWith(part.slice(-missing), path);
};
