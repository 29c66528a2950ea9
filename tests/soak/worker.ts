// One client of the soak: random changes of its own tables and containers, one after another, each with a known outcome or a few
// possible ones. It stops when the server stops, checks everything when the server is back, and continues.
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineFromNow } from '../deadline.ts';
import { type Answer, type Api, isAcknowledged, pathOf, type Request } from '../faults/injection/api.ts';
import { endOfTask } from '../faults/scenarios/atomicity.ts';
import { uriOfPath } from '../faults/scenarios/expectation.ts';
import type { Random } from '../random.ts';
import { absentTable, type Batch, ownColumns, TableModel, type TableState } from './table_model.ts';

export interface Counts {
  acknowledged: number;
  unanswered: number;
  failed: number;
  refusals: number;
  tasks: number;
  rows: number;
  /** Attempts after the first of requests with an idempotency key. */
  repeated: number;
}

export const noCounts = (): Counts => ({
  acknowledged: 0,
  unanswered: 0,
  failed: 0,
  refusals: 0,
  tasks: 0,
  rows: 0,
  repeated: 0,
});

export interface WorkerPlace {
  readonly catalog?: string;
  readonly warehouse?: string;
  /** A server by which to try next: changes have idempotency keys and are repeated until one of the servers answers for certain. */
  readonly anyServer?: () => Api;
  /** Files in it are loaded into tables. */
  readonly loadDirectory?: string;
  /** How long requests are repeated on a quiet machine until one is answered for certain; by default 3 minutes. */
  readonly certainMs?: number;
  /** False where the engine enforces no keys. */
  readonly hasKeys?: boolean;
  /** The numbers `s.i` from 0: a WITH clause, and what is selected from. */
  readonly numbers?: (count: number) => Numbers;
}

export interface Numbers {
  readonly clause: string;
  readonly source: string;
}

const numbersInDuckdb = (count: number): Numbers => ({ clause: '', source: `range(${count}) AS s(i)` });
/** How long a server may take for the first attempt before the next one is tried; twice as long each time. */
const attemptMs = 2_000;
const attemptMsMax = 60_000;
const certainMsMax = 180_000;
const repeatPauseMs = 50;

type TaskEnd = NonNullable<ReturnType<typeof endOfTask>>;

/** A statement that was started several times without a response may have taken effect. */
const isDecided = ({ state, code }: TaskEnd) =>
  state === 'succeeded' || (state === 'failed' && code !== 'TASK_ATTEMPTS_EXHAUSTED');

/** Another server has the data, and received nothing of the request. */
const isRefusedUnsent = ({ code, result }: Answer): boolean =>
  code === 'WAREHOUSE_ON_ANOTHER_SERVER' && result.outcome === 'notApplied';

/** A catalog or database that is only created and dropped. */
interface Container {
  readonly path: readonly string[];
  /** Undefined if it is not known. */
  exists: boolean | undefined;
}

const columnTypes = ['INT', 'DOUBLE', 'STRING', 'DATE'];
const largeRows = 110_000;

export class Worker {
  readonly counts = noCounts();
  readonly problems: string[] = [];
  readonly #random: Random;
  readonly #database: readonly string[];
  readonly #tables: TableModel[];
  readonly #containers: Container[];
  readonly #place: WorkerPlace;
  #waitsFor = '';
  #batches = 0;
  #names = 0;

