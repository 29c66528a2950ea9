// The schema and dialect of a CSV file: the first line shows the delimiter and the names, a sample shows the types.
import type { DuckDBConnection } from '@duckdb/node-api';
import { firstRecord, isHeader } from '../../data_files/csv_lines.ts';
import type { SchemaOptions } from '../../data_files/file_schema.ts';
import type { CsvOptions, DataFile } from '../../port/load.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { statementLimits } from '../sql/statement_limits.ts';
import { csvOptions, type FileSchema, reader, sampleRows, sampleSize, zoned } from './reader_sql.ts';

/** Delimiter and header are found in the first line, the types in a sample. */
export async function csvSchema(
  connection: DuckDBConnection,
  file: DataFile,
  options: SchemaOptions,
): Promise<FileSchema> {
  const lines = (linesMax: number) => firstLines(connection, file, linesMax);
  const { delimiter, fields } = await firstRecord(lines, file.csv, statementLimits.selectColumns);
  const csv = { ...file.csv, delimiter };
  const header = csv.header ?? (await hasHeader(connection, { ...file, csv }, fields, options.headings));
  const named = { ...csv, header };
  const generatedName = (i: number) => `column${i + 1}`;
  const names = fields.map((field, i) => {
    if (!header) return options.names[i] ?? generatedName(i);
    return field.trim() === '' ? generatedName(i) : field;
  });
  const untyped = names.map((name) => ({ name, type: 'VARCHAR' }));
  if (!options.isTyped) return { ...file, csv: named, columns: untyped };
  const sample = [sampleSize(options), 'ignore_errors = true', `names = ${list(names)}`];
  try {
    const { types, ...formats } = await sniffed(
      connection,
      reader('sniff_csv', file, [...csvOptions(named), ...sample]),
    );
    if (types.length !== names.length) return { ...file, csv: named, columns: untyped };
    const columns = names.map((name, i) => ({ name, type: types[i] as string }));
    const dateFormat = named.dateFormat ?? formats.dateFormat;
    const timestampFormat = named.timestampFormat ?? formats.timestampFormat;
    return { ...file, csv: { ...named, dateFormat, timestampFormat }, columns };
  } catch {
    // Reading the file reports the error.
    return { ...file, csv: named, columns: untyped };
  }
}

const isoDate = '%Y-%m-%d';

interface Sniffed extends Pick<CsvOptions, 'dateFormat' | 'timestampFormat'> {
  readonly types: readonly string[];
}

/** The types, and the formats of dates and times if they are not the default ones. */
async function sniffed(connection: DuckDBConnection, from: string): Promise<Sniffed> {
  const [row] = await rowsOf(connection, `SELECT to_json(Columns)::VARCHAR, DateFormat, TimestampFormat FROM ${from}`);
  const [columns, date, timestamp] = (row ?? []).map(String);
  const types = (JSON.parse(columns ?? '[]') as { type: string }[]).map(({ type }) => type);
  const isFound = (type: string, format: string | undefined) => types.includes(type) && format !== 'null';
  return {
    types,
    ...(isFound('DATE', date) && date !== isoDate ? { dateFormat: date } : {}),
    ...(isFound('TIMESTAMP', timestamp) && !types.includes(zoned) ? { timestampFormat: timestamp } : {}),
  };
}

const list = (names: readonly string[]) => `[${names.map(quoteLiteral).join(', ')}]`;

async function firstLines(connection: DuckDBConnection, file: DataFile, linesMax: number): Promise<readonly string[]> {
  const { encoding, skipRows, comment } = file.csv;
  const options = [
    'auto_detect = false',
    `delim = e'\\x01'`,
    `quote = ''`,
    `escape = ''`,
    'header = false',
    'strict_mode = false',
    `columns = {'line': 'VARCHAR'}`,
    `skip = ${skipRows ?? 0}`,
    ...(encoding === undefined ? [] : [`encoding = ${quoteLiteral(encoding)}`]),
    ...(comment === undefined ? [] : [`comment = ${quoteLiteral(comment)}`]),
  ];
  const read = (more: readonly string[]) =>
    rowsOf(connection, `SELECT line FROM ${reader('read_csv', file, [...options, ...more])} LIMIT ${linesMax}`);
  const rows = await read([]).catch((error: unknown) => {
    // DuckDB reads beyond the first line. Errors further down are reported with their row once the columns are known.
    const wrongLine = Number(/CSV Error on Line: (\d+)/.exec(String(error))?.[1] ?? 0);
    if (wrongLine <= (skipRows ?? 0) + 1) throw error;
    return read(['ignore_errors = true']);
  });
  return rows.flatMap(([line]) => (line === undefined || line === null ? [] : [String(line)]));
}

/** A first line with the name of a column of the table is a header; otherwise the types of the lines below decide. */
async function hasHeader(
  connection: DuckDBConnection,
  file: DataFile,
  fields: readonly string[],
  headings: readonly string[],
): Promise<boolean> {
  const isSure = isHeader(fields, headings);
  if (isSure !== undefined) return isSure;
  const options = csvOptions(file.csv).filter((option) => !option.startsWith('header'));
  try {
    const from = reader('sniff_csv', file, [...options, `sample_size = ${sampleRows}`, 'ignore_errors = true']);
    const [row] = await rowsOf(connection, `SELECT HasHeader FROM ${from}`);
    return row?.[0] === true;
  } catch {
    return headings.length === 0;
  }
}
