// Transactions on one connection, and the record of applied steps (see `Change` in engine.ts): a table in each catalog's file, so
// that a step and its work commit together.
import type { DuckDBConnection, DuckDBValue } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import type { InsertStep, StepsPage } from '../../port/rows.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';

/** The internal schema in every catalog. No database may have this name. */
export const ownSchema = '__tabularium';
/** Prefix of temporary internal tables in users' databases. No table may have a name with it. */
export const ownPrefix = `${ownSchema}_`;

const stepsTable = (catalogName: string): string =>
  `${quoteIdentifier(catalogName)}.${quoteIdentifier(ownSchema)}.steps`;

/** Called when a catalog is attached; writes nothing if the table exists. */
export async function ensureSteps(connection: DuckDBConnection, catalogName: string): Promise<void> {
  await connection.run(
    `CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(catalogName)}.${quoteIdentifier(ownSchema)};` +
      `CREATE TABLE IF NOT EXISTS ${stepsTable(catalogName)} (step VARCHAR PRIMARY KEY, done_at TIMESTAMP NOT NULL, rows_changed BIGINT);` +
      `ALTER TABLE ${stepsTable(catalogName)} ADD COLUMN IF NOT EXISTS rows_changed BIGINT`,
  );
}

/**
 * Records a step; call it inside the transaction of the work. `rowCount`: the number of rows that the work changes, if known
 * already.
 * @returns false if the step was recorded before.
 */
export async function rememberStep(
  connection: DuckDBConnection,
  catalogName: string,
  step: string,
  rowCount?: number,
): Promise<boolean> {
  const result = await connection.run(
    `INSERT INTO ${stepsTable(catalogName)} (step, done_at, rows_changed) VALUES ($1, $2::TIMESTAMP, $3::BIGINT) ON CONFLICT DO NOTHING`,
    [step, now(), rowCount === undefined ? null : BigInt(rowCount)],
  );
  return result.rowsChanged > 0;
}

/** Records several steps at once. Returns how many were not recorded before. */
export async function rememberSteps(
  connection: DuckDBConnection,
  catalogName: string,
  steps: readonly InsertStep[],
): Promise<number> {
  const list = `system.main.from_json($1, '[{"step":"VARCHAR","rowCount":"BIGINT"}]')`;
  const { rowsChanged } = await connection.run(
    `INSERT INTO ${stepsTable(catalogName)} (step, done_at, rows_changed) ` +
      `SELECT s.step, $2::TIMESTAMP, s.rowCount FROM (SELECT unnest(${list}) AS s) ON CONFLICT DO NOTHING`,
    [JSON.stringify(steps.map(({ step, rowCount }) => ({ step, rowCount }))), now()],
  );
  return rowsChanged;
}

const now = (): string => new Date().toISOString().slice(0, -1);

/** Records how many rows the work of a step changed, for repeated requests. Call it in the same transaction. */
export async function noteRows(
  connection: DuckDBConnection,
  catalogName: string,
  step: string,
  rowCount: number,
): Promise<void> {
  await connection.run(`UPDATE ${stepsTable(catalogName)} SET rows_changed = $2::BIGINT WHERE step = $1`, [
    step,
    BigInt(rowCount),
  ]);
}

/** The recorded row count of a step, 0 if none was recorded; undefined if the step was not applied. */
export async function rowsOfStep(
  connection: DuckDBConnection,
  catalogName: string,
  step: string,
): Promise<number | undefined> {
  const [row] = await rowsOf(connection, `SELECT rows_changed FROM ${stepsTable(catalogName)} WHERE step = $1`, [step]);
  return row && Number(row[0] ?? 0);
}

/** Ordered by step. */
export async function recordedSteps(
  connection: DuckDBConnection,
  { catalog, after = '', limit }: StepsPage,
): Promise<InsertStep[]> {
  const rows = await rowsOf(
    connection,
    `SELECT step, rows_changed FROM ${stepsTable(catalog.name)} WHERE step > $1 ORDER BY step LIMIT ${limit}`,
    [after],
  );
  return rows.map(([step, rowCount]) => ({ step: String(step), rowCount: Number(rowCount ?? 0) }));
}

export async function forgetSteps(
  connection: DuckDBConnection,
  catalog: CatalogRef,
  steps: readonly string[],
): Promise<undefined> {
  if (steps.length === 0) return undefined;
  const list = `system.main.from_json($1, '["VARCHAR"]')`;
  await retryingConflicts(() =>
    connection.run(`DELETE FROM ${stepsTable(catalog.name)} WHERE step IN (SELECT unnest(${list}))`, [
      JSON.stringify(steps),
    ]),
  );
  return undefined;
}

/**
 * Runs work between BEGIN and COMMIT. `work` must not swallow failures: if a statement of the transaction failed, DuckDB's COMMIT
 * rolls back without an error.
 */
export async function inTransaction<T>(connection: DuckDBConnection, work: () => Promise<T>): Promise<T> {
  await connection.run('BEGIN TRANSACTION');
  try {
    const result = await work();
    await commit(connection);
    return result;
  } catch (error) {
    // A failed COMMIT has ended the transaction already.
    await connection.run('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/**
 * Commits the transaction. DuckDB may report a COMMIT as interrupted although it was applied: whether a transaction can still be
 * rolled back shows which. Throws the error of the COMMIT if nothing was committed.
 */
export async function commit(connection: DuckDBConnection): Promise<void> {
  try {
    await connection.run('COMMIT');
  } catch (error) {
    if (!isInterrupt(error)) throw error;
    try {
      await connection.run('ROLLBACK');
    } catch (fault) {
      if (fault instanceof Error && /no transaction is active/.test(fault.message)) return;
      const message = 'the statement was interrupted while it was committed';
      throw new Failure('WAREHOUSE_FAILED', message, {}, { cause: fault, outcome: 'unknown' });
    }
    throw error;
  }
}

const isInterrupt = (error: unknown): boolean => error instanceof Error && error.message.startsWith('INTERRUPT');

const conflictRetriesMax = 12;
const conflictWaitMsMax = 400;

/** DuckDB fails instead of waiting for a concurrent writer; the failed work changed nothing and can be retried. */
export async function retryingConflicts<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isConflict(error) || attempt > conflictRetriesMax || signal?.aborted) throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.min(conflictWaitMsMax, 2 ** attempt)));
    }
  }
}

export function isConflict(error: unknown): boolean {
  return (
    error instanceof Error &&
    /^TransactionContext Error: .*(?:conflict|altered|another transaction|concurrent transaction|has been)/is.test(
      error.message,
    )
  );
}

/** Rows of a small result, as DuckDB's JavaScript values. */
export async function rowsOf(
  connection: DuckDBConnection,
  sql: string,
  values?: DuckDBValue[],
): Promise<readonly (readonly DuckDBValue[])[]> {
  return (await connection.runAndReadAll(sql, values)).getRows();
}
