// Exports ordered rows to several files. COPY with FILE_SIZE_BYTES writes from several threads and does not preserve the order, so the rows
// are written once to a temporary table, and each file is copied from the next range of its rows.
import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import { rowsOf } from '../instance/applied_steps.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';

/** Rows of the first file. Its size gives the size of rows. */
const firstFileRows = 122_880;

export interface FileOfRows {
  readonly path: string;
  readonly rows: number;
}

/** Whether the query contains ORDER BY anywhere; true if it cannot be parsed. */
export async function isOrdered(connection: DuckDBConnection, sql: string): Promise<boolean> {
  const [row] = await rowsOf(connection, 'SELECT json_serialize_sql($1::VARCHAR, skip_null := true)', [sql]);
  return /"ORDER_MODIFIER"|"error":\s*true/.test(String(row?.[0]));
}

/**
 * `createTable`: creates a temporary table of this name with the rows in their order. `copyText`: the COPY statement that writes `rows`, the
 * FROM and WHERE clauses of a range of the table, to the file `path`.
 */
export async function orderedCopy(
  connection: DuckDBConnection,
  path: string,
  fileBytesMax: number,
  {
    createTable,
    copyText,
  }: {
    readonly createTable: (table: string) => Promise<unknown>;
    readonly copyText: (rows: string, path: string) => string;
  },
): Promise<FileOfRows[]> {
  const name = quoteIdentifier(`export_${randomUUID()}`);
  try {
    await createTable(name);
    const [[counted] = []] = await rowsOf(connection, `SELECT count(*) FROM temp.${name}`);
    const count = Number(counted);
    const files: FileOfRows[] = [];
    let from = 0;
    let rowsMax = firstFileRows;
    do {
      const rows = Math.min(rowsMax, count - from);
      const file = `${path}_${files.length}`;
      const range = `temp.${name} WHERE rowid >= ${from} AND rowid < ${from + rows}`;
      await connection.run(copyText(range, quoteLiteral(file)));
      files.push({ path: file, rows });
      from += rows;
      const { size } = await stat(file);
      rowsMax = Math.max(1, Math.floor((Math.max(1, rows) * fileBytesMax) / Math.max(1, size)));
    } while (from < count);
    return files;
  } finally {
    await connection.run(`DROP TABLE IF EXISTS temp.${name}`);
  }
}
