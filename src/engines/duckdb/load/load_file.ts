// Loads a file into a table: by one statement, in one transaction that also records the step. Invalid rows are searched for only after
// that failed, or if rows may be rejected.
import { randomUUID } from 'node:crypto';
import { link, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure, invalidParameter } from '../../../standard/failure.ts';
import type { DataFile, FileLoad, FileLoadResult, FileShape } from '../../load.ts';
import { optimizePlan } from '../analysis/optimized.ts';
import { commit, noteRows, rememberStep, retryingConflicts, rowsOfStep } from '../instance/applied_steps.ts';
import type { Stage } from '../instance/progress.ts';
import { isConstraintError } from '../query/constraint_violations.ts';
import { qualifiedTable } from '../sql/identifiers.ts';
import { createTableText, createUniqueKeyTexts, nameList } from '../sql/table_ddl.ts';
import { mapColumns, namesByPlace, type Reading, readingOf, requireExpressions } from './column_mapping.ts';
import { readFileSchema } from './file_schema.ts';
import { fileFailure } from './load_errors.ts';
import { dataInvalid, type FileSchema, fromText } from './reader_sql.ts';
import { type RejectedRow, stageRows } from './rejected_rows.ts';

/** Of the rows that do not fit, a failure shows this many. */
const shownMax = 10;
/** Where rows may be left out, the file is read into a table of its own first; it takes about this part of the time. */
const stagingPart = 0.7;

export interface LoadEnvironment {
  /** The work directory of this process, the only one in which the engine opens files that it did not write. */
  readonly own: string;
  readonly unreviewed: ReadonlySet<string>;
  readonly signal: AbortSignal;
  readonly stage?: Stage | undefined;
}

/** Throws DATA_INVALID, CONSTRAINT_VIOLATED, INVALID_PARAMETER, STATEMENT_CANCELLED; then the table is as it was. */
export function loadFile(
  connection: DuckDBConnection,
  work: FileLoad,
  { own, unreviewed, signal, stage }: LoadEnvironment,
): Promise<FileLoadResult> {
  // Work before reading the rows does not count as progress.
  stage?.(0, 0);
  return withLinkedFile(work.file, own, async (file) => {
    const catalog = work.table.catalog.name;
    const rowsLoadedByStep = work.dryRun ? undefined : await rowsOfStep(connection, catalog, work.step);
    const isRepeated = rowsLoadedByStep !== undefined;
    if (isRepeated && work.errorsMax === 0) return { rowsLoaded: rowsLoadedByStep, rowsRejected: 0, repeated: true };
    const { known, loaded } = await fileOf(connection, work, file, unreviewed);
    requireKey(work);
    const reading = readingOf(known, loaded);
    if (work.errorsMax > 0) {
      stage?.(0, stagingPart);
      const rows = await stageRows(connection, known, reading, work.errorsMax + 1);
      try {
        await keepRejected(rows.rejected, work, own);
        const rowsRejected = rows.rejected.length;
        if (isRepeated) return { rowsLoaded: rowsLoadedByStep, rowsRejected, repeated: true };
        stage?.(stagingPart, 1);
        const done = await insert(connection, work, reading, { values: rows.values, from: rows.table }, signal);
        return { ...done, rowsRejected };
      } catch (error) {
        requireAlive(signal);
        throw error;
      } finally {
        await rows.drop().catch(() => undefined);
      }
    }
    const values = reading.values.map(({ text }) => text);
    try {
      const rows = { values, from: fromText(known, reading.types) };
      stage?.(0, 1);
      return await insert(connection, work, reading, rows, signal);
    } catch (error) {
      requireAlive(signal);
      throw await explained(connection, error, known, reading);
    }
  });
}

/** Runs in an analysis process, which the input may crash. Throws DATA_INVALID, INVALID_PARAMETER, SQL_FORBIDDEN_FUNCTION. */
export function shapeOfLoad(
  connection: DuckDBConnection,
  work: FileLoad,
  { own, unreviewed }: Pick<LoadEnvironment, 'own' | 'unreviewed'>,
): Promise<FileShape> {
  return withLinkedFile(work.file, own, async (file) => {
    const { known, loaded } = await fileOf(connection, work, file, unreviewed);
    await optimizePlan(connection, selectText(known, readingOf(known, loaded)));
    const { csv, columns } = known;
    return { csv, columns };
  });
}

/** The SELECT by which the load reads the file. */
export const selectText = (file: FileSchema, { types, values }: Reading): string =>
  `SELECT ${values.map(({ text }) => text).join(', ')} FROM ${fromText(file, types)}`;

/** The file with its shape, and what the table's columns get of it. */
async function fileOf(
  connection: DuckDBConnection,
  { definition, columns }: FileLoad,
  file: DataFile,
  unreviewed: ReadonlySet<string>,
) {
  const headings = definition.columns.map(({ name }) => name);
  const names = columns ? namesByPlace(columns) : headings;
  const isTyped = columns?.some(({ expression }) => expression !== undefined) ?? false;
  const known = await readFileSchema(connection, file, { headings, names, isTyped });
  const loaded = mapColumns(known, definition, columns);
  await requireExpressions(connection, known, loaded, unreviewed);
  return { known, loaded };
}

/**
 * Links a file of the spool under an unguessable name into the directory where the engine opens files. Other files are in a directory
 * that is configured for loading; the engine treats a name as a glob pattern only if no file has the name.
 */
