// How many rows at the beginning of a CSV file fit its columns and their types. The preview leaves out the others.
import { randomUUID } from 'node:crypto';
import { open, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { RowSample } from '../../port/load.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { type FileColumn, type FileSchema, fromText } from './reader_sql.ts';

const sampleBytes = 1_048_576;
const newline = 10;

/** `own`: the directory for a copy of the beginning. Undefined if the beginning cannot be separated from the rest. */
export async function countSample(
  connection: DuckDBConnection,
  file: FileSchema,
  types: readonly FileColumn[],
  own: string,
): Promise<RowSample | undefined> {
  if ((await stat(file.path)).size <= sampleBytes) return countRows(connection, file, types);
  const beginning = await wholeLines(file);
  if (beginning === undefined) return undefined;
  const path = join(own, `sample-${randomUUID()}`);
  try {
    await writeFile(path, beginning);
    // The last row may have a line break in quotes, where the sample then ends.
    return await countRows(connection, { ...file, path }, types, `error_type <> 'UNQUOTED VALUE'`);
  } finally {
    await rm(path, { force: true });
  }
}

async function wholeLines({ path, csv }: FileSchema): Promise<Buffer | undefined> {
  if (csv.encoding === 'utf-16') return undefined;
  const file = await open(path);
  try {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(sampleBytes), 0, sampleBytes, 0);
    const end = buffer.subarray(0, bytesRead).lastIndexOf(newline);
    return end < 0 ? undefined : buffer.subarray(0, end + 1);
  } finally {
    await file.close();
  }
}

/** DuckDB reports the lines that it rejects when it has read the whole file, so a LIMIT would hide them. */
async function countRows(
  connection: DuckDBConnection,
  file: FileSchema,
  types: readonly FileColumn[],
  counted = 'true',
): Promise<RowSample> {
  const id = randomUUID().replaceAll('-', '');
  const [rejects, scans] = [`rejects_${id}`, `scans_${id}`];
  const options = [
    'store_rejects = true',
    'rejects_limit = 0',
    `rejects_table = ${quoteLiteral(rejects)}`,
    `rejects_scan = ${quoteLiteral(scans)}`,
  ];
  // Values of columns that are not read are not checked.
  const columns = types.map(({ name }) => `count(${quoteIdentifier(name)})`);
  try {
    const [accepted] = await rowsOf(
      connection,
      `SELECT count(*), ${columns.join(', ')} FROM ${fromText(file, types, options)}`,
    );
    const [rejected] = await rowsOf(
      connection,
      `SELECT count(DISTINCT line) FROM temp.${quoteIdentifier(rejects)} WHERE ${counted}`,
    );
    const rowsRejected = Number(rejected?.[0]);
    return { rows: Number(accepted?.[0]) + rowsRejected, rowsRejected };
  } finally {
    for (const table of [rejects, scans]) await connection.run(`DROP TABLE IF EXISTS temp.${quoteIdentifier(table)}`);
  }
}
