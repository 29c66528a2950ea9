// Reads the rows of a file to load: of CSV, JSON and NDJSON, as values by column of the file.
import type { CsvOptions, DataFile } from '../../../../src/engines/port/load.ts';
import { foldName } from '../../../../src/model/names.ts';
import type { TableDefinition } from '../../../../src/model/records.ts';
import { Fault } from '../../../../src/model/values/value_validation.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { parseJson } from '../../../../src/standard/json/parse_json.ts';
import { type CsvRecord, csvRecords, decodeField, fieldCharactersMax, textsOf } from './csv.ts';
import { dataInvalid } from './load_errors.ts';
import { fromText } from './values.ts';

/** A row of a file. */
export interface FileRow {
  /** By folded name. Absent: the row has no such column. A text of CSV, or a value of JSON. */
  readonly values: ReadonlyMap<string, unknown>;
  readonly text: string | null;
  /** Why the row as a whole cannot be loaded. */
  readonly fault?: { readonly column: string | null; readonly reason: string };
}

export interface FileRows {
  /** The columns of a CSV file; undefined: each row has its own. */
  readonly columns: readonly string[] | undefined;
  readonly rows: AsyncIterable<FileRow>;
}

export type FileContent = Pick<DataFile, 'format' | 'csv'>;

/** Throws DATA_INVALID. */
export async function readFileRows(
  input: AsyncIterable<Buffer>,
  { format, csv }: FileContent,
  definition: TableDefinition,
): Promise<FileRows> {
  if (format === 'csv') return await csvRows(input, csv, definition);
  if (format === 'parquet') throw new Failure('NOT_SUPPORTED_BY_ENGINE', 'the engine does not support Parquet files');
  return { columns: undefined, rows: format === 'json' ? jsonRows(input) : ndjsonRows(input) };
}

async function csvRows(input: AsyncIterable<Buffer>, csv: CsvOptions, definition: TableDefinition): Promise<FileRows> {
  const records = csvRecords(textsOf(input, csv.encoding), csv);
  const first = await records.next();
  if (first.done) throw dataInvalid('the file is empty');
  const texts = first.value.fields.map(({ text }) => decodeField(text, csv.encoding) ?? text);
  const hasHeader = csv.header ?? !fitsByPosition(texts, definition);
  const columns = hasHeader ? texts : texts.map((_, i) => definition.columns[i]?.name ?? `column${i + 1}`);
  async function* rows(): AsyncGenerator<FileRow> {
    if (!hasHeader) yield csvRow(first.value as CsvRecord, columns, csv);
    for await (const record of records) yield csvRow(record, columns, csv);
  }
  return { columns, rows: rows() };
}

/** Whether the first line of a CSV file is a row of the table and not a header. */
function fitsByPosition(texts: readonly string[], { columns }: TableDefinition): boolean {
  const names = new Set(columns.map(({ name }) => foldName(name)));
  if (texts.length !== columns.length || texts.some((text) => names.has(foldName(text)))) return false;
  return columns.every(({ type }, i) => texts[i] === '' || !(fromText(type, texts[i] ?? '') instanceof Fault));
}

function csvRow({ fields, text }: CsvRecord, columns: readonly string[], csv: CsvOptions): FileRow {
  const { nullText = '', quotedNulls = true, encoding } = csv;
  const values = new Map<string, unknown>();
  const record = decodeField(text, encoding) ?? text;
  for (const [i, column] of columns.entries()) {
    const field = fields[i];
    if (!field) return { values, text: record, fault: { column, reason: 'the line has too few columns' } };
    if (field.text.length > fieldCharactersMax)
      return {
        values,
        text: null,
        fault: { column, reason: `a value has more than ${fieldCharactersMax} characters` },
      };
    const decoded = decodeField(field.text, encoding);
    if (decoded === undefined) return { values, text: record, fault: { column, reason: 'the text is not UTF-8' } };
    const isNull = decoded === nullText && (quotedNulls || !field.isQuoted);
    values.set(foldName(column), isNull ? null : decoded);
  }
  if (fields.length <= columns.length) return { values, text: record };
  return { values, text: record, fault: { column: null, reason: 'the line has too many columns' } };
}

const jsonRowCharactersMax = 16 * 1024 * 1024;

async function* ndjsonRows(input: AsyncIterable<Buffer>): AsyncGenerator<FileRow> {
  let buffer = '';
  for await (const text of decoded(input)) {
    const lines = (buffer + text).split('\n');
    buffer = lines.pop() ?? '';
    for (const line of lines) if (line.trim() !== '') yield jsonRow(line);
    if (buffer.length > jsonRowCharactersMax) throw dataInvalid('the file has a line that is too long');
  }
  if (buffer.trim() !== '') yield jsonRow(buffer);
}

async function* decoded(input: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  try {
    for await (const chunk of input) yield decoder.decode(chunk, { stream: true });
    yield decoder.decode();
  } catch (error) {
    throw error instanceof TypeError ? dataInvalid('the file is not UTF-8') : error;
  }
}

function jsonRow(line: string): FileRow {
  try {
    return objectRow(parseJson(line), line);
  } catch {
    return { values: new Map(), text: line, fault: { column: null, reason: 'the line is not JSON' } };
  }
}

function objectRow(value: unknown, text: string | null): FileRow {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || JSON.isRawJSON(value))
    return { values: new Map(), text, fault: { column: null, reason: 'the value is not an object' } };
  return { values: new Map(Object.entries(value).map(([name, field]) => [foldName(name), field])), text };
}

/** A JSON file is read as a whole: an array of objects, or objects after each other. */
async function* jsonRows(input: AsyncIterable<Buffer>): AsyncGenerator<FileRow> {
  let text = '';
  for await (const part of decoded(input)) text += part;
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    throw dataInvalid('the file is not JSON');
  }
  for (const row of Array.isArray(value) ? value : [value]) yield objectRow(row, JSON.stringify(row));
}
