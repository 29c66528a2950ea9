// A statement as a caller meets it: an answer in time, or a task to come back to. A result of more than one page always
// belongs to a task, because its pages are fetched there.
import { readFile, rm } from 'node:fs/promises';
import { keyedStep } from '../../access/idempotency_keys.ts';
import type { Quotas } from '../../access/limits/quotas.ts';
import type { ResultColumn } from '../../engines/engine.ts';
import { newId } from '../../model/ids.ts';
import type { AppliedWrite, Principal } from '../../model/principal.ts';
import { withOutcome } from '../../standard/failure.ts';
import type { TaskContext, TaskRecord, TaskRequest } from '../../tasks/task.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import type { ResultAccess } from '../results/result_access.ts';
import { type ResultPage, type ResultStore, withoutSeparator } from '../results/result_store.ts';
import { TaskStep } from '../task_step.ts';
import type { Caller, Queries, QueryRequest, QueryRun, QueryStatistics } from './queries.ts';

export const runQueryTask = 'run_query';
export const profileQueryTask = 'profile_query';

/** What the record of a finished query task holds as its result. */
export interface QueryTaskResult {
  readonly queryId: string;
  readonly columns: readonly ResultColumn[];
  readonly rowCount: number;
  readonly truncated: boolean;
  readonly pageCount: number;
  readonly statistics: QueryStatistics;
}

/** The same of a profile: there are no rows to keep. */
export interface ProfileTaskResult {
  readonly profile: unknown;
  readonly rowCount: number;
  readonly statistics: QueryStatistics;
  readonly queryId: string;
}

export type QueryAnswer =
  | { readonly kind: 'task'; readonly task: TaskRecord }
  | {
      readonly kind: 'rows';
      readonly run: QueryRun;
      /** JSON arrays joined by commas: all of them, or the first page. */
      readonly rows: string | Uint8Array;
      /** Where the further pages are. */
      readonly pages: { readonly taskId: string; readonly pageCount: number } | undefined;
    };

/** `signal` is aborted when the caller goes away: a statement that it still waits for is stopped then. */
export interface Submission extends Caller, Pick<TaskRequest, 'priority' | 'after' | 'notify'> {
  readonly request: QueryRequest;
  readonly waitSeconds: number;
  /** URI of the catalog or database that the statement was sent to. */
  readonly target: string;
}

/** A statement that is being committed when it would become a task is waited for so much longer. */
const commitMsMax = 10_000;

type SubmitterCaps = Pick<Quotas, 'requireResultQuota' | 'recordResult' | 'resultRemoved'>;

export class QuerySubmitter {
  readonly #queries: Queries;
  readonly #tasks: Tasks;
  readonly #results: ResultStore;
  readonly #caps: SubmitterCaps;
  readonly #access: ResultAccess;
  /** Results on their way to a task that is not there yet. */
  readonly #keeping = new Set<string>();

  constructor(parts: {
    readonly queries: Queries;
    readonly tasks: Tasks;
    readonly results: ResultStore;
    readonly caps: SubmitterCaps;
    readonly access: ResultAccess;
  }) {
    this.#queries = parts.queries;
    this.#tasks = parts.tasks;
    this.#results = parts.results;
    this.#caps = parts.caps;
    this.#access = parts.access;
  }

