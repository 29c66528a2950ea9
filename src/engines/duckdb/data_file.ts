// A file of data as DuckDB reads it: which columns it has, and the text that stands for it in FROM. Nothing is left for DuckDB to
// guess while it loads, because what it guesses of a broken file is another shape, not an error.
import { open } from 'node:fs/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import { foldName } from '../../model/names.ts';
import { Failure } from '../../standard/failure.ts';
import type { CsvOptions, DataFile } from '../load.ts';
import { csvFields, delimiterOf, hasLines, lineBytesMax } from './csv_line.ts';
import { otherKind } from './file_kind.ts';
import { quoteIdentifier, quoteLiteral } from './identifiers.ts';
import { rowsOf } from './steps.ts';

/** Rows that are looked at to find the types. */
const sampleRows = 20_480;
/** The largest JSON value that is one row. DuckDB takes room for several times as much, for each thread. */
export const jsonRowBytesMax = 16 * 1024 * 1024;

export interface FileColumn {
  readonly name: string;
  /** DuckDB's text of it. */
  readonly type: string;
}

/** A file whose shape is known. */
export interface KnownFile extends DataFile {
  readonly columns: readonly FileColumn[];
}

export const dataInvalid = (message: string, result: Readonly<Record<string, unknown>> = {}): Failure =>
  new Failure('DATA_INVALID', `${message}; nothing was loaded`, result);

export interface KnowingOptions {
  /** Names by which a header is known. */
  readonly headings: readonly string[];
  /** What the columns of a file without a header are called, as far as they go. */
  readonly names: readonly string[];
  /** The types of the columns are wanted too: without it, all of them may be text. */
  readonly isTyped: boolean;
  /** All rows are looked at to find the types. */
  readonly isWhole?: boolean;
}

export async function knownFile(
  connection: DuckDBConnection,
  file: DataFile,
  options: KnowingOptions,
): Promise<KnownFile> {
  const other = await otherKind(file.path, file.format);
  if (other !== undefined) throw dataInvalid(`the file ${other}`);
  if (file.format === 'csv') await requireLines(file.path);
  if (file.format === 'json' || file.format === 'ndjson') await requireNoMark(file.path);
  if (file.shape) return { ...file, ...file.shape };
  const shaped =
    file.format === 'csv' ? await csvShape(connection, file, options) : await described(connection, file, options);
  const seen = new Set<string>();
  for (const { name } of shaped.columns) {
    if (name === '') throw dataInvalid('a column of the file has no name');
    if (seen.has(foldName(name))) throw dataInvalid(`the file has two columns called ${JSON.stringify(name)}`);
    seen.add(foldName(name));
  }
  return shaped;
}

async function requireLines(path: string): Promise<void> {
  if (!(await hasLines(path))) throw dataInvalid(`the file has a line of more than ${lineBytesMax} bytes`);
}

/** The file in FROM, with its columns read as these types. `more`: options of the reader. */
export function fromText(file: KnownFile, types: readonly FileColumn[], more: readonly string[] = []): string {
  switch (file.format) {
    case 'csv':
      return csvText(file, types, more);
    case 'parquet':
      return reader('read_parquet', file, more);
    default:
      return reader('read_json', file, [...jsonOptions(file), columnsOption(types), ...more]);
  }
}

const columnsOption = (types: readonly FileColumn[]): string =>
  `columns = {${types.map(({ name, type }) => `${quoteLiteral(name)}: ${quoteLiteral(type)}`).join(', ')}}`;

const zoned = 'TIMESTAMP WITH TIME ZONE';

/** The reader makes null of a text that is no time with a zone: it is cast after it. */
function csvText(file: KnownFile, types: readonly FileColumn[], more: readonly string[]): string {
  const { csv } = file;
  const read = types.map(({ name, type }) => ({ name, type: type === zoned ? 'VARCHAR' : type }));
  const options = [...csvOptions(csv), 'auto_detect = false', columnsOption(read), ...more];
  const rows = reader('read_csv', file, options);
  const casts = types
    .filter(({ type }) => type === zoned)
    .map(({ name }) => `${zonedValue(quoteIdentifier(name), csv)} AS ${quoteIdentifier(name)}`);
  return casts.length === 0 ? rows : `(SELECT * REPLACE (${casts.join(', ')}) FROM ${rows})`;
}

