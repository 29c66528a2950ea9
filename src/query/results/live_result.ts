// A result that is still being computed: its complete pages are read from the file that the engine appends to.
import { close, openSync, read } from 'node:fs';
import { promisify } from 'node:util';
import type { PageReady } from '../../engines/engine.ts';
import type { PageReceiver, StartedRun } from '../statements/query_request.ts';
import { type ResultPage, withoutSeparator } from './result_store.ts';

const readFile = promisify(read);
const closeFile = promisify(close);

/** The statement as it was when its first page was complete. */
export interface BegunResult extends StartedRun, Pick<PageReady, 'columns'> {}

export class LiveResult implements PageReceiver {
  readonly #begun = Promise.withResolvers<undefined>();
  #started: BegunResult | undefined;
  /** Where pages begin, and where the last complete one ends. */
  readonly #offsets = [0];
  #file: number | undefined;
  #state: 'expected' | 'taken' | 'declined' | 'ended' = 'expected';
  /** Resolved when a page is complete or the result has ended. */
  #changed = Promise.withResolvers<void>();
  #reads = 0;

  /** Resolves when the first page is complete, unless pages were declined before; never rejects. */
  get begun(): Promise<undefined> {
    return this.#begun.promise;
  }

  get started(): BegunResult {
    if (!this.#started) throw new Error('the result has no page yet');
    return this.#started;
  }

  get isTaken(): boolean {
    return this.#state === 'taken';
  }

  add({ columns, path, end }: PageReady, run: StartedRun): void {
    if (this.#state === 'expected') {
      // Opened synchronously: the file is renamed when the result is complete.
      this.#file = openSync(path, 'r');
      this.#started = { ...run, columns };
      this.#state = 'taken';
      this.#begun.resolve(undefined);
    }
    if (this.#state !== 'taken') return;
    this.#offsets.push(end);
    this.#wake();
  }

  /** Ignores pages from now on, unless some were added already. */
  decline(): void {
    if (this.#state === 'expected') this.#state = 'declined';
  }

  /** Waits for a page at most `waitMs`. Returns `pending` if it is not complete then, and undefined if the result has ended. */
  async page(page: number, waitMs: number, signal: AbortSignal): Promise<ResultPage | 'pending' | undefined> {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
    while (this.#state === 'taken') {
      const [start, end] = [this.#offsets[page], this.#offsets[page + 1]];
      if (start !== undefined && end !== undefined) return this.#read(page, start, end);
      if (deadline.aborted) return 'pending';
      const { promise, resolve } = Promise.withResolvers<void>();
      const stop = () => resolve();
      deadline.addEventListener('abort', stop, { once: true });
      await Promise.race([this.#changed.promise, promise]);
      deadline.removeEventListener('abort', stop);
    }
    return undefined;
  }

  /** A page without rows, for a page that is not complete. */
  pendingPage(page: number): ResultPage {
    return { columns: this.started.columns, rows: new Uint8Array(), page, pageCount: null, isPending: true };
  }

  /** The result is stored, or its statement has failed. */
  end(): void {
    this.#state = 'ended';
    this.#wake();
    this.#closeUnused();
  }

  async #read(page: number, start: number, end: number): Promise<ResultPage> {
    const rows = Buffer.allocUnsafe(end - start);
    this.#reads++;
    try {
      const { bytesRead } = await readFile(this.#file as number, rows, 0, rows.length, start);
      if (bytesRead !== rows.length) throw new Error('a complete page is not in the file of the result');
    } finally {
      this.#reads--;
      this.#closeUnused();
    }
    return { columns: this.started.columns, rows: withoutSeparator(rows), page, pageCount: null };
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  #closeUnused(): void {
    if (this.#state !== 'ended' || this.#reads > 0 || this.#file === undefined) return;
    closeFile(this.#file).catch(() => undefined);
    this.#file = undefined;
  }
}
