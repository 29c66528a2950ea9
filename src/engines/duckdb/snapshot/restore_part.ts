// Restores the parts of a backup into a table, each exactly once: the table's row count shows whether a part was restored already.
import { randomUUID } from 'node:crypto';
import { link, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { dataInvalid } from '../../data_files/load_failures.ts';
import type { PartToRestore } from '../../port/snapshot.ts';
import { inTransaction, retryingConflicts, rowsOf } from '../instance/applied_steps.ts';
import { dataFailure } from '../load/load_errors.ts';
import { qualifiedTable } from '../sql/identifiers.ts';
import { readPartText } from './table_parts.ts';

interface RestoreContext {
  /** The work directory of this process. */
  readonly workDirectory: string;
  readonly signal: AbortSignal;
  /** Wraps each attempt. */
  readonly runAttempt: (attempt: () => Promise<void>) => Promise<void>;
}

/** Atomic and idempotent. Throws DATA_INVALID, CONSTRAINT_VIOLATED. */
export async function restorePart(
  connection: DuckDBConnection,
  part: PartToRestore,
  { workDirectory, signal, runAttempt }: RestoreContext,
): Promise<void> {
  // The name is unguessable and never reused: the engine caches files by name.
  const file = join(workDirectory, `part-${randomUUID()}`);
  await link(part.path, file);
  try {
    const attempt = () => inTransaction(connection, () => insertPart(connection, part, file));
    await retryingConflicts(() => runAttempt(attempt), signal);
  } catch (error) {
    if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the restore was cancelled; nothing was restored');
    throw dataFailure(error);
  } finally {
    await rm(file, { force: true });
  }
}

async function insertPart(connection: DuckDBConnection, part: PartToRestore, file: string): Promise<void> {
  const { rowsBefore, rows } = part;
  const [row] = await rowsOf(connection, `SELECT count(*) FROM ${qualifiedTable(part.table)}`);
  const rowCount = Number(row?.[0]);
  if (rowCount === rowsBefore + rows) return;
  if (rowCount !== rowsBefore) throw new Error(`the table has ${rowCount} rows instead of ${rowsBefore}`);
  const { rowsChanged } = await connection.run(readPartText(part, file));
  if (rowsChanged !== rows) throw dataInvalid(`a file has ${rowsChanged} rows instead of ${rows}`);
}