export async function withLinkedFile<T>(file: DataFile, own: string, work: (file: DataFile) => Promise<T>): Promise<T> {
  const linked = join(own, `data-${randomUUID()}`);
  const isSpooled = file.path.startsWith(dirname(dirname(own)) + sep);
  if (isSpooled) await link(file.path, linked);
  const path = isSpooled ? linked : file.path;
  try {
    return await work({ ...file, path });
  } catch (error) {
    throw await fileFailure(error, { ...file, path });
  } finally {
    await rm(linked, { force: true });
  }
}

function requireKey({ mode, definition }: FileLoad): void {
  if (mode !== 'upsert' || definition.primaryKey.length > 0) return;
  const message = 'the table has no primary key by which rows could be replaced';
  throw invalidParameter('/mode', 'key', message, message);
}

function requireAlive(signal: AbortSignal): void {
  if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the load was cancelled; nothing was loaded');
}

interface Rows {
  readonly values: readonly string[];
  readonly from: string;
}

/** Records the step, deletes the old rows if they are replaced, and inserts the new ones, in one transaction. */
function insert(
  connection: DuckDBConnection,
  work: FileLoad,
  reading: Reading,
  rows: Rows,
  signal: AbortSignal,
): Promise<FileLoadResult> {
  const catalog = work.table.catalog.name;
  const transaction = async (): Promise<FileLoadResult> => {
    requireAlive(signal);
    await connection.run('BEGIN TRANSACTION');
    try {
      if (!work.dryRun && !(await rememberStep(connection, catalog, work.step))) {
        await connection.run('ROLLBACK');
        const rowsLoaded = (await rowsOfStep(connection, catalog, work.step)) ?? 0;
        return { rowsLoaded, rowsRejected: 0, repeated: true };
      }
      if (work.isNewTable) await make(connection, work);
      if (work.mode === 'replace') await connection.run(`TRUNCATE ${qualifiedTable(work.table)}`);
      const { rowsChanged } = await connection.run(insertText(work, reading, rows));
      requireAlive(signal);
      if (!work.dryRun) await noteRows(connection, catalog, work.step, rowsChanged);
      if (work.dryRun) await connection.run('ROLLBACK');
      else await commit(connection);
      return { rowsLoaded: rowsChanged, rowsRejected: 0, repeated: false };
    } catch (error) {
      await connection.run('ROLLBACK').catch(() => undefined);
      throw error;
    }
  };
  return retryingConflicts(transaction, signal);
}

/** In the transaction that will be undone. */
async function make(connection: DuckDBConnection, { table, definition }: FileLoad): Promise<void> {
  const texts = [
    createTableText(table, definition, { ifNotExists: false }),
    ...createUniqueKeyTexts(table, definition),
  ];
  try {
    for (const text of texts) await connection.run(text);
  } catch (error) {
    if (!(error instanceof Error) || !/already exists/.test(error.message)) throw error;
    throw new Failure(
      'CHANGE_IN_PROGRESS',
      `a table ${JSON.stringify(table.table)} is being made`,
      {},
      { cause: error },
    );
  }
}

function insertText({ table, definition, mode }: FileLoad, reading: Reading, { values, from }: Rows): string {
  const names = reading.values.map(({ loaded }) => loaded.column.name);
  const text = `INSERT INTO ${qualifiedTable(table)} (${nameList(names)}) SELECT ${values.join(', ')} FROM ${from}`;
  if (mode !== 'upsert') return text;
  const changed = names.filter((name) => !definition.primaryKey.includes(name)).map((name) => nameList([name]));
  const action =
    changed.length === 0 ? 'NOTHING' : `UPDATE SET ${changed.map((name) => `${name} = excluded.${name}`).join(', ')}`;
  return `${text} ON CONFLICT (${nameList(definition.primaryKey)}) DO ${action}`;
}

/** Runs before the rows are inserted, so that a load that rejected rows always has the file that lists them. */
async function keepRejected(rejected: readonly RejectedRow[], work: FileLoad, own: string): Promise<void> {
  if (rejected.length > work.errorsMax) throw rejectedFailure(rejected, work.errorsMax);
  if (rejected.length === 0) return;
  const file = join(own, `rejects-${randomUUID()}`);
  await writeFile(file, rejected.map((row) => `${JSON.stringify(row)}\n`).join(''), { flush: true });
  await rename(file, work.rejectsPath);
}

function rejectedFailure(rejected: readonly RejectedRow[], errorsMax: number): Failure {
  const [first] = rejected as [RejectedRow];
  const many = errorsMax > 0 ? `more than ${errorsMax} rows do not fit; the first: ` : '';
  const where = first.column === null ? '' : `, column ${JSON.stringify(first.column)}`;
  return dataInvalid(`${many}row ${first.row}${where}: ${first.reason}`, {
    row: first.row,
    column: first.column,
    reason: first.reason,
    text: first.text,
    rows: rejected.slice(0, shownMax),
  });
}

/** The reason why a load failed: the first invalid row if one is found, else the engine's error. */
async function explained(
  connection: DuckDBConnection,
  error: unknown,
  known: FileSchema,
  reading: Reading,
): Promise<unknown> {
  const isAboutData = error instanceof Error && /^(?:Invalid Input|Conversion|Out of Range) Error/.test(error.message);
  const isNull = isConstraintError(error) && /NOT NULL|CHECK/.test((error as Error).message);
  if (!isAboutData && !isNull) return error;
  try {
    const { rejected, drop } = await stageRows(connection, known, reading, shownMax);
    await drop();
    return rejected.length > 0 ? rejectedFailure(rejected, 0) : error;
  } catch (again) {
    // What breaks the reading itself says where.
    return again instanceof Error && /^(?:Invalid Input|Conversion) Error/.test(again.message) ? again : error;
  }
}
