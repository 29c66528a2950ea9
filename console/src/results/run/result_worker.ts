// The worker of results: runs statements with the client, holds their rows, fetches more of them when the page scrolls, and sorts,
// filters and copies them, so that none of that blocks the page.
import {
  type Client,
  type Column,
  createClient,
  TabulariumError,
  type Task,
  type TaskRecord,
  type Value,
} from '../../../../src/client/index.ts';
import { profileOf } from '../columns/column_profile.ts';
import { copiedText, fileOf } from './copied_text.ts';
import type { Answers, FromWorker, Question, SentError, Statement, Summary, ToWorker, View } from './messages.ts';
import { PagedRows, type Rows } from './paged_rows.ts';
import { isWhole, orderOf } from './row_order.ts';

/** After that a statement that still runs has a task, whose progress is shown. */
const waitSeconds = 2;
/** An answer with a task may already be on its way that long before the wait is over. */
const answerIsNearMs = 250;
const retryForMs = 8000;

type QueryRecord = Awaited<ReturnType<ReturnType<Client['queries']>['get']>>;

const post = (message: FromWorker): void => self.postMessage(message);

class Run {
  readonly #id: number;
  readonly #client: Client;
  readonly #abort = new AbortController();
  /** Settles with the statement; never rejects. */
  readonly #ended = Promise.withResolvers<void>();
  #token: string;
  #task: Promise<Task> | undefined;
  readonly #startedAt = performance.now();
  /** Of the statement in its warehouse; undefined until it is read. */
  #queue: Pick<QueryRecord, 'state' | 'queuePosition' | 'queuedMs'> | undefined;
  #isCancelled = false;
  /** From the first complete page on. */
  #rows: PagedRows | undefined;
  #columns: readonly Column[] = [];
  #queryId = '';
  #summary: Summary | undefined;
  #order: { readonly view: string; readonly indices: Uint32Array } | undefined;

