// The changes that are interrupted at each of their steps: what is there before, the request, and what a query says afterwards.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Request } from '../injection/api.ts';

export interface StepPlace {
  /** The path of the database. */
  readonly database: string;
  readonly table: string;
  readonly loadDirectory: string;
  /** The warehouse to which the catalog moves; undefined: it stays. */
  readonly target: string | undefined;
}

export interface StepScenario {
  readonly name: string;
  /** Whether the table exists before, with `rowsBefore` rows. */
  readonly needsTable: boolean;
  /** The catalog is one of this step only, and moves between a warehouse of the cluster and that of a server. */
  readonly isMove?: boolean;
  request(place: StepPlace): Request;
  /** A query and its rows; undefined if the table is gone. */
  readonly after:
    | { readonly select: string; readonly rows: readonly (readonly unknown[])[]; readonly renamed?: boolean }
    | undefined;
}

export const rowsBefore = 5;
export const columns = ['id', 'n'].map((name) => ({ name, type: 'BIGINT' }));
/** The path of its catalog. */
export const catalogOf = (database: string) => database.replace(/\/databases\/[^/]+$/, '');
export const renamedTo = (table: string) => `${table} renamed`;

const counted = 'count(*), count(DISTINCT id), sum(n)';
const on = ({ database, table }: StepPlace, rest = '') => `${database}/tables/${table}${rest}`;
const rowsFrom = (first: number, count: number) => Array.from({ length: count }, (_, i) => ({ id: first + i, n: 0 }));

export const stepScenarios: readonly StepScenario[] = [
  {
    name: 'create',
    needsTable: false,
    request: ({ database, table }) => ({ method: 'POST', path: `${database}/tables`, body: { name: table, columns } }),
    after: { select: 'count(*)', rows: [[0]] },
  },
  {
    name: 'add a column',
    needsTable: true,
    request: (place) => ({
      method: 'POST',
      path: on(place, '/columns'),
      body: { name: 'more', type: 'INT', defaultValue: 7 },
    }),
    after: { select: 'count(*), sum(more)', rows: [[rowsBefore, 7 * rowsBefore]] },
  },
  {
    name: 'rename',
    needsTable: true,
    request: (place) => ({ method: 'POST', path: on(place, '/rename'), body: { newName: renamedTo(place.table) } }),
    after: { select: counted, rows: [[rowsBefore, rowsBefore, 0]], renamed: true },
  },
  {
    name: 'truncate',
    needsTable: true,
    request: (place) => ({ method: 'POST', path: on(place, '/truncate'), body: {} }),
    after: { select: 'count(*)', rows: [[0]] },
  },
  {
    name: 'drop',
    needsTable: true,
    request: (place) => ({ method: 'DELETE', path: on(place) }),
    after: undefined,
  },
  {
    name: 'insert rows',
    needsTable: true,
    request: (place) => ({ method: 'POST', path: on(place, '/rows'), body: { rows: rowsFrom(rowsBefore, 20) } }),
    after: { select: counted, rows: [[rowsBefore + 20, rowsBefore + 20, 0]] },
  },
  {
    name: 'insert by SQL',
    needsTable: true,
    request: ({ database, table }) => ({
      method: 'POST',
      path: `${database}/query`,
      body: { sql: `INSERT INTO "${table}" (id, n) SELECT ${rowsBefore} + number, 1 FROM numbers(300)` },
    }),
    after: { select: counted, rows: [[rowsBefore + 300, rowsBefore + 300, 300]] },
  },
  {
    name: 'update',
    needsTable: true,
    request: ({ database, table }) => ({
      method: 'POST',
      path: `${database}/query`,
      body: { sql: `UPDATE "${table}" SET n = n + 1 WHERE id < 3` },
    }),
    after: { select: counted, rows: [[rowsBefore, rowsBefore, 3]] },
  },
  {
    name: 'load',
    needsTable: true,
    request: (place) => {
      const path = join(place.loadDirectory, `${place.table}.csv`);
      const lines = rowsFrom(rowsBefore, 500).map(({ id, n }) => `${id},${n}\n`);
      writeFileSync(path, `id,n\n${lines.join('')}`);
      return { method: 'POST', path: on(place, '/load'), body: { source: { path }, format: 'csv' } };
    },
    after: { select: counted, rows: [[rowsBefore + 500, rowsBefore + 500, 0]] },
  },
  {
    name: 'move',
    needsTable: true,
    isMove: true,
    request: ({ database, target }) => ({
      method: 'POST',
      path: `${catalogOf(database)}/move`,
      body: { warehouse: target, retainSeconds: 0 },
    }),
    after: { select: counted, rows: [[rowsBefore, rowsBefore, 0]] },
  },
];
