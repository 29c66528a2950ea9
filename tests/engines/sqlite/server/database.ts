// The file of the engine: one SQLite database with the rows of all catalogs, their names and the steps that were applied. Names are rows
// of its own tables, and a table of a user is called t_<number> in the file, so that renames and drops rewrite nothing.
import { DatabaseSync, type SQLOutputValue, type StatementSync } from 'node:sqlite';
import type { CatalogRef, TableName, TableRef } from '../../../../src/engines/port/refs.ts';
import type { InsertStep, StepsPage } from '../../../../src/engines/port/rows.ts';
import { foldName } from '../../../../src/model/names.ts';
import type { TableDefinition } from '../../../../src/model/records.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { isCanonical } from './values.ts';

/** A table of a user in the file. */
export interface StoredTable {
  readonly id: number;
  readonly name: TableName;
  readonly definition: TableDefinition;
  /** Changes with each change of the definition. */
  readonly version: number;
}

export const fileName = (id: number): string => `t_${id}`;

/** How long the engine remembers a step that nobody needs: longer than a call of a server can be late. */
const lateCallMsMax = 3_600_000;

const schema = `
  CREATE TABLE IF NOT EXISTS catalogs (id TEXT PRIMARY KEY, name TEXT NOT NULL, folded TEXT NOT NULL, hidden INTEGER NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS databases (catalog TEXT NOT NULL, name TEXT NOT NULL, folded TEXT NOT NULL, PRIMARY KEY (catalog, folded)) STRICT;
  CREATE TABLE IF NOT EXISTS tables (
    id INTEGER PRIMARY KEY AUTOINCREMENT, catalog TEXT NOT NULL, database TEXT NOT NULL, name TEXT NOT NULL, folded TEXT NOT NULL,
    hidden_id TEXT, definition TEXT NOT NULL, version INTEGER NOT NULL) STRICT;
  CREATE UNIQUE INDEX IF NOT EXISTS table_names ON tables (catalog, database, folded) WHERE hidden_id IS NULL;
  CREATE TABLE IF NOT EXISTS steps (
    catalog TEXT NOT NULL, step TEXT NOT NULL, row_count INTEGER, is_undone INTEGER NOT NULL, forgotten_at INTEGER,
    PRIMARY KEY (catalog, step)) STRICT;
`;

/** A connection to the file. Reads run in parallel on connections of their own; only one writes. */
export class Connection {
  readonly db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(file: string, options: { readonly readOnly: boolean }) {
    this.db = new DatabaseSync(file, { readOnly: options.readOnly, timeout: 5000 });
    if (!options.readOnly) {
      this.db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA legacy_alter_table = ON');
      this.db.exec(schema);
    }
    this.db.function('is_canonical', { deterministic: true, useBigIntArguments: true }, (type, value) =>
      value === null || isCanonical(String(type), value) ? 1 : 0,
    );
  }

  /** A statement of the engine itself. */
  statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  run(sql: string, ...values: (string | number | bigint | null)[]): number {
    return Number(this.statement(sql).run(...values).changes);
  }

  row(sql: string, ...values: (string | number | null)[]): Readonly<Record<string, SQLOutputValue>> | undefined {
    return this.statement(sql).get(...values);
  }

  rows(sql: string, ...values: (string | number | null)[]): readonly Readonly<Record<string, SQLOutputValue>>[] {
    return this.statement(sql).all(...values);
  }

  close(): void {
    this.db.close();
  }
}

const tableColumns = `tables.id, tables.database, tables.name, tables.definition, tables.version, catalogs.name AS catalog`;
const visibleTables = `FROM tables JOIN catalogs ON catalogs.id = tables.catalog
  JOIN databases ON databases.catalog = tables.catalog AND databases.folded = tables.database
  WHERE tables.hidden_id IS NULL AND catalogs.hidden = 0`;

function storedTable(row: Readonly<Record<string, SQLOutputValue>> | undefined): StoredTable | undefined {
  return (
    row && {
      id: Number(row.id),
      name: { catalog: String(row.catalog), database: String(row.database), table: String(row.name) },
      definition: JSON.parse(String(row.definition)) as TableDefinition,
      version: Number(row.version),
    }
  );
}

const select = `SELECT ${tableColumns.replace('tables.database', 'databases.name AS database')} ${visibleTables}`;

export function findTable(on: Connection, { catalog, database, table }: TableRef): StoredTable | undefined {
  const names = [foldName(database), foldName(table)];
  return storedTable(
    on.row(`${select} AND tables.catalog = ? AND tables.database = ? AND tables.folded = ?`, catalog.id, ...names),
  );
}

/** Throws CHANGE_IN_PROGRESS: the caller found the table in the store. */
export function requireTable(on: Connection, ref: TableRef): StoredTable {
  const found = findTable(on, ref);
  if (!found) throw new Failure('CHANGE_IN_PROGRESS', 'the table is being changed; retry later');
  return found;
}

