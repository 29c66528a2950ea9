// The possible states of a table after a request without a response: each of them complete. Reads the actual table and determines
// which of these states it is in, or reports that it is in none.

import type { Api } from '../faults/injection/api.ts';
import { quoted } from '../faults/scenarios/agreement.ts';
import { uriOfPath } from '../faults/scenarios/expectation.ts';

/** Rows that were inserted together: `n` counts how often they have been changed. */
export interface Batch {
  readonly rows: number;
  readonly n: number;
}

export interface TableState {
  /** Undefined if the table does not exist. */
  readonly name: string | undefined;
  /** `c1 INT`, in addition to the columns that every table of the workload has. */
  readonly columns: readonly string[];
  readonly batches: Readonly<Record<number, Batch>>;
}

export const ownColumns = ['id BIGINT', 'batch BIGINT', 'n BIGINT', 'v STRING'];

export const absentTable: TableState = { name: undefined, columns: [], batches: {} };

export class TableModel {
  readonly database: readonly string[];
  /** One state if it is known; several if a request ended without a response, or a task has not ended. */
  #states: readonly TableState[];
  /** The task that decides between the states, if there is one. */
  taskId: string | undefined;

  constructor(database: readonly string[]) {
    this.database = database;
    this.#states = [absentTable];
  }

  get isKnown(): boolean {
    return this.#states.length === 1;
  }

  /** Only if the state is known. */
  get state(): TableState {
    return this.#states[0] as TableState;
  }

  get uri(): string {
    return uriOfPath([...this.database, this.state.name ?? '']);
  }

  get sqlName(): string {
    return quoted([...this.database, this.state.name ?? '']);
  }

  setState(state: TableState): void {
    this.#states = [state];
    this.taskId = undefined;
  }

  mayBecome(state: TableState, taskId?: string): void {
    this.#states = [this.state, state];
    this.taskId = taskId;
  }

  /** The task has ended: its state decides. */
  decidePending(succeeded: boolean): void {
    const [previous, became] = this.#states;
    this.setState((succeeded ? became : previous) as TableState);
  }

  /** Reads the table and keeps the matching state; returns any other differences. */
  async checkTable(api: Api): Promise<string[]> {
    const names = [...new Set(this.#states.flatMap(({ name }) => name ?? []))];
    const states: TableState[] = [];
    for (const name of names) {
      const state = await read(api, [...this.database, name]);
      if (typeof state === 'string') return [state];
      if (state) states.push(state);
    }
    if (states.length > 1) return [`a renamed table has both names: ${names.join(', ')}`];
    const current = states[0] ?? absentTable;
    const matching = this.#states.find((state) => JSON.stringify(sorted(state)) === JSON.stringify(sorted(current)));
    if (!matching)
      return [`${this.database.join('/')}: is ${text(current)} and should be ${this.#states.map(text).join(' or ')}`];
    this.setState(matching);
    return [];
  }
}

const sorted = ({ name, columns, batches }: TableState) => [name ?? null, columns, Object.entries(batches)];
const text = (state: TableState) => JSON.stringify(state, (_, value) => value ?? null);

async function read(api: Api, path: readonly string[]): Promise<TableState | string | undefined> {
  const record = await api.get(uriOfPath(path));
  if (record.status === 404) return undefined;
  if (record.status !== 200) return `GET of ${path.join('/')}: ${record.status} ${record.code} ${record.message}`;
  const columns = (record.result.columns as { name: string; type: string }[]).map(
    ({ name, type }) => `${name} ${type}`,
  );
  const sql = `SELECT batch, count(*), count(DISTINCT id), min(n), max(n), count(*) FILTER (WHERE v = 'v' || id) FROM ${quoted(path)} GROUP BY batch ORDER BY batch`;
  const answer = await api.post(`${uriOfPath(path.slice(0, 2))}/query`, { sql });
  if (answer.status !== 200) return `SELECT from ${path.join('/')}: ${answer.status} ${answer.code} ${answer.message}`;
  const batches: Record<number, Batch> = {};
  for (const [batch, rows, ids, least, most, matching] of answer.result.rows as number[][]) {
    if (rows !== ids || least !== most || rows !== matching) {
      return `batch ${batch} of ${path.join('/')} is not whole: ${JSON.stringify({ rows, ids, least, most, right: matching })}`;
    }
    batches[batch as number] = { rows: rows as number, n: least as number };
  }
  return {
    name: path.at(-1),
    columns: columns.filter((column) => !ownColumns.includes(column)),
    batches,
  };
}
