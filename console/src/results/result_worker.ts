// The worker of results: runs statements with the client, keeps their rows, fetches more of them when the page scrolls, and sorts,
// filters and copies them, so that none of that holds up the page.
import {
  type Client,
  createClient,
  type Query,
  TabulariumError,
  type Task,
  type Value,
} from '../../../src/client/index.ts';
import { profileOf } from './column_profile.ts';
import { copiedText } from './copied_text.ts';
import type { Answers, FromWorker, Question, SentError, Statement, Summary, ToWorker, View } from './messages.ts';
import { isWhole, orderOf } from './row_order.ts';

/** After that a statement that still runs has a task, whose progress is shown. */
const waitSeconds = 1;
const retryForMs = 8000;

const post = (message: FromWorker): void => self.postMessage(message);

class Run {
  readonly #id: number;
  readonly #client: Client;
  readonly #abort = new AbortController();
  readonly #rows: (readonly Value[])[] = [];
  #token: string;
  #query: Query | undefined;
  #task: Promise<Task> | undefined;
  #summary: Summary | undefined;
  #source: AsyncGenerator<readonly Value[]> | undefined;
  /** Fetches one after the other. */
  #fetching: Promise<unknown> = Promise.resolve();
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
    this.#query = this.#client.query(sql, {
      ...place,
      waitSeconds,
      signal: this.#abort.signal,
      ...(parameters === undefined ? {} : { parameters: parameters as unknown[] }),
      ...(warehouse === undefined ? {} : { warehouse }),
      onProgress: ({ taskId, state, progress, progressText, expectedEndAt }) => {
        this.#task ??= this.#client.task(taskId);
        this.#task.catch(() => undefined);
        post({ run: this.#id, kind: 'progress', task: { taskId, state, progress, progressText, expectedEndAt } });
      },
    });
    try {
      const { columns, rowCount, truncated, queryId, statistics } = await this.#query.summary();
      this.#summary = { columns, rowCount, truncated, queryId, statistics };
      this.#source = this.#query.arrays();
      post({ run: this.#id, kind: 'succeeded', summary: this.#summary });
    } catch (error) {
      post({ run: this.#id, kind: 'failed', error: sentError(error) });
    }
  }

  /** A statement without a task is cancelled by the end of its request. */
  async cancel(): Promise<void> {
    if (!this.#task) {
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
    this.#abort.abort();
    this.#rows.length = 0;
  }

  answer(question: Question): Promise<Answers[keyof Answers]> {
    switch (question.kind) {
      case 'rows':
        return this.#window(question.view, question.from, question.to);
      case 'viewSize':
        return isWhole(question.view)
          ? Promise.resolve(this.#summary?.rowCount ?? 0)
          : this.#indicesOf(question.view).then(({ length }) => length);
      case 'profile':
        return this.#profile(question.view);
      case 'export':
        return this.#window(question.view, 0, question.rowsMax).then((rows) =>
          copiedText(question.format, this.#summary?.columns ?? [], rows),
        );
    }
  }

  async #window(view: View, from: number, to: number): Promise<readonly (readonly Value[])[]> {
    if (isWhole(view)) {
      await this.#fetch(to);
      return this.#rows.slice(from, to);
    }
    const indices = await this.#indicesOf(view);
    return Array.from(indices.subarray(from, to), (index) => this.#rows[index] ?? []);
  }

  async #profile(view: View): Promise<Answers['profile']> {
    const rows = await this.#window(view, 0, Number.POSITIVE_INFINITY);
    const columns = this.#summary?.columns ?? [];
    return columns.map((column, i) => profileOf(column, valuesOf(rows, i)));
  }

  /** Needs all rows of the result. */
  async #indicesOf(view: View): Promise<Uint32Array> {
    const key = JSON.stringify(view);
    if (this.#order?.view === key) return this.#order.indices;
    await this.#fetch(Number.POSITIVE_INFINITY);
    const indices = orderOf(this.#summary?.columns ?? [], this.#rows, view);
    this.#order = { view: key, indices };
    return indices;
  }

  #fetch(count: number): Promise<unknown> {
    const next = this.#fetching.then(async () => {
      const before = this.#rows.length;
      while (this.#rows.length < count) {
        const { value, done } = (await this.#source?.next()) ?? { done: true, value: undefined };
        if (done) break;
        this.#rows.push(value);
        if (this.#rows.length % 50_000 === 0) post({ run: this.#id, kind: 'fetched', rows: this.#rows.length });
      }
      if (this.#rows.length > before) post({ run: this.#id, kind: 'fetched', rows: this.#rows.length });
    });
    // One fetch that fails does not prevent the next.
    this.#fetching = next.catch(() => undefined);
    return next;
  }
}

function* valuesOf(rows: readonly (readonly Value[])[], column: number): Generator<Value> {
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
