// Compares the pages of the store with their checksums on a schedule while the server runs, and reports the faults.
import type { Observe } from '../../../observe/observations.ts';
import type { SqliteStore } from '../sqlite_store.ts';

export interface StoreChecksOptions {
  readonly store: Pick<SqliteStore, 'check' | 'isChecked'>;
  /** 0: never. */
  readonly everyMs: number;
  readonly observe: Observe;
}

export class StoreChecks {
  readonly #options: StoreChecksOptions;
  #faults: readonly string[] = [];
  #running: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: StoreChecksOptions) {
    this.#options = options;
  }

  /** The message for the health endpoint; undefined if there is no fault. */
  get message(): string | undefined {
    return this.#faults.length === 0 ? undefined : `the metadata store is damaged: ${this.#faults.join('; ')}`;
  }

  /** Checks immediately if not all pages were compared at start. */
  start(): void {
    const { everyMs, store } = this.#options;
    if (everyMs === 0) return;
    if (!store.isChecked) void this.run();
    this.#timer ??= setInterval(() => void this.run(), everyMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#running;
  }

  /** One check. Never rejects. */
  run(): Promise<void> {
    this.#running ??= this.#check().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #check(): Promise<void> {
    const { store, observe } = this.#options;
    try {
      const faults = await store.check();
      if (faults.length > 0 && faults.join() !== this.#faults.join()) observe({ kind: 'storeDamaged', faults });
      this.#faults = faults;
    } catch (error) {
      observe({ kind: 'backgroundError', what: 'check of the metadata store', error });
    }
  }
}