export function tablesOf(on: Connection, catalog: CatalogRef): readonly StoredTable[] {
  return on.rows(`${select} AND tables.catalog = ?`, catalog.id).flatMap((row) => storedTable(row) ?? []);
}

export interface Namespace {
  readonly catalog: CatalogRef;
  readonly database?: string | undefined;
}

/** The table of a name in a statement: `c.d.t`, `d.t` or `t`. */
export function tableNamed(
  on: Connection,
  { catalog, database }: Namespace,
  parts: readonly string[],
): StoredTable | undefined {
  const [table, databaseName = database, catalogName] = parts.toReversed();
  if (table === undefined || databaseName === undefined || parts.length > 3) return undefined;
  const named = catalogName === undefined ? { id: catalog.id } : catalogNamed(on, catalogName);
  return named && findTable(on, { catalog: { name: '', ...named }, database: databaseName, table });
}

function catalogNamed(on: Connection, name: string): { readonly id: string } | undefined {
  const row = on.row('SELECT id FROM catalogs WHERE folded = ? AND hidden = 0', foldName(name));
  return row && { id: String(row.id) };
}

/** The outcome of an earlier call with the same step; undefined if there was none. `rowCount`: null if none was recorded. */
export function appliedStep(
  on: Connection,
  catalog: CatalogRef,
  step: string,
): { readonly rowCount: number | null } | undefined {
  const row = on.row('SELECT row_count, is_undone FROM steps WHERE catalog = ? AND step = ?', catalog.id, step);
  if (row?.is_undone === 1) throw new Failure('CHANGE_IN_PROGRESS', 'the change was undone before it arrived');
  return row && { rowCount: row.row_count === null ? null : Number(row.row_count) };
}

/** In the transaction of the step's work. */
export function recordStep(on: Connection, catalog: CatalogRef, step: string, rowCount: number | null = null): void {
  on.run('INSERT INTO steps VALUES (?, ?, ?, 0, NULL)', catalog.id, step, rowCount);
}

/** The steps that were applied and not undone, ordered by step. */
export function recordedSteps(on: Connection, { catalog, after = '', limit }: StepsPage): readonly InsertStep[] {
  const steps =
    'SELECT step, row_count FROM steps WHERE catalog = ? AND step > ? AND is_undone = 0 AND row_count IS NOT NULL ORDER BY step LIMIT ?';
  return on
    .rows(steps, catalog.id, after, limit)
    .map((row) => ({ step: String(row.step), rowCount: Number(row.row_count ?? 0) }));
}

export function copySteps(on: Connection, catalog: CatalogRef, steps: readonly InsertStep[]): number {
  const insert = 'INSERT INTO steps VALUES (?, ?, ?, 0, NULL) ON CONFLICT DO NOTHING';
  return steps.reduce((count, { step, rowCount }) => count + on.run(insert, catalog.id, step, rowCount), 0);
}

/** In the transaction of the undo: a step that arrives afterwards does nothing. */
export function recordUndone(on: Connection, catalog: CatalogRef, step: string): void {
  const undone = 'ON CONFLICT DO UPDATE SET is_undone = 1, forgotten_at = excluded.forgotten_at';
  on.run(`INSERT INTO steps VALUES (?, ?, NULL, 1, ?) ${undone}`, catalog.id, step, Date.now());
}

/** A forgotten step is deleted once no call with it can arrive any more. */
export function forgetSteps(on: Connection, catalog: CatalogRef, steps: readonly string[]): void {
  for (const step of steps)
    on.run('UPDATE steps SET forgotten_at = ? WHERE catalog = ? AND step = ?', Date.now(), catalog.id, step);
  on.run('DELETE FROM steps WHERE forgotten_at < ?', Date.now() - lateCallMsMax);
}

/** Runs writing work one at a time, each in a transaction, which ends with the work. */
export class Writer {
  readonly connection: Connection;
  #last: Promise<unknown> = Promise.resolve();

  constructor(file: string) {
    this.connection = new Connection(file, { readOnly: false });
  }

  /** `begin`: called once it is the turn of the work; throws if the work was cancelled meanwhile. */
  async transaction<T>(begin: () => void, work: (on: Connection) => T | Promise<T>): Promise<T> {
    const previous = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await previous;
    const { db } = this.connection;
    try {
      begin();
      db.exec('BEGIN IMMEDIATE');
      const result = await work(this.connection);
      db.exec('COMMIT');
      return result;
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw error;
    } finally {
      resolve();
    }
  }
}

/** Thrown to undo a transaction whose result is returned nevertheless. */
export class RolledBack<T> extends Error {
  readonly result: T;
  constructor(result: T) {
    super('rolled back');
    this.result = result;
  }
}
