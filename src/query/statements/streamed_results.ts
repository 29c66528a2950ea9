// Results whose first pages are sent while later ones are computed. The statement belongs to a task, from its first page on or because it
// took longer than its request waited; the pages of the task are read here until the result is stored.
import type { Principal } from '../../model/principal.ts';
import { codes } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import type { AdoptedContext, ResultOf } from '../../tasks/task.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import type { BegunResult, LiveResult, PageWait } from '../results/live_result.ts';
import type { ResultAccess } from '../results/result_access.ts';
import type { ResultOwner } from '../results/result_files.ts';
import type { PageRows, ResultPage, ResultStore } from '../results/result_store.ts';
import type { QueryRequest } from './query_request.ts';

/** How long a request for a page waits until the page is complete. */
const pageWaitMs = 20_000;

type QueryResult = ResultOf<'run_query'>;

export interface StreamedStatement {
  readonly taskId: string;
  readonly principal: Principal;
  readonly target: string;
  readonly request: QueryRequest;
  /** Connects the running statement to its task; resolves when its result is stored. */
  readonly running: (task: AdoptedContext) => Promise<QueryResult>;
}

export class StreamedResults {
  readonly #tasks: Pick<Tasks, 'adopt' | 'amendRequest'>;
  readonly #access: ResultAccess;
  readonly #results: Pick<ResultStore, 'rowsPath'>;
  /** By the ids of their tasks. */
  readonly #live = new Map<string, LiveResult>();
  /** Runs whose sources were recorded. */
  readonly #recorded = new WeakSet<BegunResult>();

  constructor(
    tasks: Pick<Tasks, 'adopt' | 'amendRequest'>,
    access: ResultAccess,
    results: Pick<ResultStore, 'rowsPath'>,
  ) {
    this.#tasks = tasks;
    this.#access = access;
    this.#results = results;
  }

  /**
   * Returns the first page, when the statement belongs to a task. Undefined if the principal is at its limit of unfinished tasks: the
   * statement must then be waited for.
   */
  async begin(
    live: LiveResult,
    { running, ...statement }: StreamedStatement,
    signal: AbortSignal,
  ): Promise<ResultPage | undefined> {
    const { taskId, request } = statement;
    await this.#access.record(taskId, live.started.sources);
    const first = await live.page(0, this.#waitFor(taskId, signal));
    if (first === undefined || first === 'pending') throw new Error('a result began without a page');
    this.#live.set(taskId, live);
    const forget = () => {
      this.#live.delete(taskId);
      live.end();
    };
    try {
      await this.#tasks.adopt({
        ...statement,
        type: 'run_query',
        // After a restart, the pages of another run might not continue those that were sent.
        request: { ...request, streamed: true },
        running: (task) => running(task).catch(rethrowAsFinal).finally(forget),
      });
    } catch (error) {
      forget();
      await this.#access.remove(taskId);
      if (error instanceof Failure && error.code === 'TOO_MANY_TASKS') return undefined;
      throw error;
    }
    return first;
  }

  /**
   * Connects the pages of a statement to its task until `saved` settles. Until a page is read, the statement may be run again: `saved`
   * rejects as it would without pages.
   */
  follow<R>(taskId: string, live: LiveResult, saved: Promise<R>): Promise<R> {
    this.#live.set(taskId, live);
    return saved
      .catch((error: unknown) => {
        if (live.isTaken) rethrowAsFinal(error);
        throw error;
      })
      .finally(() => {
        this.#live.delete(taskId);
        live.end();
      });
  }

  hasPages(taskId: string): boolean {
    return this.#live.get(taskId)?.hasPages === true;
  }

  /**
   * Returns a page of a result that is being computed, or one without rows if the page is not complete in time. Undefined if the result is
   * not being computed (any more) or has no page yet. Throws the failure of the statement.
   */
  async page(task: ResultOwner, page: number, signal: AbortSignal): Promise<ResultPage | undefined> {
    const live = this.#live.get(task.taskId);
    if (!live?.hasPages) return undefined;
    await this.#requireAccess(task, live);
    if (!live.isTaken) {
      // After a restart, the pages of another run might not continue those that are sent from here on.
      await this.#tasks.amendRequest(task.taskId, { streamed: true });
      live.take();
      if (!live.hasPages) return undefined;
    }
    const found = await live.page(page, this.#waitFor(task.taskId, signal));
    return found === 'pending' ? live.pendingPage(page) : found;
  }

  /** The complete pages of a result that is being computed, without their rows. Undefined if it is not (any more). */
  async pages(task: ResultOwner): Promise<readonly PageRows[] | undefined> {
    const live = this.#live.get(task.taskId);
    if (!live?.hasPages) return undefined;
    await this.#requireAccess(task, live);
    return live.pages;
  }

  async #requireAccess(task: ResultOwner, live: LiveResult): Promise<void> {
    const { started } = live;
    if (!this.#recorded.has(started)) await this.#access.record(task.taskId, started.sources);
    this.#recorded.add(started);
    await this.#access.require(task);
  }

  #waitFor(taskId: string, signal: AbortSignal): PageWait {
    return { waitMs: pageWaitMs, signal, savedPath: this.#results.rowsPath(taskId) };
  }
}

/** A statement of which pages were sent is not repeated. */
function rethrowAsFinal(error: unknown): never {
  if (!(error instanceof Failure) || codes[error.code].status !== 503) throw error;
  const message = `the statement ended before its result was complete: ${error.message} (${error.code})`;
  throw new Failure('TASK_INTERRUPTED', message, {}, { cause: error });
}