  async submit(submission: Submission): Promise<QueryAnswer> {
    const { request, principal, actor, signal, caller, waitSeconds, target, priority, after, notify } = submission;
    const type = request.profile ? profileQueryTask : runQueryTask;
    const described = { type, principal, target, request, priority, after, notify };
    if (waitSeconds === 0) {
      // What a task answers is stored: better to say now that it cannot be.
      if (!request.profile) await this.#caps.requireResultQuota(principal.id);
      actor.writing = true;
      return { kind: 'task', task: await this.#tasks.submit({ ...described, guard: actor.guard }) };
    }
    await this.#queries.places.require(request.catalog, submission);
    const startedAt = Date.now();
    const controller = new AbortController();
    const abort = () => controller.abort();
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    const course: { fraction?: number; task?: Pick<TaskContext, 'progress'> } = {};
    const progress = (fraction: number) => {
      course.fraction = fraction;
      course.task?.progress(fraction);
    };
    const becoming = new TaskStep();
    const work = this.#queries.run(request, {
      principal,
      actor,
      signal: controller.signal,
      caller,
      progress,
      becoming,
    });
    try {
      const { guard } = actor;
      const taskId = newId();
      let run = await within(work, waitSeconds * 1000);
      let step: string | null | undefined;
      if (!run) {
        step = guard ? keyedStep(guard) : (await becoming.give(taskId)) ? taskId : null;
        if (step === null) run = await within(work, commitMsMax);
      }
      if (run) return await this.#rows(run, { ...described, startedAt });
      // From here on it is a task's: the caller may go.
      signal.removeEventListener('abort', abort);
      const running = (task: Pick<TaskContext, 'progress' | 'signal'>) => {
        course.task = task;
        if (course.fraction !== undefined) task.progress(course.fraction);
        task.signal.addEventListener('abort', abort, { once: true });
        return work.then((done) => this.keep({ taskId, principal }, done, { durable: true }));
      };
      // The statement runs already, and may be done before it is stopped.
      const begun = { ...described, request: { ...request, step } };
      actor.writing = true;
      const task = await this.#tasks.adopt({ ...begun, guard, taskId, running }).catch((error: unknown) => {
        throw withOutcome(error, 'unknown');
      });
      return { kind: 'task', task };
    } catch (error) {
      abort();
      work.catch(() => undefined);
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /** Keeps a result under its task: its rows in pages, a profile as it is. */
  async keep(
    { taskId, principal }: Pick<TaskRecord, 'taskId' | 'principal'>,
    run: QueryRun,
    options: { readonly durable: boolean },
  ): Promise<QueryTaskResult | ProfileTaskResult> {
    const { rows, profile } = run.result;
    if (profile !== undefined) return profileResult(run);
    try {
      const isDone = run.kind !== 'select';
      await this.#caps.recordResult(principal.id, taskId, run.statistics.resultBytes, isDone);
    } catch (error) {
      if (rows.kind === 'file') await rm(rows.path, { force: true });
      throw error;
    }
    await this.#access.record(taskId, run.sources);
    const { pageCount } = await this.#results.save(taskId, run.result, options);
    return taskResult(run, pageCount);
  }

  /** Deletes what is kept under a task. Idempotent. */
  async forget({ taskId, principal }: Pick<TaskRecord, 'taskId' | 'principal'>): Promise<void> {
    await this.#results.remove(taskId);
    await this.#access.forget(taskId);
    await this.#caps.resultRemoved(principal.id, taskId);
  }

  /** Deletes what no task answers with: a crash came between the result and its task, or the end of that. */
  async sweep(): Promise<void> {
    for (const taskId of await this.#results.taskIds()) {
      if (this.#keeping.has(taskId)) continue;
      const task = await this.#tasks.get(taskId);
      if (!task) {
        await this.#results.remove(taskId);
        await this.#access.forget(taskId);
      } else if (task.endedAt !== null && task.state !== 'succeeded') await this.forget(task);
    }
  }

  /** Throws FORBIDDEN where the task's principal may no longer read what it came from, RESULT_EXPIRED, OBJECT_NOT_FOUND. */
  async page(task: Pick<TaskRecord, 'taskId' | 'principal'>, page: number): Promise<ResultPage> {
    await this.#access.require(task);
    return this.#results.page(task.taskId, page);
  }

  async #rows(
    run: QueryRun,
    described: { type: string; principal: Principal; target: string; request: QueryRequest; startedAt: number },
  ): Promise<QueryAnswer> {
    const { rows } = run.result;
    if (rows.kind === 'text') return { kind: 'rows', run, rows: rows.text, pages: undefined };
    const pageCount = rows.offsets.length - 1;
    if (pageCount <= 1) {
      const bytes = await readFile(rows.path);
      await rm(rows.path, { force: true });
      return { kind: 'rows', run, rows: withoutSeparator(bytes), pages: undefined };
    }
    const taskId = newId();
    const { principal } = described;
    this.#keeping.add(taskId);
    try {
      const result = await this.keep({ taskId, principal }, run, { durable: false });
      await this.#tasks.record({ ...described, taskId, state: 'succeeded', endedAt: Date.now(), result });
    } catch (error) {
      await this.forget({ taskId, principal });
      throw error;
    } finally {
      this.#keeping.delete(taskId);
    }
    const first = await this.#results.page(taskId, 0);
    return { kind: 'rows', run, rows: first.rows, pages: { taskId, pageCount } };
  }
}

/** What a keyed statement that writes answers where an earlier attempt ran it and its answer is lost: the counts alone are known. */
export function confirmedRun({ rowCount, queryId }: AppliedWrite) {
  return { rowCount, statistics: { elapsedMs: 0, queuedMs: 0, resultBytes: 0 }, queryId };
}

export function profileResult({ queryId, result: { profile, rowCount }, statistics }: QueryRun): ProfileTaskResult {
  return { profile, rowCount, statistics, queryId };
}

function taskResult(run: QueryRun, pageCount: number): QueryTaskResult {
  const { queryId, result, statistics } = run;
  const { columns, rowCount, truncated } = result;
  return { queryId, columns, rowCount, truncated, pageCount, statistics };
}

/** The value if it comes within so many milliseconds. */
async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), ms);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