  constructor(id: number, origin: string, token: string) {
    this.#id = id;
    this.#token = token;
    this.#client = createClient({
      url: origin,
      retryForMs,
      token: () => this.#token,
      fetch: (input, init) => fetch(input, { ...init, credentials: 'omit' }),
    });
  }

  async start({ sql, place, parameters, warehouse }: Statement): Promise<void> {
    const query = this.#client.query(sql, {
      ...place,
      waitSeconds,
      signal: this.#abort.signal,
      ...(parameters === undefined ? {} : { parameters: parameters as unknown[] }),
      ...(warehouse === undefined ? {} : { warehouse }),
      onProgress: (task) => this.#watch(task),
    });
    try {
      const { columns, queryId, rowCount } = await query.begun();
      [this.#columns, this.#queryId] = [columns, queryId];
      const rows = new PagedRows(query, (fetched) => post({ run: this.#id, kind: 'fetched', rows: fetched }));
      await rows.begin();
      this.#rows = rows;
      if (rowCount === null) this.#postBegun(rows);
      const { truncated, statistics, ...counted } = await query.summary();
      await rows.refresh();
      this.#summary = { columns, rowCount: counted.rowCount, truncated, queryId, statistics };
      post({ run: this.#id, kind: 'succeeded', summary: this.#summary });
    } catch (error) {
      post({ run: this.#id, kind: 'failed', error: sentError(error) });
    } finally {
      this.#ended.resolve();
    }
  }

  /** Called about once a second while the statement is a task, and at its end. */
  #watch(task: TaskRecord): void {
    const { taskId, queryId } = task;
    this.#task ??= this.#client.task(taskId);
    this.#task.catch(() => undefined);
    if (this.#isCancelled) void this.cancel();
    this.#postProgress(task);
    if (queryId !== undefined && task.endedAt === null && (this.#queue?.state ?? 'queued') === 'queued')
      void this.#readQueue(queryId, task);
    const rows = this.#rows;
    rows?.refresh().then(
      () => this.#postBegun(rows),
      // The next look, or the end of the statement, says why.
      () => undefined,
    );
  }

  /** A statement that runs does not return to the queue, so that this is read until it runs. */
  async #readQueue(queryId: string, task: TaskRecord): Promise<void> {
    try {
      const signal = this.#abort.signal;
      this.#queue = await this.#client.queries(queryId).get({ signal });
      this.#postProgress(task);
    } catch {
      // The next look at the task reads it again, or says what failed.
    }
  }

  #postProgress({ state, progress, progressText: text, expectedEndAt }: TaskRecord): void {
    const { state: inQueue, queuePosition = null, queuedMs = null } = this.#queue ?? {};
    const isWaiting = state === 'pending' || inQueue === 'queued';
    const known = { isWaiting, queuePosition, queuedMs, fraction: progress, text, expectedEndAt };
    post({ run: this.#id, kind: 'progress', progress: known });
  }

  #postBegun({ rowCount }: PagedRows): void {
    const [columns, queryId] = [this.#columns, this.#queryId];
    if (!this.#summary) post({ run: this.#id, kind: 'begun', begun: { columns, queryId, rowCount } });
  }

  /** A statement without a task is cancelled by the end of its request. */
  async cancel(): Promise<void> {
    this.#isCancelled = true;
    if (!this.#task) {
      // From its first page and from the end of the wait on it has a task, which is about to be known.
      const isAnswerNear = performance.now() - this.#startedAt > waitSeconds * 1000 - answerIsNearMs;
      if (!this.#rows && !isAnswerNear)
        this.#abort.abort(new TabulariumError('TASK_CANCELLED', { status: 0, message: 'the statement was cancelled' }));
      return;
    }
    try {
      await (await this.#task).cancel();
    } catch (error) {
      post({ run: this.#id, kind: 'failed', error: sentError(error) });
    }
  }

  replaceToken(token: string): void {
    this.#token = token;
  }

  close(): void {
    if (!this.#summary) void this.cancel();
    void this.#ended.promise.then(() => {
      this.#abort.abort();
      this.#rows?.clear();
    });
  }

  async answer(question: Question): Promise<Answers[keyof Answers]> {
    switch (question.kind) {
      case 'rows':
        return this.#window(question.view, question.from, question.to);
      case 'viewSize':
        return isWhole(question.view)
          ? (await this.#complete()).rowCount
          : (await this.#indicesOf(question.view)).length;
      case 'profile':
        return this.#profile(question.view);
      case 'export': {
        await this.#complete();
        const rows = await this.#window(question.view, 0, question.rowsMax);
        return copiedText(question.format, this.#columns, rows);
      }
      case 'file':
        return fileOf(question.format, this.#columns, (await this.#complete()).inPages());
    }
  }

  async #window(view: View, from: number, to: number): Promise<Rows> {
    if (isWhole(view)) return (await this.#rows?.slice(from, to)) ?? [];
    const [rows, indices] = [await this.#allRows(), await this.#indicesOf(view)];
    return Array.from(indices.subarray(from, to), (index) => rows[index] ?? []);
  }

  async #profile(view: View): Promise<Answers['profile']> {
    await this.#allRows();
    const rows = await this.#window(view, 0, Number.POSITIVE_INFINITY);
    return this.#columns.map((column, i) => profileOf(column, valuesOf(rows, i)));
  }

  async #indicesOf(view: View): Promise<Uint32Array> {
    const key = JSON.stringify(view);
    if (this.#order?.view === key) return this.#order.indices;
    const indices = orderOf(this.#columns, await this.#allRows(), view);
    this.#order = { view: key, indices };
    return indices;
  }

  async #allRows(): Promise<Rows> {
    return (await this.#complete()).all();
  }

  /** The rows of the result, once their number is known. */
  async #complete(): Promise<PagedRows> {
    await this.#ended.promise;
    if (!this.#rows || !this.#summary)
      throw new TabulariumError('RESULT_EXPIRED', {
        status: 0,
        message: 'the statement ended before its result was complete',
      });
    return this.#rows;
  }
}

function* valuesOf(rows: Rows, column: number): Generator<Value> {
  for (const row of rows) yield row[column] ?? null;
}

function sentError(error: unknown): SentError {
  if (!(error instanceof TabulariumError))
    return { code: 'NO_ANSWER', status: 0, message: String(error), result: {}, requestId: undefined };
  const { code, status, message, result, requestId } = error;
  // Results of failures are JSON, but exact numbers in them cannot be posted as they are.
  return {
    code,
    status,
    message,
    result: JSON.parse(JSON.stringify(result, plainNumber)) as SentError['result'],
    requestId,
  };
}

const plainNumber = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);

const runs = new Map<number, Run>();

function receive(message: ToWorker): void {
  const { run: id } = message;
  if (message.kind === 'start') {
    const run = new Run(id, message.origin, message.token);
    runs.set(id, run);
    void run.start(message.statement);
    return;
  }
  if (message.kind === 'token') {
    for (const run of runs.values()) run.replaceToken(message.token);
    return;
  }
  const run = runs.get(id);
  if (!run) return;
  if (message.kind === 'cancel') void run.cancel();
  else if (message.kind === 'close') {
    run.close();
    runs.delete(id);
  } else {
    const { request, question } = message;
    run.answer(question).then(
      (answer) => post({ run: id, kind: 'answer', request, answer }),
      (error: unknown) => post({ run: id, kind: 'noAnswer', request, error: sentError(error) }),
    );
  }
}

self.addEventListener('message', ({ data }: MessageEvent<ToWorker>) => receive(data));
