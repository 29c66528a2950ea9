// A SQL query: sent when its result is first asked for, read page by page.

import type { QueryBody, QueryResult } from '../api/queries/sql_actions.ts';
import type { Immutable } from '../standard/type.ts';
import type { PageRow } from './json/page_rows.ts';
import { List } from './list.ts';
import { waitSecondsDefault } from './operations.ts';
import { Submitted, Task, type TaskRecord, type WaitOptions } from './task.ts';
import type { Answer, Sender } from './transport.ts';
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

/** Which rows of the result a page has. */
export interface ResultPage {
  readonly page: number;
  readonly firstRow: number;
  readonly rowCount: number;
}

interface Page {
  readonly columns?: readonly Column[];
  readonly rows?: Iterable<PageRow> | null;
  readonly nextPage?: string | undefined;
  readonly pageCount?: number | null | undefined;
}

/** Statistics are absent while a task computes it. */
type Result = Immutable<Omit<QueryResult, 'rows' | 'statistics'>> & Partial<Pick<QueryResult, 'statistics'>> & Page;
type Counts = 'rowCount' | 'pageCount' | 'truncated';
/** A result of which the first page is complete: its counts are null while later pages are computed. */
type Begun = Omit<Result, 'rows' | 'nextPage' | 'statistics'>;
type Summary = Omit<Begun, Counts> & { readonly [C in Counts]: NonNullable<Result[C]> } & Pick<
    QueryResult,
    'statistics'
  >;

type Rows = readonly (readonly Value[])[];

/** For rows by column name. */
export type Row = Readonly<Record<string, Value>>;

export class Query<R = Row> implements AsyncIterable<R> {
  readonly #transport: Sender;
  readonly #sql: string;
  readonly #options: QueryOptions;
  #answer: Promise<Result> | undefined;
  /** Its URI. */
  #task: string | undefined;

  constructor(transport: Sender, sql: string, options: QueryOptions) {
    this.#transport = transport;
    this.#sql = sql;
    this.#options = options;
  }

  /** As soon as the first page is complete. Later pages may still be computed: see `pages`. */
  async begun(): Promise<Begun> {
    const { rows: _rows, nextPage: _nextPage, statistics: _statistics, ...begun } = await this.#begun();
    return begun;
  }

  /** The pages that are complete so far, in their order; `page` has their rows. */
  async pages(): Promise<readonly ResultPage[]> {
    const { rows, nextPage } = await this.#begun();
    if (nextPage === undefined) return [{ page: 0, firstRow: 0, rowCount: [...(rows ?? [])].length }];
    const list = new List<ResultPage>(async (pageToken) => {
      const query = pageToken === undefined ? '' : `?pageToken=${encodeURIComponent(pageToken)}`;
      const listed = await this.#get(`${taskOf(nextPage)}/pages${query}`);
      return {
        items: listed.pages as readonly ResultPage[],
        nextPageToken: listed.nextPageToken as string | undefined,
      };
    });
    return list.all();
  }

  /** The rows of a page as arrays in the order of the columns. One that is still computed is waited for. */
  async page(page: number): Promise<Rows> {
    const first = await this.#begun();
    if (page === 0 || first.nextPage === undefined) return decodedRows(first, first.columns);
    let found: Page;
    // A page that is not complete in time has no rows, and its next page is itself.
    let path = `${taskOf(first.nextPage)}/pages/${page}`;
    do {
      found = await this.#page(path);
      path = found.nextPage ?? '';
    } while (path.endsWith(`/pages/${page}`));
    return decodedRows(found, first.columns);
  }

  /** The summary of the whole result when it is complete: the number of rows (for DML, of changed rows), columns, times. */
  async summary(): Promise<Summary> {
    const { rows: _rows, nextPage, ...summary } = await this.#begun();
    if (nextPage === undefined || summary.rowCount !== null) return summary as Summary;
    const { onProgress, signal } = this.#options;
    const record = await this.#get(taskOf(nextPage));
    const task = new Task<Summary>(this.#transport, record as unknown as TaskRecord);
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
    if (uri === undefined) throw new TypeError('the response has no file');
    return { response: await this.#transport.download(uri, this.#options.signal), task };
  }

  /**
   * Cancels the statement where a task computes its result, also if rows were read already; otherwise does nothing: a statement without a task
   * ends with its request.
   */
  async cancel(signal?: AbortSignal): Promise<void> {
    // Cancelling twice is cancelling once.
    if (this.#task !== undefined)
      await this.#transport.send({ method: 'POST', path: `${this.#task}/cancel`, body: {}, isRead: true, signal });
  }

  /** The task that computes the result; undefined if there is none, or if none is known yet. */
  get taskId(): string | undefined {
    return this.#task?.split('/').at(-1);
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
    for (let page: Page | undefined = result; page; page = await this.#pageAfter(page))
      yield* decodedOneByOne(page, result.columns);
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
      isPage: true,
      idempotencyKey,
      signal,
      waitMs: (fields.waitSeconds ?? waitSecondsDefault) * 1000,
    });
    const first = await new Submitted<Result>(this.#transport, answer);
    if (first instanceof Task) this.#task = first.uri;
    else if (first.nextPage !== undefined) this.#task = taskOf(first.nextPage);
    return first instanceof Task ? this.#resultOf(first) : first;
  }

  /** The result of a task has no rows; they are on its pages, of which the first may be complete before the task ends. */
  async #resultOf(task: Task<Result>): Promise<Result> {
    const { onProgress, signal } = this.#options;
    const begun = await this.#firstPageOf(await task.begun({ onProgress, signal }));
    if (begun) return begun;
    const result = await task.done({ onProgress, signal });
    const { firstPage } = task.record;
    if (firstPage === undefined) return { ...result, task: task.uri };
    const { rows, nextPage } = await this.#page(firstPage);
    return { ...result, ...(rows ? { rows } : {}), ...(nextPage === undefined ? {} : { nextPage }) };
  }

  /** Undefined if the result is complete or has no page: then the task has it, or its error. */
  async #firstPageOf({ endedAt, firstPage, queryId }: TaskRecord): Promise<Result | undefined> {
    if (endedAt !== null || firstPage === undefined || queryId === undefined) return undefined;
    const page = await this.#page(firstPage).catch(() => undefined);
    if (!page?.rows || !page.columns || page.pageCount !== null) return undefined;
    const { columns, rows, nextPage } = page;
    const unknown = { rowCount: null, truncated: null, pageCount: null };
    return { columns, rows, ...(nextPage === undefined ? {} : { nextPage }), ...unknown, queryId };
  }

  async #pageAfter({ nextPage }: Page): Promise<Page | undefined> {
    return nextPage === undefined ? undefined : this.#page(nextPage);
  }

  async #page(path: string): Promise<Page> {
    return (await this.#get(path, { isPage: true })) as Page;
  }

  async #get(path: string, { isPage = false } = {}): Promise<Answer['result']> {
    const { signal } = this.#options;
    return (await this.#transport.send({ method: 'GET', path, isRead: true, isPage, signal })).result;
  }
}

/** The task that a page belongs to. */
const taskOf = (page: string): string => page.replace(/\/pages\/.*/, '');

const decodedRows = (page: Page, columns: readonly Column[]): Rows => [...decodedOneByOne(page, columns)];

/** A page is not in memory twice. */
function* decodedOneByOne({ rows }: Page, columns: readonly Column[]): Generator<readonly Value[]> {
  const decoders = columns.map(({ type }) => decoderOf(type));
  for (const row of rows ?? []) yield row.map((value, i) => decoders[i]?.(value) ?? null);
}
