// Constant reads, inserts and changes of one warehouse through one server, whose answers are known: a table that does not change, one that only
// grows, and one that is made and dropped. Each answer is right or a 503; what was acknowledged is there once.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineFromNow } from '../../deadline.ts';
import { isAcknowledged, type Request } from '../injection/api.ts';
import { requireAcknowledged } from '../scenarios/scenario_parts.ts';
import { type CheckedApi, clearedMs } from './checked_api.ts';

/** Longer than a server waits for anything before it refuses. */
const answerMs = 20_000;
const fixedRows = 2_000;
const fixedSum = (fixedRows * (fixedRows - 1)) / 2;
const pauseMs = 25;
/** Between changes of definitions, for which all nodes are needed. */
const changePauseMs = 500;
const rowsEach = 3;

export const noProbes = () => ({ reads: 0, writes: 0, changes: 0, refused: 0, unanswered: 0 });

/** The tables of a warehouse, and what its probers have written. */
export class ProbedTables {
  readonly catalog: string;
  /** Batches of `rowsEach` rows, through all servers. */
  sent = 0;
  acknowledged = 0;

  constructor(catalog: string) {
    this.catalog = catalog;
  }

  /** When all writes have ended: each batch is there once. @returns what is wrong. */
  async check(api: CheckedApi): Promise<string[]> {
    const sql = 'SELECT count(*), count(DISTINCT id) FROM grown';
    const { status, code, result } = await api.post(`${this.database}/query`, { sql });
    const rows = this.acknowledged * rowsEach;
    if (status === 200 && JSON.stringify(result.rows) === JSON.stringify([[rows, rows]])) return [];
    return [`${this.catalog}: ${status} ${code} ${JSON.stringify(result.rows)} instead of ${rows} rows`];
  }

  get database(): string {
    return `/api/v2/catalogs/${this.catalog}/databases/probed`;
  }

  async create(api: CheckedApi): Promise<void> {
    await requireAcknowledged(api.put(this.database, {}));
    const columns = [{ name: 'id', type: 'BIGINT' }];
    for (const name of ['fixed', 'grown'])
      await requireAcknowledged(api.post(`${this.database}/tables`, { name, columns }));
    const sql = `INSERT INTO fixed SELECT number FROM numbers(${fixedRows})`;
    await requireAcknowledged(api.post(`${this.database}/query`, { sql }));
  }
}

export class Prober {
  readonly problems: string[] = [];
  /** Answers that were right, and those that were not given. */
  readonly counts = noProbes();
  readonly name: string;
  readonly #api: CheckedApi;
  readonly #tables: ProbedTables;
  /** Its name is that of no other table, also not of one of an earlier prober. */
  readonly #made = `made ${randomUUID()}`;
  #isMade = false;
  #change: Request | undefined;
  #changeAt = 0;
  #halted = false;
  #isOver = () => false;
  #insert: Request | undefined;
  /** The times of the last right answers, in milliseconds of `performance.now`. */
  #readAt = 0;
  #writtenAt = 0;
  #changedAt = 0;
  #last = '';

  constructor(name: string, api: CheckedApi, tables: ProbedTables) {
    this.name = name;
    this.#api = api;
    this.#tables = tables;
  }