/** A time with a zone from its text, which is as `csv` says. */
export function zonedValue(text: string, { timestampFormat }: CsvOptions): string {
  return `CAST(${timestampFormat === undefined ? text : `strptime(${text}, ${quoteLiteral(timestampFormat)})`} AS ${zoned})`;
}

/** Each value of a JSON file as one text; null where a line of it is none. */
export function jsonRecordsText(file: DataFile): string {
  return reader('read_json_objects', file, [...jsonOptions(file), ...patience(file)]);
}

const hiveReaders = new Set(['read_csv', 'read_json', 'read_parquet']);

function reader(name: string, file: DataFile, options: readonly string[]): string {
  // An ending of the name means nothing: a file is not compressed when it comes here.
  const compression =
    file.format === 'parquet' ? [] : [`compression = '${file.format === 'csv' ? 'none' : 'uncompressed'}'`];
  // What stands in the path of the file is no column of it.
  const path = hiveReaders.has(name) ? ['hive_partitioning = false'] : [];
  return `${name}(${[quoteLiteral(file.path), ...options, ...compression, ...path].join(', ')})`;
}

/** A broken line is passed over: who reads the rows tells of it. */
const patience = ({ format }: DataFile) => (format === 'ndjson' ? ['ignore_errors = true'] : []);

function jsonOptions({ format }: DataFile): string[] {
  return [
    `format = '${format === 'ndjson' ? 'newline_delimited' : 'auto'}'`,
    `maximum_object_size = ${jsonRowBytesMax}`,
  ];
}

function csvOptions(csv: CsvOptions): string[] {
  const texts: readonly (readonly [string, string | undefined])[] = [
    ['delim', csv.delimiter],
    ['quote', csv.quote ?? '"'],
    ['escape', csv.escape ?? csv.quote ?? '"'],
    ['nullstr', csv.nullText],
    ['dateformat', csv.dateFormat],
    ['timestampformat', csv.timestampFormat],
    ['encoding', csv.encoding],
    ['decimal_separator', csv.decimalSeparator],
    ['comment', csv.comment],
  ];
  return [
    // An empty text is written in quotes, a null is not.
    'allow_quoted_nulls = false',
    ...texts.flatMap(([name, value]) => (value === undefined ? [] : [`${name} = ${quoteLiteral(value)}`])),
    `header = ${csv.header ?? false}`,
    `skip = ${csv.skipRows ?? 0}`,
  ];
}

const sampleSize = ({ isWhole }: KnowingOptions) => `sample_size = ${isWhole ? -1 : sampleRows}`;
/** What the fields of a JSON object hold is looked at where their types are wanted. */
const depth = ({ isTyped }: KnowingOptions) => (isTyped ? [] : ['maximum_depth = 1']);

async function described(connection: DuckDBConnection, file: DataFile, options: KnowingOptions): Promise<KnownFile> {
  const from =
    file.format === 'parquet'
      ? reader('read_parquet', file, [])
      : reader('read_json', file, [
          ...jsonOptions(file),
          ...patience(file),
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

/** What DuckDB calls a key that is empty, or the same as another but for its case. */
const isMadeUp = (name: string, all: ReadonlySet<string>): boolean =>
  /^C\d+$/.test(name) || all.has(foldName(/^(.+)_\d+$/s.exec(name)?.[1] ?? ''));

/** Throws DATA_INVALID where a column would not have what the file has for it. */
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
    throw dataInvalid('the file has keys that are empty, or that differ in nothing but their case');
}

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

async function requireNoMark(path: string): Promise<void> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(byteOrderMark.length), 0, byteOrderMark.length, 0);
    if (buffer.equals(byteOrderMark))
      throw dataInvalid('the file begins with a byte order mark (BOM), which JSON has not');
  } finally {
    await file.close();
  }
}