  /** `place`: where its tables and its catalog are; by default in the default warehouse. */
  constructor(index: number, random: Random, tables: number, place: WorkerPlace = {}) {
    const { catalog = 'default' } = place;
    this.#random = random;
    this.#place = place;
    this.#database = [catalog, `worker ${index}`];
    this.#tables = Array.from({ length: tables }, () => new TableModel(this.#database));
    this.#containers = [
      { path: [`catalog "${index}"`], exists: false },
      { path: [catalog, `side/${index}`], exists: false },
    ];
  }

  /** The request that it repeated last, and the answer. */
  get waitsFor(): string {
    return this.#waitsFor;
  }

  async begin(api: Api): Promise<void> {
    const answer = await api.put(uriOfPath(this.#database), {});
    if (!isAcknowledged(answer)) throw new Error(`cannot begin: ${answer.status} ${answer.code}`);
  }

  /** Makes one change; false if the server is gone. */
  async step(api: Api): Promise<boolean> {
    if (this.#random.chance(0.12)) return this.#changeContainer(api, this.#random.pick(this.#containers));
    const table = this.#random.pick(this.#tables);
    if (table.taskId !== undefined) return this.#askForTask(api, table);
    if (!table.isKnown) return true;
    if (table.state.name === undefined) return this.#create(api, table);
    const batchCount = Object.keys(table.state.batches).length;
    return this.#pickChange(batchCount)(api, table);
  }

  /** After a restart, when all tasks have ended: checks that every object is in one of its possible states. */
  async checkTables(api: Api, tasks: ReadonlyMap<string, TaskEnd>): Promise<void> {
    for (const table of this.#tables) {
      const { taskId } = table;
      const task = taskId === undefined ? undefined : tasks.get(taskId);
      if (taskId !== undefined) {
        if (task === undefined) this.problems.push(`the accepted task ${taskId} is lost`);
        else if (isDecided(task)) table.decidePending(task.state === 'succeeded');
      }
      const after = taskId === undefined ? '' : `, after the task ${taskId}: ${JSON.stringify(task)}`;
      this.problems.push(...(await table.checkTable(api)).map((problem) => `${problem}${after}`));
    }
    for (const container of this.#containers) {
      const { status } = await api.get(uriOfPath(container.path));
      const exists = status === 200;
      if (container.exists !== undefined && container.exists !== exists) {
        this.problems.push(`${container.path.join('/')} is ${exists ? '' : 'not '}there`);
      }
      container.exists = exists;
    }
  }

  #pickChange(knownBatches: number): (api: Api, table: TableModel) => Promise<boolean> {
    const draw = this.#random.next();
    if (draw < 0.3) return this.#insertRows;
    if (draw < 0.4) return this.#insertBySql;
    if (draw < 0.45 && this.#place.loadDirectory !== undefined) return this.#load;
    if (draw < 0.5) return this.#insertByTask;
    if (draw < 0.6 && knownBatches > 0) return this.#updateByTask;
    if (draw < 0.66 && knownBatches > 0) return this.#deleteBatch;
    if (draw < 0.72) return this.#addColumn;
    if (draw < 0.76) return this.#dropColumn;
    if (draw < 0.82) return this.#rename;
    if (draw < 0.84) return this.#truncate;
    if (draw < 0.88) return this.#drop;
    if (draw < 0.9) return this.#widenLarge;
    return this.#count;
  }

  /** A change without an answer, or with one that leaves its outcome open, is repeated where that is known to be safe. */
  async #send(api: Api, request: Request): Promise<Answer> {
    const { anyServer, certainMs = certainMsMax } = this.#place;
    if (!anyServer) return api.send(request);
    const keyed = { ...request, key: randomUUID() };
    const isOver = deadlineFromNow(certainMs);
    let [server, ms] = [api, attemptMs];
    for (;;) {
      const answer = await server.send(keyed, ms);
      if ((answer.status !== 0 && answer.status < 500) || answer.code === 'INTERNAL_ERROR') return answer;
      this.#waitsFor = `${request.method} ${request.path}: ${answer.status} ${answer.code} ${answer.message}`;
      if (isOver()) this.problems.push(`no certain answer: ${this.#waitsFor}`);
      if (isOver()) return answer;
      this.counts.repeated++;
      [server, ms] = [anyServer(), Math.min(attemptMsMax, ms * 2)];
      await pause(repeatPauseMs);
    }
  }

  /** Sends a change and updates the possible states of the table by the response. */
  async #change(api: Api, table: TableModel, request: Request, next: TableState): Promise<boolean> {
    const answer = await this.#send(api, request);
    if (answer.status === 202) {
      this.counts.tasks++;
      table.mayBecome(next, String(answer.result.taskId));
    } else if (isAcknowledged(answer)) {
      this.counts.acknowledged++;
      table.setState(next);
    } else if (!isRefusedUnsent(answer) && (answer.status === 0 || answer.status >= 500)) {
      table.mayBecome(next);
    }
    return this.#note(request, answer);
  }

  #note(request: Request, answer: Answer): boolean {
    if (answer.status === 0) this.counts.unanswered++;
    else if (answer.status >= 500) this.counts.failed++;
    else if (!isAcknowledged(answer)) {
      this.counts.refusals++;
      const description = `${answer.status} ${answer.code}: ${answer.message} ${JSON.stringify(answer.result)}`;
      this.problems.push(
        `refused: ${request.method} ${request.path} ${JSON.stringify(request.body)?.slice(0, 300)}: ${description}`,
      );
    }
    if (answer.code === 'INTERNAL_ERROR') {
      this.problems.push(`500: ${request.method} ${request.path} ${JSON.stringify(request.body)?.slice(0, 300)}`);
    }
    return answer.status !== 0;
  }

  async #changeContainer(api: Api, container: Container): Promise<boolean> {
    if (container.exists === undefined) return true;
    const [root = '', name] = container.path;
    const isMissing = !container.exists;
    const body = name === undefined ? { name: root, warehouse: this.#place.warehouse } : { name };
    const collection = name === undefined ? pathOf('catalogs') : `${uriOfPath([root])}/databases`;
    const request: Request = isMissing
      ? { method: 'POST', path: collection, body }
      : { method: 'DELETE', path: `${uriOfPath(container.path)}?cascade=true` };
    const answer = await this.#send(api, request);
    if (isAcknowledged(answer)) this.counts.acknowledged++;
    if (isAcknowledged(answer)) container.exists = isMissing;
    else if (!isRefusedUnsent(answer) && (answer.status === 0 || answer.status >= 500)) container.exists = undefined;
    return this.#note(request, answer);
  }

  async #askForTask(api: Api, table: TableModel): Promise<boolean> {
    const request: Request = { method: 'GET', path: `${pathOf('tasks', String(table.taskId))}?waitSeconds=1` };
    const answer = await api.send(request);
    const task = endOfTask(answer.result);
    if (task && isDecided(task)) table.decidePending(task.state === 'succeeded');
    return this.#note(request, answer);
  }

  #query(table: TableModel, sql: string, more: object = {}): Request {
    return { method: 'POST', path: `${uriOfPath(table.database)}/query`, body: { sql, ...more } };
  }

  async #create(api: Api, table: TableModel): Promise<boolean> {
    // Few names, so that those of dropped tables are reused.
    const free = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => `table ${n}`).filter((name) => this.#isFree(name));
    if (free.length === 0) return true;
    const name = this.#random.pick(free);
    const columns = ownColumns.map((column) => ({ name: column.split(' ')[0], type: column.split(' ')[1] }));
    const { hasKeys = true } = this.#place;
    const keys = this.#random.chance(0.5) && hasKeys ? { primaryKey: ['id'] } : {};
    const put = this.#random.chance(0.3);
    return this.#change(
      api,
      table,
      put
        ? { method: 'PUT', path: uriOfPath([...this.#database, name]), body: { columns, ...keys } }
        : { method: 'POST', path: `${uriOfPath(this.#database)}/tables`, body: { name, columns, ...keys } },
      { name, columns: [], batches: {} },
    );
  }

  #isFree(name: string): boolean {
    return this.#tables.every((table) => table.isKnown && table.state.name !== name);
  }

  #grown({ state }: TableModel, rows: number): { batch: number; next: TableState } {
    const batch = ++this.#batches;
    this.counts.rows += rows;
    return { batch, next: { ...state, batches: { ...state.batches, [batch]: { rows, n: 0 } } } };
  }

  #insertRows = (api: Api, table: TableModel): Promise<boolean> => {
    const rows = 1 + this.#random.below(this.#random.chance(0.1) ? 3000 : 50);
    const { batch, next } = this.#grown(table, rows);
    const body = {
      rows: Array.from({ length: rows }, (_, i) => ({ id: batch * 1e6 + i, batch, n: 0, v: `v${batch * 1e6 + i}` })),
    };
    return this.#change(api, table, { method: 'POST', path: `${table.uri}/rows`, body }, next);
  };

  #insertText(table: TableModel, batch: number, rows: number): string {
    const { numbers = numbersInDuckdb } = this.#place;
    const { clause, source } = numbers(rows);
    const first = batch * 1e6;
    return `INSERT INTO ${table.sqlName} (id, batch, n, v) ${clause} SELECT ${first} + i, ${batch}, 0, 'v' || (${first} + i) FROM ${source}`;
  }

  #insertBySql = (api: Api, table: TableModel): Promise<boolean> => {
    const rows = 1 + this.#random.below(2000);
    const { batch, next } = this.#grown(table, rows);
    return this.#change(api, table, this.#query(table, this.#insertText(table, batch, rows)), next);
  };

  #insertByTask = (api: Api, table: TableModel): Promise<boolean> => {
    const rows = 1 + this.#random.below(20_000);
    const { batch, next } = this.#grown(table, rows);
    const request = this.#query(table, this.#insertText(table, batch, rows), { waitSeconds: 0 });
    return this.#change(api, table, request, next);
  };

  #load = (api: Api, table: TableModel): Promise<boolean> => {
    const rows = 1 + this.#random.below(20_000);
    const { batch, next } = this.#grown(table, rows);
    const path = join(this.#place.loadDirectory ?? '', `${this.#database.join(' ')} ${batch}.csv`);
    const line = (id: number) => `${id},${batch},0,v${id}\n`;
    writeFileSync(path, `id,batch,n,v\n${Array.from({ length: rows }, (_, i) => line(batch * 1e6 + i)).join('')}`);
    const body = { source: { path }, format: 'csv' };
    return this.#change(api, table, { method: 'POST', path: `${table.uri}/load`, body }, next);
  };

  /** Not idempotent, so that applying it twice would be visible. */
  #updateByTask = (api: Api, table: TableModel): Promise<boolean> => {
    const batch = this.#someBatch(table);
    const { rows, n } = table.state.batches[batch] as Batch;
    const next = { ...table.state, batches: { ...table.state.batches, [batch]: { rows, n: n + 1 } } };
    const waitSeconds = this.#random.chance(0.7) ? 0 : 30;
    const sql = `UPDATE ${table.sqlName} SET n = n + 1 WHERE batch = $1`;
    return this.#change(api, table, this.#query(table, sql, { parameters: [batch], waitSeconds }), next);
  };

  #deleteBatch = (api: Api, table: TableModel): Promise<boolean> => {
    const batch = this.#someBatch(table);
    const { [batch]: _gone, ...batches } = table.state.batches;
    const sql = `DELETE FROM ${table.sqlName} WHERE batch = ${batch}`;
    return this.#change(api, table, this.#query(table, sql), { ...table.state, batches });
  };

  #someBatch(table: TableModel): number {
    return Number(this.#random.pick(Object.keys(table.state.batches)));
  }

  #addColumn = (api: Api, table: TableModel): Promise<boolean> => {
    const [name, type] = [`c${++this.#names}`, this.#random.pick(columnTypes)];
    const next = { ...table.state, columns: [...table.state.columns, `${name} ${type}`] };
    return this.#change(api, table, { method: 'POST', path: `${table.uri}/columns`, body: { name, type } }, next);
  };

  #dropColumn = (api: Api, table: TableModel): Promise<boolean> => {
    const { columns } = table.state;
    if (columns.length === 0) return this.#addColumn(api, table);
    const column = this.#random.pick(columns);
    const next = { ...table.state, columns: columns.filter((candidate) => candidate !== column) };
    const path = `${table.uri}/columns/${column.split(' ')[0]}`;
    return this.#change(api, table, { method: 'DELETE', path }, next);
  };

  #rename = (api: Api, table: TableModel): Promise<boolean> => {
    const newName = `renamed ${++this.#names}`;
    const next = { ...table.state, name: newName };
    return this.#change(api, table, { method: 'POST', path: `${table.uri}/rename`, body: { newName } }, next);
  };

  #truncate = (api: Api, table: TableModel): Promise<boolean> => {
    const next = { ...table.state, batches: {} };
    return this.#change(api, table, { method: 'POST', path: `${table.uri}/truncate`, body: {} }, next);
  };

  #drop = (api: Api, table: TableModel): Promise<boolean> =>
    this.#change(api, table, { method: 'DELETE', path: table.uri }, absentTable);

  /** Adding a column with a default rewrites a table of this size: a task. */
  #widenLarge = async (api: Api, table: TableModel): Promise<boolean> => {
    const { batch, next } = this.#grown(table, largeRows);
    const insert = this.#query(table, this.#insertText(table, batch, largeRows));
    if (!(await this.#change(api, table, insert, next))) return false;
    if (!table.isKnown) return true;
    const [name, type] = [`c${++this.#names}`, 'INT'];
    const wider = { ...table.state, columns: [...table.state.columns, `${name} ${type}`] };
    const body = { name, type, defaultValue: 7 };
    return this.#change(api, table, { method: 'POST', path: `${table.uri}/columns`, body }, wider);
  };

  #count = async (api: Api, table: TableModel): Promise<boolean> => {
    const request = this.#query(table, `SELECT count(*) FROM ${table.sqlName}`);
    const answer = await api.send(request);
    const expected = Object.values(table.state.batches).reduce((sum, { rows }) => sum + rows, 0);
    if (answer.status === 200 && JSON.stringify(answer.result.rows) !== `[[${expected}]]`) {
      this.problems.push(`${table.sqlName} has ${JSON.stringify(answer.result.rows)} rows, not ${expected}`);
    }
    return this.#note(request, answer);
  };
}
