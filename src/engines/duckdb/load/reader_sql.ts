// The FROM clause by which DuckDB reads a data file. All reader options are explicit, because DuckDB's auto-detection reads a broken file
// with another schema instead of failing. See file_schema.ts for the columns of a file.
import type { SchemaOptions } from '../../data_files/file_schema.ts';
import { jsonRowBytesMax } from '../../data_files/json_limits.ts';
import type { CsvOptions, DataFile } from '../../port/load.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';

/** Rows that are sampled to infer the types. */
export const sampleRows = 20_480;

export interface FileColumn {
  readonly name: string;
  /** DuckDB's name of the type. */
  readonly type: string;
}

/** A file with its columns. */
export interface FileSchema extends DataFile {
  readonly columns: readonly FileColumn[];
}

/** The FROM clause that reads the file's columns with these types. `more`: additional options of the reader. */
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

/** The reader would convert an invalid TIMESTAMPTZ to null, so it reads a VARCHAR, which is cast afterwards. */
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

/** Converts a string to a TIMESTAMPTZ, with the timestamp format of `csv`. */
export function zonedValue(text: string, { timestampFormat }: CsvOptions): string {
  return `CAST(${timestampFormat === undefined ? text : `strptime(${text}, ${quoteLiteral(timestampFormat)})`} AS ${zoned})`;
}

/** Reads each value of a JSON file as one string; null for a line that is not JSON. */
export function jsonRecordsText(file: DataFile): string {
  return reader('read_json_objects', file, [...jsonOptions(file), ...errorTolerance(file)]);
}

const hiveReaders = new Set(['read_csv', 'read_json', 'read_parquet']);

/** The call of a reader function. */
export function reader(name: string, file: DataFile, options: readonly string[]): string {
  // Files are decompressed before, so an extension in the name must not matter.
  const compression =
    file.format === 'parquet' ? [] : [`compression = '${file.format === 'csv' ? 'none' : 'uncompressed'}'`];
  // `key=value` directories in the path must not become columns.
  const path = hiveReaders.has(name) ? ['hive_partitioning = false'] : [];
  return `${name}(${[quoteLiteral(file.path), ...options, ...compression, ...path].join(', ')})`;
}

/** Broken lines are ignored here and reported when the rows are read. */
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

export const sampleSize = ({ readsAllRows }: SchemaOptions) => `sample_size = ${readsAllRows ? -1 : sampleRows}`;
