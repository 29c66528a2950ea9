// Statement submission as seen by a caller: an answer within the wait time, or a task to poll. A result of more than one page always
// belongs to a task, because its pages are fetched there.
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { keyedStep } from '../../access/idempotency_keys.ts';
import type { TaskResultOf } from '../../api/tasks/task_types.ts';
import type { ExportedFiles } from '../../engines/port/export.ts';
import { orphanAgeMs } from '../../files/blobs/blob_places.ts';
import { withTimeout } from '../../model/concurrency/bounded_waits.ts';
import { newId } from '../../model/ids.ts';
import type { AppliedWrite, Principal } from '../../model/principal.ts';
import { withOutcome } from '../../standard/failure.ts';
import type { BodyPiece } from '../../standard/record_body.ts';
import type {
  AdoptedContext,
  RequireHeld,
  ResultOf,
  StoredRequests,
  TaskContext,
  TaskRecord,
  TaskRequest,
} from '../../tasks/task.ts';
import type { AdoptedTask, Tasks } from '../../tasks/tasks.ts';
import { type BegunResult, LiveResult } from '../results/live_result.ts';
import { withoutSeparator } from '../results/page_bytes.ts';
import type { ResultAccess } from '../results/result_access.ts';
import type { ResultFiles, ResultOwner } from '../results/result_files.ts';
import type { ResultQuota } from '../results/result_quota.ts';
import type { PageRows, ResultPage, ResultStore, StoredResult } from '../results/result_store.ts';
import { TaskStep } from '../task_step.ts';
import type { Caller, Queries, QueryRequest, QueryRun } from './queries.ts';
import type { RunCaller } from './query_request.ts';
import { StreamedResults } from './streamed_results.ts';

export const runQueryTask = 'run_query';
export const profileQueryTask = 'profile_query';

declare module '../../tasks/task.ts' {
  interface StoredRequests {
    readonly run_query: QueryRequest;
    readonly profile_query: QueryRequest;
  }
}

type QueryTaskResult = TaskResultOf<typeof runQueryTask>;
type FilesResult = QueryTaskResult & { readonly [K in 'files' | 'expiresAt']: NonNullable<QueryTaskResult[K]> };
type ProfileTaskResult = TaskResultOf<typeof profileQueryTask>;

/** `T`: the type of the task. */
export type QueryAnswer<T extends string = typeof runQueryTask> =
  | { readonly kind: 'task'; readonly task: TaskRecord<T> }
  | {
      readonly kind: 'rows';
      readonly run: QueryRun;
      /** JSON arrays joined by commas: all rows, or the first page. */
      readonly rows: BodyPiece;
      /** The task that has the remaining pages. */
      readonly pages: { readonly taskId: string; readonly pageCount: number } | undefined;
    }
  /** The first page of a result of which later pages are still computed. */
  | { readonly kind: 'begun'; readonly run: BegunResult; readonly rows: BodyPiece; readonly taskId: string }
  | { readonly kind: 'files'; readonly run: QueryRun; readonly taskId: string; readonly result: FilesResult };

/** `signal` is aborted when the caller disconnects; a statement that the caller still waits for is cancelled then. */
export interface Submission<R extends QueryRequest = QueryRequest>
  extends Caller,
    Pick<TaskRequest, 'priority' | 'after' | 'notify'> {
  readonly request: R;
  readonly waitSeconds: number;
  /** URI of the catalog or database that the statement was sent to. */
  readonly target: string;
}

/** The task of a result. `requireHeld`: if it runs, and others may take it over. */
export interface RunOwner extends ResultOwner {
  readonly requireHeld?: RequireHeld;
}

/** The task that a statement may become, and how its result is stored. */
interface QueryTask<T extends string> {
  readonly type: T;
  readonly save: (task: RunOwner, run: QueryRun) => Promise<ResultOf<T>>;
}

interface EndedStatement {
  readonly principal: Principal;
  readonly target: string;
  readonly request: QueryRequest;
  readonly startedAt: number;
}

/** Additional wait for a statement that is committing at the moment it would become a task. */
const commitMsMax = 10_000;

export class QuerySubmitter {
  readonly #queries: Queries;
  readonly #tasks: Tasks;
  readonly #results: ResultStore;
  readonly #quota: Pick<ResultQuota, 'requireAny'>;
  readonly #files: ResultFiles;
  readonly #access: ResultAccess;
  readonly #streamed: StreamedResults;
  /** Null: it alone uses the store. */
  readonly #serverId: string | null;
  /** Ids of tasks whose result is being saved before the task exists. */
  readonly #savingTaskIds = new Set<string>();

