// The positions of rows by which a table is read page by page: DuckDB's row ids, and what they are valid for.
import { createHash, randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { TableDefinition } from '../../model/records.ts';
import { formatType } from '../../model/types.ts';
import type { RowsPage, StatementParameters, TableRef } from '../engine.ts';
import { catalogFile } from './catalog_files.ts';
import { qualifiedTable, quoteIdentifier, sameName } from './identifiers.ts';
import { rememberStep } from './steps.ts';

const rowId = 'rowid';

/** Rows come in the order of their ids without a sort: DuckDB preserves it, and skips row groups below `after`. */
export function rowsPage(
  table: TableRef,
  { columns, after, limit }: RowsPage,
): { readonly sql: string; readonly parameters: StatementParameters } {
  // A column may be called rowid, and would hide the id: then the columns get other names here.
  const hidesId = columns.some((name) => sameName(name, rowId));
  const source = hidesId ? `r(${columns.map((_, i) => `c${i}`).join(', ')})` : 'r';
  const values = hidesId ? columns.map((name, i) => `c${i} AS ${quoteIdentifier(name)}`).join(', ') : 'r.*';
  const where = after === undefined ? '' : ` WHERE r.${rowId} > $2`;
  return {
    sql: `SELECT r.${rowId}, ${values} FROM ${qualifiedTable(table)} AS ${source}${where} LIMIT $1`,
    parameters: after === undefined ? [limit] : [limit, Number(after)],
  };
}

/**
 * Row ids are stable under inserts and deletes. Two things renumber them. Writing a table again for another definition: so the
 * definition is part of the answer. And a checkpoint, which drops deleted rows of tables without an index: for those the count of
 * checkpoints of the file is part of it, too. DuckDB never does that to a table with an index (`vacuum_rebuild_indexes` is 0).
 */
export async function rowNumbering(
  connection: DuckDBConnection,
  dataDirectory: string,
  table: TableRef,
  definition: TableDefinition,
): Promise<string> {
  const columns = definition.columns.map(({ name, type }) => [name, formatType(type)]);
  const text = JSON.stringify([columns, definition.primaryKey, definition.uniqueKey]);
  const shape = createHash('sha256').update(text).digest('base64url').slice(0, 16);
  if (definition.primaryKey.length > 0 || definition.uniqueKey.length > 0) return shape;
  return `${shape}.${await withoutCheckpoint(connection, table, () => checkpointsOf(catalogFile(dataDirectory, table.catalog)))}`;
}

/**
 * A checkpoint renumbers rows before it writes the header of the file. A transaction that writes waits for one that is under way,
 * and none begins before it ends.
 */
async function withoutCheckpoint<T>(
  connection: DuckDBConnection,
  { catalog }: TableRef,
  work: () => Promise<T>,
): Promise<T> {
  await connection.run('BEGIN TRANSACTION');
  try {
    await rememberStep(connection, catalog.name, `${rowId}-${randomUUID()}`);
    return await work();
  } finally {
    await connection.run('ROLLBACK');
  }
}

/** The two headers of a DuckDB file follow its first 4 KiB; each has a checksum, then the count of the checkpoint that wrote it. */
const headersFrom = 4096;
const headerBytes = 4096;
const countFrom = 8;

/** A number that every checkpoint changes. */
async function checkpointsOf(path: string): Promise<bigint> {
  const file = await open(path, 'r');
  try {
    const { buffer } = await file.read(Buffer.alloc(headerBytes + countFrom + 8), 0, undefined, headersFrom);
    // The headers are written in turn.
    return buffer.readBigUInt64LE(countFrom) + buffer.readBigUInt64LE(headerBytes + countFrom);
  } finally {
    await file.close();
  }
}
