// Executes the plan of a load: one INSERT, in one transaction that also records the step. Invalid rows are searched for only after that
// failed, or if rows may be rejected.
import { randomUUID } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { type RejectedRow, rejectedFailure, shownMax } from '../../data_files/load_failures.ts';
import type { FileLoad, FileLoadResult } from '../../port/load.ts';
import { commit, noteRows, rememberStep, retryingConflicts, rowsOfStep } from '../instance/applied_steps.ts';
import type { Stage } from '../instance/progress.ts';
import { isConstraintError } from '../query/constraint_violations.ts';
import type { ColumnMapping } from './column_mapping.ts';
import { type LoadPlan, selectText } from './load_plan.ts';
import { type FileSchema, fromText } from './reader_sql.ts';
import { stageRows } from './rejected_rows.ts';

/** If rows may be rejected, the file is first read into a temporary table, which takes about this part of the time. */
const stagingPart = 0.7;

export interface LoadEnvironment {
  /** The work directory of this process. */
  readonly own: string;
  readonly signal: AbortSignal;
  readonly stage?: Stage | undefined;
}

/** Throws DATA_INVALID, CONSTRAINT_VIOLATED, STATEMENT_CANCELLED; then the table is as it was. */
export async function executeLoad(
  connection: DuckDBConnection,
  work: FileLoad,
  plan: LoadPlan,
  { own, signal, stage }: LoadEnvironment,
): Promise<FileLoadResult> {
  const { mapping } = plan;
  const file: FileSchema = { ...plan.file, path: work.file.path };
  const insert = (values: readonly string[], from: string) =>
    insertRows(connection, work, plan.statements, selectText(values, from), signal);
  if (work.errorsMax > 0) {
    stage?.(0, stagingPart);
    const rows = await stageRows(connection, file, mapping, work.errorsMax + 1);
    try {
      await keepRejected(rows.rejected, work, own);
      stage?.(stagingPart, 1);
      return { ...(await insert(rows.values, rows.table)), rowsRejected: rows.rejected.length };
    } catch (error) {
      requireAlive(signal);
      throw error;
    } finally {
      await rows.drop().catch(() => undefined);
    }
  }
  try {
    stage?.(0, 1);
    const values = mapping.columns.map(({ value }) => value);
    return await insert(values, fromText(file, mapping.types));
  } catch (error) {
    requireAlive(signal);
    throw await explained(connection, error, file, mapping);
  }
}

function requireAlive(signal: AbortSignal): void {
  if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the load was cancelled; nothing was loaded');
}

/** Records the step, removes the rows that are replaced, and inserts the new ones, in one transaction. */
function insertRows(
  connection: DuckDBConnection,
  work: FileLoad,
  { create, truncate, insert, onConflict }: LoadPlan['statements'],
  select: string,
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
      await createTable(connection, create, work.table.table);
      if (truncate !== undefined) await connection.run(truncate);
      const { rowsChanged } = await connection.run(`${insert} ${select} ${onConflict}`);
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

/** In the transaction of a dry run, which is rolled back. */
async function createTable(connection: DuckDBConnection, statements: readonly string[], name: string): Promise<void> {
  try {
    for (const sql of statements) await connection.run(sql);
  } catch (error) {
    if (!(error instanceof Error) || !/already exists/.test(error.message)) throw error;
    const message = `a table ${JSON.stringify(name)} is being created`;
    throw new Failure('CHANGE_IN_PROGRESS', message, {}, { cause: error });
  }
}

/** Runs before the rows are inserted, so that a load that rejected rows always has the file that lists them. */
async function keepRejected(rejected: readonly RejectedRow[], work: FileLoad, own: string): Promise<void> {
  if (rejected.length > work.errorsMax) throw rejectedFailure(rejected, work.errorsMax);
  if (rejected.length === 0) return;
  const file = join(own, `rejects-${randomUUID()}`);
  await writeFile(file, rejected.map((row) => `${JSON.stringify(row)}\n`).join(''), { flush: true });
  await rename(file, work.rejectsPath);
}

/** The reason why a load failed: the first invalid row if one is found, else the engine's error. */
async function explained(
  connection: DuckDBConnection,
  error: unknown,
  file: FileSchema,
  mapping: ColumnMapping,
): Promise<unknown> {
  const isAboutData = error instanceof Error && /^(?:Invalid Input|Conversion|Out of Range) Error/.test(error.message);
  const isNull = isConstraintError(error) && /NOT NULL|CHECK/.test((error as Error).message);
  if (!isAboutData && !isNull) return error;
  try {
    const { rejected, drop } = await stageRows(connection, file, mapping, shownMax);
    await drop();
    return rejected.length > 0 ? rejectedFailure(rejected, 0) : error;
  } catch (again) {
    // An error of reading the file itself contains the position.
    return again instanceof Error && /^(?:Invalid Input|Conversion) Error/.test(again.message) ? again : error;
  }
}
