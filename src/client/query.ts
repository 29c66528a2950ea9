// A SQL query: sent when its result is first asked for, read page by page.

import type { QueryBody, QueryResult } from '../api/queries/sql_actions.ts';
import type { Immutable } from '../standard/type.ts';
import { waitSecondsDefault } from './operations.ts';
import { Submitted, Task, type WaitOptions } from './task.ts';
import type { Transport } from './transport.ts';
import { decoderOf, type Value } from './values.ts';

export interface QueryOptions extends Omit<Immutable<QueryBody>, 'sql' | 'numbers'>, WaitOptions {
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

/** For rows by column name. */
export type Row = Readonly<Record<string, Value>>;

export class Query<R = Row> implements AsyncIterable<R> {
  readonly #transport: Transport;
  readonly #sql: string;
  readonly #options: QueryOptions;
  #answer: Promise<Result> | undefined;

  constructor(transport: Transport, sql: string, options: QueryOptions) {
    this.#transport = transport;
    this.#sql = sql;
    this.#options = options;
  }

  /** Of the whole result: number of rows (of DML, of the rows changed), columns, times. */
  async summary(): Promise<Omit<Result, 'rows' | 'nextPage'>> {
    const { rows: _rows, nextPage: _nextPage, ...summary } = await this.#begun();
    return summary;
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
    this.#answer ??= this.#run();
    return this.#answer;
  }

  async #run(): Promise<Result> {
    const { catalog = 'default', database, idempotencyKey, onProgress: _onProgress, signal, ...fields } = this.#options;
    const segments = database === undefined ? [catalog] : [catalog, 'databases', database];
    const answer = this.#transport.send({
      method: 'POST',
      path: `/api/v2/catalogs/${segments.map(encodeURIComponent).join('/')}/query`,
      body: { ...fields, sql: this.#sql, numbers: 'string' },
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
    if (firstPage === undefined) return result;
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