  constructor(parts: {
    readonly queries: Queries;
    readonly tasks: Tasks;
    readonly results: ResultStore;
    readonly quota: Pick<ResultQuota, 'requireAny'>;
    readonly files: ResultFiles;
    readonly access: ResultAccess;
    readonly serverId: string | undefined;
  }) {
    this.#serverId = parts.serverId ?? null;
    this.#queries = parts.queries;
    this.#tasks = parts.tasks;
    this.#results = parts.results;
    this.#quota = parts.quota;
    this.#files = parts.files;
    this.#access = parts.access;
    this.#streamed = new StreamedResults(parts.tasks, parts.access, parts.results);
  }

  /** Runs a statement. Its files may take what is left of the quota of the principal. */
  async run({ into, ...request }: QueryRequest, caller: RunCaller): Promise<QueryRun> {
    if (!into) return this.#queries.run(request, caller);
    const bytesMax = await this.#files.remainingBytes(caller);
    return this.#queries.run({ ...request, into: { ...into, bytesMax } }, caller);
  }

  /** The rows of a statement, or a task that stores them. */
  submit(submission: Submission): Promise<QueryAnswer> {
    return this.#submit({ type: runQueryTask, save: (task, run) => this.saveResult(task, run) }, submission);
  }

  /** The profile of a statement (`run.result.profile`), or a task that returns it. */
  profile(submission: Submission): Promise<QueryAnswer<typeof profileQueryTask>> {
    const request: QueryRequest = { ...submission.request, profile: true };
    const save = async (_: unknown, run: QueryRun) => profileResult(run);
    return this.#submit({ type: profileQueryTask, save }, { ...submission, request });
  }

