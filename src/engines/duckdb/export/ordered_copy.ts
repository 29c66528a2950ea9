// Rows in an order, written to several files by COPY: split by size, it writes them from several threads and keeps no order. The rows
// are put down once, in a table of their own, and each file is made of the next ones.
import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import { rowsOf } from '../instance/applied_steps.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';

/** Of the first file. How large rows are is known from then on. */
const rowsFirst = 122_880;

export interface FileOfRows {
  readonly path: string;
  readonly rows: number;
}

/** Whether the text of a query has ORDER BY anywhere; true where nobody knows. */
export async function isOrdered(connection: DuckDBConnection, sql: string): Promise<boolean> {
  const [row] = await rowsOf(connection, 'SELECT json_serialize_sql($1::VARCHAR, skip_null := true)', [sql]);
  return /"ORDER_MODIFIER"|"error":\s*true/.test(String(row?.[0]));
}

/**
 * `put`: puts the rows down in the table of this name, in their order. `copy`: the text of a COPY of rows of that table, FROM and
 * WHERE given, to a file.
 */
export async function orderedCopy(
  connection: DuckDBConnection,
  path: string,
  fileBytesMax: number,
  {
    put,
    copy,
  }: {
    readonly put: (table: string) => Promise<unknown>;
    readonly copy: (rows: string, to: string) => string;
  },
): Promise<FileOfRows[]> {
  const name = quoteIdentifier(`export_${randomUUID()}`);
  try {
    await put(name);
    const [[counted] = []] = await rowsOf(connection, `SELECT count(*) FROM temp.${name}`);
    const count = Number(counted);
    const files: FileOfRows[] = [];
    let from = 0;
    let rowsMax = rowsFirst;
    do {
      const rows = Math.min(rowsMax, count - from);
      const to = `${path}_${files.length}`;
      const place = `temp.${name} WHERE rowid >= ${from} AND rowid < ${from + rows}`;
      await connection.run(copy(place, quoteLiteral(to)));
      files.push({ path: to, rows });
      from += rows;
      const { size } = await stat(to);
      rowsMax = Math.max(1, Math.floor((Math.max(1, rows) * fileBytesMax) / Math.max(1, size)));
    } while (from < count);
    return files;
  } finally {
    await connection.run(`DROP TABLE IF EXISTS temp.${name}`);
  }
}
