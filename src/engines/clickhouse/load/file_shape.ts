// The columns of a data file and, of CSV, how it is written: the first line shows the delimiter and the names, a sample shows the types.
import { open } from 'node:fs/promises';
import { foldName } from '../../../model/names.ts';
import { formatType, type LogicalType, parseType } from '../../../model/types.ts';
import { parseJson } from '../../../standard/json/parse_json.ts';
import { firstRecord, isHeader, lineBytesMax } from '../../data_files/csv_lines.ts';
import { requireNames, requireReadable, type SchemaOptions } from '../../data_files/file_schema.ts';
import { dataInvalid, noObjectReason } from '../../data_files/load_failures.ts';
import type { CsvOptions, DataFile, DetectedSchema } from '../../port/load.ts';
import { type CsvRecord, csvRecords, dialectOf, EndlessRecord } from './csv_records.ts';
import { BrokenJsonFile, type JsonRecord, jsonLines, jsonValues } from './json_records.ts';
import { mergedTypes, TextInference, typeOfJson } from './value_inference.ts';

/** Rows that are sampled to infer the types. */
const sampleRows = 20_480;
const columnsMax = 10_000;

export interface FileColumn {
  readonly name: string;
  readonly type: LogicalType;
}

export interface FileShape {
  readonly file: DataFile;
  /** Resolved. */
  readonly csv: CsvOptions;
  readonly columns: readonly FileColumn[];
}

/** Reads the columns of a Parquet file. */
export type ReadParquetColumns = (path: string) => Promise<readonly FileColumn[]>;

/** Throws DATA_INVALID. */
export async function readShape(
  file: DataFile,
  options: SchemaOptions,
  readParquet: ReadParquetColumns,
): Promise<FileShape> {
  await requireReadable(file);
  if (file.schema) return { file, csv: file.schema.csv, columns: file.schema.columns.map(parsedColumn) };
  const shape = await detected(file, options, readParquet);
  requireNames(shape.columns);
  return shape;
}

const parsedColumn = ({ name, type }: { name: string; type: string }): FileColumn => ({ name, type: parseType(type) });

export const schemaOf = ({ csv, columns }: FileShape): DetectedSchema => ({
  csv,
  columns: columns.map(({ name, type }) => ({ name, type: formatType(type) })),
});

async function detected(file: DataFile, options: SchemaOptions, readParquet: ReadParquetColumns): Promise<FileShape> {
  if (file.format === 'csv') return await csvShape(file, options);
  if (file.format === 'parquet') return { file, csv: file.csv, columns: await readParquet(file.path) };
  return { file, csv: file.csv, columns: await jsonColumns(file, options) };
}

const untyped: LogicalType = { kind: 'STRING' };

async function csvShape(file: DataFile, options: SchemaOptions): Promise<FileShape> {
  const { delimiter, fields } = await firstRecord((linesMax) => firstLines(file, linesMax), file.csv, columnsMax);
  const csv = { ...file.csv, delimiter };
  const isSure = csv.header ?? isHeader(fields, options.headings);
  const isKnown = isSure !== undefined;
  const needsSample = options.isTyped || !isKnown;
  const sample = needsSample ? await sampledTypes(file, csv, fields.length, options, isSure) : undefined;
  const header = isSure ?? sample?.hasHeader ?? false;
  const names = fields.map((field, i) => {
    if (!header) return options.names[i] ?? `column${i + 1}`;
    // A name with a line break shows that the header has several lines.
    return field.trim() === '' && !field.includes('\n') ? `column${i + 1}` : field;
  });
  const types = sample?.types ?? [];
  const columns = names.map((name, i) => ({ name, type: types[i] ?? untyped }));
  const dateFormat = csv.dateFormat ?? sample?.dateFormat;
  return { file, csv: { ...csv, header, ...(dateFormat === undefined ? {} : { dateFormat }) }, columns };
}

/** As texts, also where their bytes are not of the encoding. */
async function firstLines(file: DataFile, linesMax: number): Promise<readonly string[]> {
  const dialect = { ...dialectOf(file.csv), delimiter: '\x01', quote: '' };
  const lines: string[] = [];
  try {
    for await (const { text } of csvRecords(file.path, dialect, file.csv.skipRows)) {
      lines.push(text);
      if (lines.length === linesMax) break;
    }
  } catch (error) {
    if (!(error instanceof EndlessRecord)) throw error;
    // What follows the first line is read with its rows.
    if (lines.length === 0) throw dataInvalid(`the file has a line of more than ${lineBytesMax} bytes`);
  }
  return lines;
}

