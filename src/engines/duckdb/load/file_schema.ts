// The columns of a data file: for CSV see csv_schema.ts, for other formats the engine infers them. Refuses files of another format, and
// files with columns that cannot be addressed by name.
import type { DuckDBConnection } from '@duckdb/node-api';
import { foldName } from '../../../model/names.ts';
import type { Failure } from '../../../standard/failure.ts';
import { requireNames, requireReadable, type SchemaOptions } from '../../data_files/file_schema.ts';
import { dataInvalid, noObjectReason } from '../../data_files/load_failures.ts';
import type { DataFile } from '../../port/load.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { csvSchema } from './csv_schema.ts';
import {
  errorTolerance,
  type FileColumn,
  type FileSchema,
  jsonOptions,
  jsonRecordsText,
  reader,
  sampleRows,
  sampleSize,
} from './reader_sql.ts';

export async function readFileSchema(
  connection: DuckDBConnection,
  file: DataFile,
  options: SchemaOptions,
): Promise<FileSchema> {
  await requireReadable(file);
  if (file.schema) return { ...file, ...file.schema };
  const schema =
    file.format === 'csv' ? await csvSchema(connection, file, options) : await described(connection, file, options);
  requireNames(schema.columns);
  return schema;
}

/** The values of a JSON object's fields are inspected only if their types are needed. */
const depth = ({ isTyped }: SchemaOptions) => (isTyped ? [] : ['maximum_depth = 1']);

async function described(connection: DuckDBConnection, file: DataFile, options: SchemaOptions): Promise<FileSchema> {
  const from =
    file.format === 'parquet'
      ? reader('read_parquet', file, [])
      : reader('read_json', file, [
          ...jsonOptions(file),
          ...errorTolerance(file),
          `records = 'true'`,
          sampleSize(options),
          ...depth(options),
        ]);
  try {
    const columns = await describe(connection, from);
    if (file.format !== 'parquet') await requireKeys(connection, file, columns);
    return { ...file, columns };
  } catch (error) {
    if (!(error instanceof Error) || !/expected records/.test(error.message)) throw error;
    throw noObject(await firstOther(connection, file));
  }
}

/** DuckDB's name for an empty key, or for one that differs from another only in case. */
const isMadeUp = (name: string, all: ReadonlySet<string>): boolean =>
  /^C\d+$/.test(name) || all.has(foldName(/^(.+)_\d+$/s.exec(name)?.[1] ?? ''));

/** Throws DATA_INVALID if a generated column name would hide the values of a key. */
async function requireKeys(
  connection: DuckDBConnection,
  file: DataFile,
  columns: readonly FileColumn[],
): Promise<void> {
  const all = new Set(columns.map(({ name }) => foldName(name)));
  const doubtful = columns.filter(({ name }) => isMadeUp(name, all));
  if (doubtful.length === 0) return;
  const first = `SELECT json FROM ${jsonRecordsText(file)} LIMIT ${sampleRows}`;
  const rows = await rowsOf(
    connection,
    `SELECT DISTINCT unnest(json_keys(json)) FROM (${first}) WHERE json IS NOT NULL`,
  );
  const keys = new Set(rows.map(([key]) => key));
  if (doubtful.some(({ name }) => !keys.has(name)))
    throw dataInvalid('the file has keys that are empty or that differ only in case');
}

function noObject(row: number | undefined): Failure {
  if (row === undefined) return dataInvalid('the file contains no JSON objects');
  return dataInvalid(`row ${row}: ${noObjectReason}`, { row, column: null, reason: noObjectReason });
}

/** The number, from 1, of the first value of a JSON file that is not an object. */
async function firstOther(connection: DuckDBConnection, file: DataFile): Promise<number | undefined> {
  const numbered = `SELECT row_number() OVER () AS row, json FROM ${jsonRecordsText(file)}`;
  const [first] = await rowsOf(
    connection,
    `SELECT min(row) FROM (${numbered}) WHERE json IS NULL OR json_type(json) <> 'OBJECT'`,
  );
  return typeof first?.[0] === 'bigint' ? Number(first[0]) : undefined;
}

async function describe(connection: DuckDBConnection, from: string): Promise<FileColumn[]> {
  const rows = await rowsOf(connection, `DESCRIBE SELECT * FROM ${from}`);
  return rows.map(([name, type]) => ({ name: String(name), type: String(type) }));
}