  /** Until it is halted; resolves when its last request has been answered for certain. */
  async run(): Promise<void> {
    while (!this.#halted || this.#insert !== undefined || this.#change !== undefined || this.#isMade) {
      if (this.#isOver()) {
        this.problems.push(`${this.name} gets no certain answer: ${this.#last}`);
        return;
      }
      if (!this.#halted) {
        await this.#readFixed();
        await this.#readGrown();
      }
      if (!this.#halted || this.#insert !== undefined) await this.#write();
      if (this.#halted || performance.now() > this.#changeAt) await this.#changeTable();
      await pause(pauseMs);
    }
  }

  halt(): void {
    this.#halted = true;
    this.#isOver = deadlineFromNow(clearedMs);
  }

  /** Whether it has read, inserted and changed something since then: what it asked for before that time does not count. */
  hasWorkedSince(ms: number): boolean {
    return this.#readAt > ms && this.#writtenAt > ms && this.#changedAt > ms;
  }

  /** The same without changes of tables, which need all nodes. */
  hasReadAndWrittenSince(ms: number): boolean {
    return this.#readAt > ms && this.#writtenAt > ms;
  }

  get last(): string {
    return this.#last;
  }

  async #readFixed(): Promise<void> {
    const began = performance.now();
    const rows = await this.#query('SELECT count(*), sum(id), count(DISTINCT id) FROM fixed');
    if (rows === undefined) return;
    this.#require(rows, ([count, sum, ids]) => count === fixedRows && sum === fixedSum && ids === fixedRows);
    this.#readAt = began;
  }

  async #readGrown(): Promise<void> {
    const least = this.#tables.acknowledged * rowsEach;
    const rows = await this.#query('SELECT count(*), count(DISTINCT id) FROM grown');
    if (rows === undefined) return;
    const most = this.#tables.sent * rowsEach;
    this.#require(rows, ([count = -1, ids]) => count >= least && count <= most && count === ids, `${least} to ${most}`);
  }

  #require(rows: number[][], isRight: (row: number[]) => boolean, expected = ''): void {
    this.counts.reads++;
    if (rows.length !== 1 || !isRight(rows[0] as number[]))
      this.problems.push(`${this.name} reads ${JSON.stringify(rows)} instead of ${expected || 'the fixed rows'}`);
  }

  async #query(sql: string): Promise<number[][] | undefined> {
    const request = { method: 'POST', path: `${this.#tables.database}/query`, body: { sql } } as const;
    const { status, code, message, result } = await this.#api.send(request, answerMs);
    if (status === 200) return result.rows as number[][];
    this.#note(status, `${sql}: ${status} ${code} ${message}`);
    return undefined;
  }

  /** The same batch with the same key until it is acknowledged. */
  async #write(): Promise<void> {
    const began = performance.now();
    if (this.#insert === undefined) {
      const first = this.#tables.sent++ * rowsEach;
      const rows = Array.from({ length: rowsEach }, (_, n) => ({ id: first + n }));
      const path = `${this.#tables.database}/tables/grown/rows`;
      this.#insert = { method: 'POST', path, body: { rows }, key: randomUUID() };
    }
    const answer = await this.#api.send(this.#insert, answerMs);
    if (!isAcknowledged(answer))
      return this.#note(answer.status, `insert: ${answer.status} ${answer.code} ${answer.message}`);
    this.#insert = undefined;
    this.#tables.acknowledged++;
    this.counts.writes++;
    this.#writtenAt = began;
  }

  /** Makes its table or drops it: the same request with the same key until it is acknowledged. */
  async #changeTable(): Promise<void> {
    const began = performance.now();
    const path = `${this.#tables.database}/tables`;
    const body = { name: this.#made, columns: [{ name: 'id', type: 'BIGINT' }] };
    this.#change ??= this.#isMade
      ? { method: 'DELETE', path: `${path}/${encodeURIComponent(this.#made)}?purge=true`, key: randomUUID() }
      : { method: 'POST', path, body, key: randomUUID() };
    const answer = await this.#api.send(this.#change, answerMs);
    if (!isAcknowledged(answer))
      return this.#note(
        answer.status,
        `${this.#change.method} of a table: ${answer.status} ${answer.code} ${answer.message}`,
      );
    this.#change = undefined;
    this.#isMade = !this.#isMade;
    this.counts.changes++;
    this.#changedAt = began;
    this.#changeAt = performance.now() + changePauseMs;
  }

  #note(status: number, what: string): void {
    this.#last = what;
    if (status === 0) this.counts.unanswered++;
    else if (status === 503) this.counts.refused++;
    else this.problems.push(`${this.name}: ${what}`);
  }
}