interface SampledTypes {
  readonly types: readonly LogicalType[];
  readonly dateFormat: string | undefined;
  readonly hasHeader: boolean;
}

async function sampledTypes(
  { path }: DataFile,
  csv: CsvOptions,
  width: number,
  { readsAllRows = false, headings }: SchemaOptions,
  isSure: boolean | undefined,
): Promise<SampledTypes> {
  const below = Array.from({ length: width }, () => new TextInference(csv.decimalSeparator));
  const withFirst = Array.from({ length: width }, () => new TextInference(csv.decimalSeparator));
  const nullText = csv.nullText ?? '';
  const add = ({ fields }: CsvRecord, inferences: readonly TextInference[]) => {
    for (const [i, inference] of inferences.entries()) {
      const text = fields[i]?.text;
      if (text !== undefined && text !== nullText && fields.length === width) inference.add(text);
    }
  };
  let rows = 0;
  try {
    for await (const record of csvRecords(path, dialectOf(csv), csv.skipRows)) {
      if (rows > 0) add(record, below);
      if (isSure !== true) add(record, withFirst);
      if (++rows > sampleRows && !readsAllRows) break;
    }
  } catch (error) {
    // The load reports the position.
    if (!(error instanceof EndlessRecord)) throw error;
  }
  // A line of texts above columns of other types; or, of a file that nothing is known about, above any.
  const differs = below.some(({ type }, i) => type.kind !== 'STRING' && withFirst[i]?.type.kind === 'STRING');
  const hasHeader =
    isSure ?? (differs || (headings.length === 0 && rows > 1 && withFirst.every(({ type }) => type.kind === 'STRING')));
  const inferences = hasHeader ? below : withFirst;
  const formats = new Set(inferences.flatMap(({ type, dateFormat }) => (type.kind === 'DATE' ? [dateFormat] : [])));
  // One format for all columns: others are texts.
  const [dateFormat] = formats;
  const types = inferences.map(({ type, dateFormat: own }) =>
    type.kind === 'DATE' && own !== dateFormat ? untyped : type,
  );
  return {
    types: csv.dateFormat === undefined ? types : types.map((type) => (type.kind === 'DATE' ? untyped : type)),
    dateFormat,
    hasHeader,
  };
}

export const jsonRecordsOf = ({ path, format }: DataFile): AsyncGenerator<JsonRecord> =>
  format === 'ndjson' ? jsonLines(path) : jsonValues(path);

/** The object that a record is; undefined for any other text. Numbers that a double cannot represent keep their texts. */
export function objectOf({ text, isBroken }: JsonRecord): Readonly<Record<string, unknown>> | undefined {
  if (isBroken) return undefined;
  try {
    const value = parseJson(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Keys that differ in case only are one column of a table. */
async function jsonColumns(file: DataFile, { readsAllRows = false }: SchemaOptions): Promise<FileColumn[]> {
  const types = new Map<string, LogicalType | undefined>();
  let row = 0;
  let objects = 0;
  try {
    for await (const record of jsonRecordsOf(file)) {
      row++;
      const object = objectOf(record);
      if (!object) {
        // Broken lines of NDJSON are reported when the rows are read.
        if (file.format === 'json')
          throw dataInvalid(`row ${row}: ${noObjectReason}`, { row, column: null, reason: noObjectReason });
        continue;
      }
      objects++;
      for (const [name, value] of Object.entries(object))
        types.set(name, mergedTypes(types.get(name), typeOfJson(value)));
      if (objects >= sampleRows && !readsAllRows) break;
    }
  } catch (error) {
    if (!(error instanceof BrokenJsonFile)) throw error;
    throw dataInvalid(`row ${row + 1}: ${error.message}`, { row: row + 1, column: null, reason: error.message });
  }
  if (objects === 0 && row > 0)
    throw dataInvalid(`row 1: ${noObjectReason}`, { row: 1, column: null, reason: noObjectReason });
  if (objects === 0) throw dataInvalid('the file contains no JSON objects');
  const folded = new Set([...types.keys()].map(foldName));
  if (folded.size < types.size || folded.has(''))
    throw dataInvalid('the file has keys that are empty or that differ only in case');
  return [...types].map(([name, type]) => ({ name, type: type ?? { kind: 'JSON' } }));
}

/** The first bytes of a file. */
export async function headOf(path: string, bytes: number): Promise<Buffer> {
  const file = await open(path);
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
