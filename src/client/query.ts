// A SQL query: sent when its result is first asked for, read page by page.

import type { QueryBody, QueryResult } from '../api/queries/sql_actions.ts';
import type { Immutable } from '../standard/type.ts';
import { waitSecondsDefault } from './operations.ts';
import { Submitted, Task, type TaskRecord, type WaitOptions } from './task.ts';
import type { Sender } from './transport.ts';
import { decoderOf, type Value } from './values.ts';

export interface QueryOptions extends Omit<Immutable<QueryBody>, 'sql' | 'numbers' | 'format'>, WaitOptions {
  /** The default is `default`. */
  readonly catalog?: string | undefined;
  /** The database that names without one are in. */
  readonly database?: string | undefined;
  /** For a statement that changes rows: one that is sent again with its key is done once. */
  readonly idempotencyKey?: string | undefined;
}

export interface Column {
  readonly name: string;
  /** As in the records of tables: `DECIMAL(18,2)`. */
  readonly type: string;
}

interface Page {
  readonly columns?: readonly Column[];
  readonly rows?: readonly (readonly unknown[])[] | null;
  readonly nextPage?: string | undefined;
}

type Result = Immutable<Omit<QueryResult, 'rows'>> & Page;
type Counts = 'rowCount' | 'pageCount' | 'truncated';
type Summary = Omit<Result, 'rows' | 'nextPage' | Counts> & { readonly [C in Counts]: NonNullable<Result[C]> };

/** For rows by column name. */
export type Row = Readonly<Record<string, Value>>;

export class Query<R = Row> implements AsyncIterable<R> {
  readonly #transport: Sender;
  readonly #sql: string;
  readonly #options: QueryOptions;
  #answer: Promise<Result> | undefined;

  constructor(transport: Sender, sql: string, options: QueryOptions) {
    this.#transport = transport;
    this.#sql = sql;
    this.#options = options;
  }

  /** Of the whole result, once it is complete: number of rows (of DML, of the rows changed), columns, times. */
  async summary(): Promise<Summary> {
    const { rows: _rows, nextPage, ...summary } = await this.#begun();
    if (nextPage === undefined || summary.rowCount !== null) return summary as Summary;
    const { onProgress, signal } = this.#options;
    const path = nextPage.replace(/\/pages\/.*/, '');
    const { result } = await this.#transport.send({ method: 'GET', path, isRead: true, signal });
    const task = new Task<Summary>(this.#transport, result as unknown as TaskRecord);
    return { ...summary, ...(await task.done({ onProgress, signal })) };
  }

  /** Runs the query for a file in the Arrow format, with all rows: for `tableFromIPC` of apache-arrow, for example. */
  async arrow(): Promise<Uint8Array> {
    const { response, task } = await this.#arrowFile();
    const bytes = new Uint8Array(await response.arrayBuffer());
    // The file counts towards the quota of the caller. It expires with its task in any case.
    if (task !== undefined)
      await this.#transport.send({ method: 'DELETE', path: task, isRead: true }).catch(() => undefined);
    return bytes;
  }

  /** As `arrow`, for a file that need not fit into memory. The server keeps the file as long as the task of the result. */
  async arrowStream(): Promise<ReadableStream<Uint8Array>> {
    const { body } = (await this.#arrowFile()).response;
    if (!body) throw new TypeError('the file has no content');
    return body;
  }

  async #arrowFile(): Promise<{ readonly response: Response; readonly task: string | undefined }> {
    const { files, task } = await this.#run({ format: 'arrow' });
    const uri = files?.[0]?.uri;
    if (uri === undefined) throw new TypeError('the answer has no file');
    return { response: await this.#transport.download(uri, this.#options.signal), task };
  }

  /** All rows in an array. */
  async all(): Promise<R[]> {
    const all: R[] = [];
    for await (const row of this) all.push(row);
    return all;
  }

  /** Rows as arrays in the order of the columns. */
  async *arrays(): AsyncGenerator<readonly Value[]> {
    const result = await this.#begun();
    const decoders = result.columns.map(({ type }) => decoderOf(type));
    for (let page: Page | undefined = result; page; page = await this.#pageAfter(page))
      for (const row of page.rows ?? []) yield row.map((value, i) => decoders[i]?.(value) ?? null);
  }

  async *[Symbol.asyncIterator](): AsyncIterator<R> {
    const names = (await this.#begun()).columns.map(({ name }) => name);
    for await (const row of this.arrays())
      yield Object.fromEntries(row.map((value, i) => [names[i] as string, value])) as R;
  }

  #begun(): Promise<Result> {
    this.#answer ??= this.#run({});
    return this.#answer;
  }

  async #run(format: Pick<QueryBody, 'format'>): Promise<Result> {
    const { catalog = 'default', database, idempotencyKey, onProgress: _onProgress, signal, ...fields } = this.#options;
    const segments = database === undefined ? [catalog] : [catalog, 'databases', database];
    const answer = this.#transport.send({
      method: 'POST',
      path: `/api/v2/catalogs/${segments.map(encodeURIComponent).join('/')}/query`,
      body: { ...fields, ...format, sql: this.#sql, numbers: 'string' },
      isRead: false,
      idempotencyKey,
      signal,
      waitMs: (fields.waitSeconds ?? waitSecondsDefault) * 1000,
    });
    const first = await new Submitted<Result>(this.#transport, answer);
    return first instanceof Task ? this.#resultOf(first) : first;
  }

  /** The result of a task has no rows; they are on its pages. */
  async #resultOf(task: Task<Result>): Promise<Result> {
    const { onProgress, signal } = this.#options;
    const result = await task.done({ onProgress, signal });
    const { firstPage } = task.record;
    if (firstPage === undefined) return { ...result, task: task.uri };
    return { ...result, ...(await this.#page(firstPage)) } as Result;
  }

  async #pageAfter({ nextPage }: Page): Promise<Page | undefined> {
    return nextPage === undefined ? undefined : this.#page(nextPage);
  }

  async #page(path: string): Promise<Page> {
    const { signal } = this.#options;
    const { result } = await this.#transport.send({ method: 'GET', path, isRead: true, signal });
    return result as Page;
  }
}
