// The changes that are interrupted at each of their steps: what is there before, the request, and what a query says afterwards.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DirectoryTarget } from '../../../src/backups/targets/directory_target.ts';
import { verifyBackups } from '../../../src/backups/verification.ts';
import type { Request } from '../injection/api.ts';

export interface StepPlace {
  /** The path of the database. */
  readonly database: string;
  readonly table: string;
  readonly loadDirectory: string;
  readonly backupDirectory: string;
  /** The warehouse to which the catalog moves; undefined: it stays. */
  readonly target: string | undefined;
}

export interface StepScenario {
  readonly name: string;
  /** Whether the table exists before, with `rowsBefore` rows. */
  readonly needsTable: boolean;
  /** The catalog is one of this step only, and moves between a warehouse of the cluster and that of a server. */
  readonly isMove?: boolean;
  /** The database is one of this step only. */
  readonly hasOwnDatabase?: boolean;
  /** A request whose task has succeeded before. */
  prepares?(place: StepPlace): Request;
  request(place: StepPlace): Request;
  /** A query and its rows; undefined if the table is gone. */
  readonly after:
    | {
        readonly select: string;
        readonly rows: readonly (readonly unknown[])[];
        readonly renamed?: boolean;
        /** The database in which the table is then. */
        readonly restored?: boolean;
      }
    | undefined;
  /** What else must hold then. */
  check?(place: StepPlace): Promise<void>;
}

export const rowsBefore = 5;
export const columns = ['id', 'n'].map((name) => ({ name, type: 'BIGINT' }));
/** The path of its catalog. */
export const catalogOf = (database: string) => database.replace(/\/databases\/[^/]+$/, '');
export const renamedTo = (table: string) => `${table} renamed`;
/** The path of a database that was restored from this one. */
export const restoredFrom = ({ database, table }: StepPlace) =>
  `${catalogOf(database)}/databases/${encodeURIComponent(restoredName(table))}`;
const restoredName = (table: string) => `restored ${table}`;
const backupOf = ({ backupDirectory, table }: StepPlace) => ({ path: join(backupDirectory, table) });

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
  {
    name: 'back up',
    needsTable: true,
    hasOwnDatabase: true,
    request: (place) => ({ method: 'POST', path: `${place.database}/backup`, body: { to: backupOf(place) } }),
    after: { select: counted, rows: [[rowsBefore, rowsBefore, 0]] },
    async check(place) {
      const { backups, faults, unnamed } = await verifyBackups(new DirectoryTarget(backupOf(place).path));
      assert.deepEqual([faults, unnamed], [[], { files: 0, bytes: 0 }]);
      const rows = backups.map(({ manifest }) => manifest.databases.flatMap(({ tables }) => tables)[0]?.rows);
      assert.ok(rows.length > 0 && rows.every((count) => count === rowsBefore), JSON.stringify(rows));
    },
  },
  {
    name: 'restore',
    needsTable: true,
    hasOwnDatabase: true,
    prepares: (place) => ({ method: 'POST', path: `${place.database}/backup`, body: { to: backupOf(place) } }),
    request: (place) => ({
      method: 'POST',
      path: `${catalogOf(place.database)}/databases/restore`,
      body: { name: restoredName(place.table), from: backupOf(place) },
    }),
    after: { select: counted, rows: [[rowsBefore, rowsBefore, 0]], restored: true },
  },
];
