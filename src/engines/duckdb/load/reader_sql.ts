// A file of data as DuckDB reads it: the text that stands for it in FROM. Nothing is left for DuckDB to guess while it loads, because
// what it guesses of a broken file is another shape, not an error. Which columns a file has is file_shape.ts'.
import { Failure } from '../../../standard/failure.ts';
import type { CsvOptions, DataFile } from '../../load.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';

/** Rows that are looked at to find the types. */
export const sampleRows = 20_480;
/** The largest JSON value that is one row. DuckDB takes room for several times as much, for each thread. */
export const jsonRowBytesMax = 16 * 1024 * 1024;

export interface FileColumn {
  readonly name: string;
  /** DuckDB's text of it. */
  readonly type: string;
}

/** A file whose shape is known. */
export interface FileSchema extends DataFile {
  readonly columns: readonly FileColumn[];
}

export const dataInvalid = (message: string, result: Readonly<Record<string, unknown>> = {}): Failure =>
  new Failure('DATA_INVALID', `${message}; nothing was loaded`, result);

export interface SchemaOptions {
  /** Names by which a header is known. */
  readonly headings: readonly string[];
  /** What the columns of a file without a header are called, as far as they go. */
  readonly names: readonly string[];
  /** The types of the columns are wanted too: without it, all of them may be text. */
  readonly isTyped: boolean;
  /** All rows are looked at to find the types. */
  readonly isWhole?: boolean;
}

/** The file in FROM, with its columns read as these types. `more`: options of the reader. */
export function fromText(file: FileSchema, types: readonly FileColumn[], more: readonly string[] = []): string {
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

export const zoned = 'TIMESTAMP WITH TIME ZONE';

/** The reader makes null of a text that is no time with a zone: it is cast after it. */
function csvText(file: FileSchema, types: readonly FileColumn[], more: readonly string[]): string {
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
  return reader('read_json_objects', file, [...jsonOptions(file), ...errorTolerance(file)]);
}

const hiveReaders = new Set(['read_csv', 'read_json', 'read_parquet']);

/** A reader's call. */
export function reader(name: string, file: DataFile, options: readonly string[]): string {
  // An ending of the name means nothing: a file is not compressed when it comes here.
  const compression =
    file.format === 'parquet' ? [] : [`compression = '${file.format === 'csv' ? 'none' : 'uncompressed'}'`];
  // What stands in the path of the file is no column of it.
  const path = hiveReaders.has(name) ? ['hive_partitioning = false'] : [];
  return `${name}(${[quoteLiteral(file.path), ...options, ...compression, ...path].join(', ')})`;
}

/** A broken line is passed over: who reads the rows tells of it. */
export const errorTolerance = ({ format }: DataFile) => (format === 'ndjson' ? ['ignore_errors = true'] : []);

export function jsonOptions({ format }: DataFile): string[] {
  return [
    `format = '${format === 'ndjson' ? 'newline_delimited' : 'auto'}'`,
    `maximum_object_size = ${jsonRowBytesMax}`,
  ];
}

export function csvOptions(csv: CsvOptions): string[] {
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
    `allow_quoted_nulls = ${csv.quotedNulls ?? true}`,
    ...texts.flatMap(([name, value]) => (value === undefined ? [] : [`${name} = ${quoteLiteral(value)}`])),
    `header = ${csv.header ?? false}`,
    `skip = ${csv.skipRows ?? 0}`,
  ];
}

export const sampleSize = ({ isWhole }: SchemaOptions) => `sample_size = ${isWhole ? -1 : sampleRows}`;
