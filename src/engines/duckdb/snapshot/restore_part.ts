// Parts of a backup put into a table, each once: how many rows the table has says whether one is in it.
import { randomUUID } from 'node:crypto';
import { link, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { PartToRestore } from '../../snapshot.ts';
import { inTransaction, retryingConflicts, rowsOf } from '../instance/applied_steps.ts';
import { dataFailure } from '../load/load_errors.ts';
import { dataInvalid } from '../load/reader_sql.ts';
import { qualifiedTable } from '../sql/identifiers.ts';
import { readPartText } from './table_parts.ts';

interface RestoreSurroundings {
  readonly own: string;
  readonly signal: AbortSignal;
  /** Runs each attempt. */
  readonly attempting: (attempt: () => Promise<void>) => Promise<void>;
}

/** All of it or nothing; nothing, where it is in already. Throws DATA_INVALID, CONSTRAINT_VIOLATED. */
export async function restorePart(
  connection: DuckDBConnection,
  part: PartToRestore,
  { own, signal, attempting }: RestoreSurroundings,
): Promise<void> {
  // A name that nobody can guess, and that was never used: the engine remembers files by name.
  const file = join(own, `part-${randomUUID()}`);
  await link(part.path, file);
  try {
    const attempt = () => inTransaction(connection, () => restored(connection, part, file));
    await retryingConflicts(() => attempting(attempt), signal);
  } catch (error) {
    if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the restore was cancelled; nothing was restored');
    throw dataFailure(error);
  } finally {
    await rm(file, { force: true });
  }
}

async function restored(connection: DuckDBConnection, part: PartToRestore, file: string): Promise<void> {
  const { rowsBefore, rows } = part;
  const [row] = await rowsOf(connection, `SELECT count(*) FROM ${qualifiedTable(part.table)}`);
  const there = Number(row?.[0]);
  if (there === rowsBefore + rows) return;
  if (there !== rowsBefore) throw new Error(`the table has ${there} rows, and should have ${rowsBefore}`);
  const { rowsChanged } = await connection.run(readPartText(part, file));
  if (rowsChanged !== rows) throw dataInvalid(`a file has ${rowsChanged} rows, and should have ${rows}`);
}