  async #submit<T extends string>(
    { type, save }: QueryTask<T>,
    submission: Submission<QueryRequest & StoredRequests[T]>,
  ): Promise<QueryAnswer<T>> {
    const { request, principal, actor, signal, caller, waitSeconds, target, priority, after, notify } = submission;
    const submitted = { type, principal, target, request, priority, after, notify };
    if (waitSeconds === 0) {
      // The result of a task is stored: a quota that is already exhausted is reported now.
      if (request.into) await this.#files.remainingBytes({ principal });
      else if (!request.profile) await this.#quota.requireAny(principal.id);
      actor.writing = true;
      return { kind: 'task', task: await this.#tasks.submit({ ...submitted, guard: actor.guard }) };
    }
    const startedAt = Date.now();
    const controller = new AbortController();
    const abort = () => controller.abort();
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    const reported: { fraction?: number; task?: Pick<TaskContext, 'progress'> } = {};
    const progress = (fraction: number) => {
      reported.fraction = fraction;
      reported.task?.progress(fraction);
    };
    const taskStep = new TaskStep();
    const live = new LiveResult();
    const queryId = newId();
    const work = this.run(request, {
      queryId,
      principal,
      actor,
      signal: controller.signal,
      caller,
      progress,
      taskStep,
      pages: live,
    });
    try {
      const { guard } = actor;
      const taskId = newId();
      let run = await withTimeout(Promise.race([work, live.begun]), waitSeconds * 1000);
      if (run) live.decline();
      else live.defer();
      if (!run && live.isTaken) {
        const answer = await this.#answerWithFirstPage(live, work, { ...submitted, abort, signal });
        if (answer) return answer;
        run = await work;
      }
      let step: string | null | undefined;
      if (!run) {
        step = guard ? keyedStep(guard) : (await taskStep.assign(taskId)) ? taskId : null;
        if (step === null) run = await withTimeout(work, commitMsMax);
      }
      if (run) {
        live.end();
        return await this.#answerWithResult(run, { ...submitted, startedAt });
      }
      // From here on the statement belongs to a task: the caller may disconnect.
      signal.removeEventListener('abort', abort);
      const continueAsTask = (task: AdoptedContext) => {
        reported.task = task;
        if (reported.fraction !== undefined) task.progress(reported.fraction);
        task.signal.addEventListener('abort', abort, { once: true });
        const saved = work.then((done) => save({ ...task, taskId, principal }, done));
        return this.#streamed.follow(taskId, live, saved);
      };
      // The statement is already running and may finish before it is stopped.
      const startedTask = { ...submitted, request: { ...request, step } };
      actor.writing = true;
      const task = await this.#adopt(queryId, { ...startedTask, guard, taskId, running: continueAsTask });
      return { kind: 'task', task };
    } catch (error) {
      abort();
      live.end();
      work.catch(() => undefined);
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /** Makes a task of a running statement. */
  async #adopt<T extends string>(
    queryId: string,
    task: AdoptedTask<T> & { readonly taskId: string },
  ): Promise<TaskRecord<T>> {
    this.#queries.assignTask(queryId, task.taskId);
    try {
      return await this.#tasks.adopt(task);
    } catch (error) {
      this.#queries.assignTask(queryId, null);
      throw withOutcome(error, 'unknown');
    }
  }

  /** Undefined if the statement must be waited for instead. From the answer on, it belongs to a task. */
  async #answerWithFirstPage(
    live: LiveResult,
    work: Promise<QueryRun>,
    submitted: Pick<Submission, 'principal' | 'target' | 'request' | 'signal'> & { readonly abort: () => void },
  ): Promise<Extract<QueryAnswer, { kind: 'begun' }> | undefined> {
    const { principal, target, request, signal, abort } = submitted;
    const taskId = newId();
    const running = ({ signal: ofTask, requireHeld }: AdoptedContext) => {
      signal.removeEventListener('abort', abort);
      ofTask.addEventListener('abort', abort, { once: true });
      return work.then((run) => this.#saveRows({ taskId, principal, requireHeld }, run, { durable: false }));
    };
    const { queryId } = live.started;
    this.#queries.assignTask(queryId, taskId);
    const rows = await this.#streamed.begin(live, { taskId, principal, target, request, running }, signal);
    if (!rows) this.#queries.assignTask(queryId, null);
    return rows && { kind: 'begun', run: live.started, rows: rows.rows, taskId };
  }

  /** Saves the rows of a result under its task: as files if they were asked for, otherwise as pages. */
  saveResult(owner: RunOwner, run: QueryRun): Promise<QueryTaskResult> {
    return run.result.files
      ? this.#saveFiles(owner, run, run.result.files)
      : this.#saveRows(owner, run, { durable: true });
  }

  async #saveFiles(
    owner: RunOwner,
    run: QueryRun,
    { directory, entries, format }: ExportedFiles,
  ): Promise<FilesResult> {
    await this.#access.record(owner.taskId, run.sources, owner.requireHeld);
    let expiresAt = Number.POSITIVE_INFINITY;
    const files: FilesResult['files'][number][] = [];
    try {
      for (const file of entries) {
        const stored = await this.#files.store(join(directory, file.name), file, owner, owner.requireHeld);
        expiresAt = Math.min(expiresAt, stored.expiresAt);
        files.push({ fileId: stored.fileId, format, bytes: file.bytes, rowCount: file.rows });
      }
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
    return { ...taskResult(run, 0), files, expiresAt: new Date(expiresAt).toISOString() };
  }

  async #saveRows(
    owner: RunOwner,
    run: QueryRun,
    options: { readonly durable: boolean },
    stored: StoredResult = this.#results.newResult(owner.taskId),
  ): Promise<QueryTaskResult> {
    const { rows } = run.result;
    try {
      const { storedAs } = stored;
      const { resultBytes: bytes } = run.statistics;
      const toStore = { sources: run.sources, storedAs, bytes, isForced: run.kind !== 'select' };
      await this.#access.recordRows(owner, toStore, owner.requireHeld);
    } catch (error) {
      if (rows.kind === 'file') await rm(rows.path, { force: true });
      throw error;
    }
    const { pageCount } = await this.#results.save(stored, run.result, options);
    return taskResult(run, pageCount);
  }

  /** Deletes the stored result of a task; by a run of the task, that of earlier runs. Idempotent. */
  async deleteResult({ taskId, requireHeld }: Omit<RunOwner, 'principal'>): Promise<void> {
    // The key in the bucket is of one run; the record of it ends first, because another run may have it from then on.
    const storedAs = requireHeld ? await this.#access.remove(taskId, requireHeld) : await this.#access.storedAs(taskId);
    await this.#results.remove({ taskId, storedAs: storedAs ?? null });
    await this.#files.remove(taskId, requireHeld);
    if (!requireHeld) await this.#access.remove(taskId);
  }

  /**
   * Deletes results in the data directory that nobody reads: a crash happened between saving the result and recording its task, or the end
   * of the task, or another server has run the task again. And what is recorded of such results.
   */
  async sweep(now = Date.now()): Promise<void> {
    for (const taskId of await this.#results.taskIds()) {
      if (this.#savingTaskIds.has(taskId)) continue;
      const task = await this.#tasks.get(taskId);
      if (!task) {
        await this.#results.remove({ taskId, storedAs: null });
        await this.#access.remove(taskId);
      } else if (task.endedAt !== null && task.state !== 'succeeded') await this.deleteResult(task);
      else if (task.endedAt !== null && task.serverId !== this.#serverId)
        await this.#results.remove({ taskId, storedAs: null });
    }
    await this.#access.sweep(now - orphanAgeMs);
    await this.#access.fill();
  }

  /** The same in the bucket. What is new may belong to a task that another server is about to record. Throws REMOTE_UNAVAILABLE. */
  async sweepBucket(now = Date.now()): Promise<void> {
    for await (const stored of this.#results.storedBefore(now - orphanAgeMs)) {
      const { taskId, storedAs } = stored;
      const task = await this.#tasks.get(taskId);
      if (!task) await this.#access.remove(taskId);
      else if (task.endedAt !== null && task.state !== 'succeeded') await this.deleteResult(task);
      if ((await this.#access.storedAs(taskId)) !== storedAs) await this.#results.remove(stored);
    }
  }

  /** Throws FORBIDDEN if the task's principal may no longer read the sources of the result, RESULT_EXPIRED, OBJECT_NOT_FOUND. */
  async page(task: ResultOwner, page: number): Promise<ResultPage> {
    return this.#results.page(await this.#access.require(task), page);
  }

  /** Whether pages of a result that is being computed can be read. */
  hasLivePages(taskId: string): boolean {
    return this.#streamed.hasPages(taskId);
  }

  /** The pages that are complete, without their rows. Throws as `page`. */
  async pages(task: ResultOwner): Promise<readonly PageRows[]> {
    const streamed = await this.#streamed.pages(task);
    if (streamed) return streamed;
    return this.#results.pages(await this.#access.require(task));
  }

  /** A page of a result that is being computed: see StreamedResults. */
  streamedPage(task: ResultOwner, page: number, signal: AbortSignal): Promise<ResultPage | undefined> {
    return this.#streamed.page(task, page, signal);
  }

  async #answerWithResult(run: QueryRun, submitted: EndedStatement): Promise<Exclude<QueryAnswer, { kind: 'task' }>> {
    const { rows, files } = run.result;
    const taskId = newId();
    if (files) {
      const save = () => this.#saveFiles({ taskId, principal: submitted.principal }, run, files);
      return { kind: 'files', run, taskId, result: await this.#record(taskId, submitted, save) };
    }
    if (rows.kind === 'text') return { kind: 'rows', run, rows: rows.text, pages: undefined };
    const pageCount = rows.offsets.length - 1;
    if (pageCount <= 1) {
      const bytes = await readFile(rows.path);
      await rm(rows.path, { force: true });
      return { kind: 'rows', run, rows: withoutSeparator(bytes), pages: undefined };
    }
    const stored = this.#results.newResult(taskId);
    const save = () => this.#saveRows({ taskId, principal: submitted.principal }, run, { durable: false }, stored);
    await this.#record(taskId, submitted, save);
    const first = await this.#results.page(stored, 0);
    return { kind: 'rows', run, rows: first.rows, pages: { taskId, pageCount } };
  }

  /** Saves the result of a statement that has ended, and records its task. */
  async #record<R extends QueryTaskResult>(
    taskId: string,
    submitted: EndedStatement,
    save: () => Promise<R>,
  ): Promise<R> {
    this.#savingTaskIds.add(taskId);
    try {
      return await this.#files.whileUnrecorded(taskId, async () => {
        const result = await save();
        const ended = { state: 'succeeded', endedAt: Date.now() } as const;
        await this.#tasks.record({ ...submitted, type: runQueryTask, taskId, ...ended, result });
        return result;
      });
    } catch (error) {
      await this.deleteResult({ taskId });
      throw error;
    } finally {
      this.#savingTaskIds.delete(taskId);
    }
  }
}

/** The answer to a keyed write that an earlier attempt applied and whose own answer is lost: only the counts are known. */
export function confirmedRun({ rowCount, queryId }: AppliedWrite) {
  return { rowCount, statistics: { elapsedMs: 0, queuedMs: 0, resultBytes: 0 }, queryId };
}

export function profileResult({
  queryId,
  result: { profile = {}, rowCount },
  statistics,
}: QueryRun): ProfileTaskResult {
  return { profile, rowCount, statistics, queryId };
}

function taskResult(run: QueryRun, pageCount: number): QueryTaskResult {
  const { queryId, result, statistics } = run;
  const { columns, rowCount, truncated } = result;
  return { queryId, columns, rowCount, truncated, pageCount, statistics };
}