export const noObjectReason = 'it is no JSON object in UTF-8';

function noObject(row: number | undefined): Failure {
  if (row === undefined) return dataInvalid('the file holds no JSON objects');
  const reason = noObjectReason;
  return dataInvalid(`row ${row}: ${reason}`, { row, column: null, reason });
}

/** The first value of a JSON file, from 1, that is no object. */
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

/** Delimiter and header are found in the first line, the types in a sample. */
async function csvShape(connection: DuckDBConnection, file: DataFile, options: KnowingOptions): Promise<KnownFile> {
  const first = await firstLine(connection, file);
  if (first === undefined) throw dataInvalid('the file is empty');
  if (first.includes('\0'))
    throw dataInvalid('the first line has zero bytes; if the file is in UTF-16, say so in `csv.encoding`', { line: 1 });
  const delimiter = file.csv.delimiter ?? delimiterOf(first, file.csv.quote ?? '"');
  const fields = csvFields(first, { delimiter, quote: file.csv.quote ?? '"', escape: file.csv.escape });
  if (fields === undefined) throw dataInvalid('the first line has a quote that does not end', { row: 1 });
  const csv = { ...file.csv, delimiter };
  const header = csv.header ?? (await hasHeader(connection, { ...file, csv }, fields, options.headings));
  const named = { ...csv, header };
  const place = (i: number) => `column${i + 1}`;
  const names = fields.map((field, i) => {
    if (!header) return options.names[i] ?? place(i);
    return field.trim() === '' ? place(i) : field;
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
    return { ...file, csv: { ...formats, ...withoutUndefined(named) }, columns };
  } catch {
    // Reading it will say what is wrong.
    return { ...file, csv: named, columns: untyped };
  }
}

const isoDate = '%Y-%m-%d';

interface Sniffed extends Pick<CsvOptions, 'dateFormat' | 'timestampFormat'> {
  readonly types: readonly string[];
}

/** The types, and how dates and times are written where that is another way than the usual one. */
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

const withoutUndefined = (csv: CsvOptions): CsvOptions =>
  Object.fromEntries(Object.entries(csv).filter(([, value]) => value !== undefined));

const list = (names: readonly string[]) => `[${names.map(quoteLiteral).join(', ')}]`;

async function firstLine(connection: DuckDBConnection, file: DataFile): Promise<string | undefined> {
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
    rowsOf(connection, `SELECT line FROM ${reader('read_csv', file, [...options, ...more])} LIMIT 1`);
  const rows = await read([]).catch((error: unknown) => {
    // DuckDB reads on; what is wrong further down is told with its row, once the columns are known.
    const wrongLine = Number(/CSV Error on Line: (\d+)/.exec(String(error))?.[1] ?? 0);
    if (wrongLine <= (skipRows ?? 0) + 1) throw error;
    return read(['ignore_errors = true']);
  });
  const line = rows[0]?.[0];
  return line === undefined || line === null ? undefined : String(line);
}

/** What nobody calls a column. */
const isData = /^[\d\s.,:/+-]*[\d.,:/+-][\d\s.,:/+-]*$/;

/** A line that names a column of the table is a header; else the types of what is below it tell. */
async function hasHeader(
  connection: DuckDBConnection,
  file: DataFile,
  fields: readonly string[],
  headings: readonly string[],
): Promise<boolean> {
  const known = new Set(headings.map(foldName));
  if (fields.some((field) => known.has(foldName(field)))) return true;
  if (fields.every((field) => field.trim() === '')) return false;
  if (fields.some((field) => isData.test(field))) return false;
  const options = csvOptions(file.csv).filter((one) => !one.startsWith('header'));
  try {
    const sniffed = reader('sniff_csv', file, [...options, `sample_size = ${sampleRows}`, 'ignore_errors = true']);
    const [row] = await rowsOf(connection, `SELECT HasHeader FROM ${sniffed}`);
    return row?.[0] === true;
  } catch {
    return headings.length === 0;
  }
}
