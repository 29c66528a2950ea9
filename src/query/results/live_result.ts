// A result that is still being computed: its complete pages are in the file that the engine appends to.
import type { PageReady } from '../../engines/port/statements.ts';
import type { RecentBytes } from '../../engines/results/recent_blocks.ts';
import { unlessAborted } from '../../model/concurrency/bounded_waits.ts';
import { Failure } from '../../standard/failure.ts';
import type { PageReceiver, StartedRun } from '../statements/query_request.ts';
import { PageBytes } from './page_bytes.ts';
import { type PageRows, pagesOf, type ResultPage, rowsOfPage } from './result_store.ts';

/** The statement as it was when its first page was complete. */
export interface BegunResult extends StartedRun, Pick<PageReady, 'columns'> {}

export interface PageWait {
  readonly waitMs: number;
  readonly signal: AbortSignal;
  /** Where the file is moved to when the result is complete. */
  readonly savedPath: string;
}

export class LiveResult implements PageReceiver {
  readonly #begun = Promise.withResolvers<undefined>();
  #started: BegunResult | undefined;
  #path = '';
  #recent: RecentBytes | undefined;
  /** Where pages begin, and where the last complete one ends. */
  readonly #offsets = [0];
  readonly #firstRows = [0];
  /** `deferred`: pages are kept for readers of a task; `taken`: rows were passed on. */
  #state: 'expected' | 'deferred' | 'taken' | 'declined' | 'ended' = 'expected';
  /** Resolved when a page is complete or the result has ended. */
  #changed = Promise.withResolvers<void>();

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

  get hasPages(): boolean {
    return this.#offsets.length > 1 && this.#isOpen;
  }

  get #isOpen(): boolean {
    return this.#state === 'taken' || this.#state === 'deferred';
  }

  add({ columns, path, recent, end, endRow }: PageReady, run: StartedRun): void {
    if (this.#state === 'expected') {
      this.#state = 'taken';
      this.#begun.resolve(undefined);
    }
    if (!this.#isOpen) return;
    this.#started ??= { ...run, columns };
    this.#path = path;
    this.#recent = recent;
    this.#offsets.push(end);
    this.#firstRows.push(endRow);
    this.#wake();
  }

  /** Ignores pages from now on, unless some were added already. */
  decline(): void {
    if (this.#state === 'expected') this.#state = 'declined';
  }

  /** Keeps pages, unless some were added already, until `take`: the statement may be run again until then. */
  defer(): void {
    if (this.#state === 'expected') this.#state = 'deferred';
  }

  /** Rows are about to be passed on. */
  take(): void {
    if (this.#state === 'deferred') this.#state = 'taken';
  }

  /** The statement is run, perhaps again: pages of an earlier run are forgotten. Throws TASK_INTERRUPTED if rows of it were passed on. */
  restart(): void {
    if (this.#state === 'taken')
      throw new Failure('TASK_INTERRUPTED', 'the engine ended before the result was complete; run the query again');
    this.#started = undefined;
    this.#offsets.length = 1;
    this.#firstRows.length = 1;
  }

  /** Waits for a page at most `waitMs`. Returns `pending` if it is not complete then, and undefined if the result has ended. */
  async page(page: number, { waitMs, signal, savedPath }: PageWait): Promise<ResultPage | 'pending' | undefined> {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
    while (this.#isOpen) {
      const changed = this.#changed.promise;
      const [start, end] = [this.#offsets[page], this.#offsets[page + 1]];
      const rows = start !== undefined && end !== undefined && (await this.#rowsAt(start, end, savedPath));
      if (rows)
        return { ...rowsOfPage(this.#firstRows, page), columns: this.started.columns, rows, page, pageCount: null };
      if (deadline.aborted) return 'pending';
      await unlessAborted(changed, deadline).catch(() => undefined);
    }
    return undefined;
  }

  /** The complete pages, without their rows. */
  get pages(): readonly PageRows[] {
    return pagesOf(this.#firstRows);
  }

  /** A page without rows, for a page that is not complete. */
  pendingPage(page: number): ResultPage {
    const { columns } = this.started;
    const firstRow = this.#firstRows.at(-1) as number;
    return { columns, rows: '', firstRow, rowCount: 0, page, pageCount: null, isPending: true };
  }

  /** The result is stored, or its statement has failed. */
  end(): void {
    this.#state = 'ended';
    this.#wake();
  }

  /** Undefined if the engine has removed the file, as it does before it reports that the statement failed. */
  async #rowsAt(start: number, end: number, savedPath: string): Promise<PageBytes | undefined> {
    try {
      return await PageBytes.findLive([this.#path, savedPath], this.#recent, start, end);
    } catch (error) {
      if (error instanceof Failure && error.code === 'RESULT_EXPIRED') return undefined;
      throw error;
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
