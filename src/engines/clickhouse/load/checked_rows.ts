// Reads a file row by row into a table of one server, with the number and the text of each row, and finds the rows that do not fit. Used only
// where the servers cannot parse the file, or have refused it: it takes several times as long.
import { randomUUID } from 'node:crypto';
import { formatType, isNested, type LogicalType } from '../../../model/types.ts';
import { Fault, type ValueReader, valueReader } from '../../../model/values/value_validation.ts';
import { parseJson } from '../../../standard/json/parse_json.ts';
import {
  noObjectReason,
  type RejectedRow,
  rejectedFailure,
  textCharactersMax,
} from '../../data_files/load_failures.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';
import { internalDatabase } from '../names.ts';
import { qualifiedName, quoteIdentifier } from '../sql/identifiers.ts';
import { readingSql, readValues } from '../types/read_values.ts';
import { type ValueWriter, valueWriter } from '../types/row_text.ts';
import { serverType } from '../types/type_mapping.ts';
import type { MappedColumn } from './column_mapping.ts';
import { type CsvRecord, csvRecords, dialectOf, EndlessRecord, isTooLong } from './csv_records.ts';
import { type FileColumn, type FileShape, jsonRecordsOf, objectOf } from './file_shape.ts';
import { BrokenJsonFile } from './json_records.ts';
import { computeSettings, type NativeSource, withNativeData } from './native_source.ts';
import { faultExpression, faultReason, type RawColumn, type RowSql, rowNumber, rowSql, rowText } from './row_values.ts';

type Call = Pick<ServerCall, 'timeoutMs' | 'isOfCaller' | 'signal'>;

export interface CheckedRows {
  readonly sql: RowSql;
  /** What precedes the rows that fit, after `sql.from`. */
  readonly where: string;
  readonly rejected: readonly RejectedRow[];
  drop(): Promise<void>;
}

interface CheckedOptions {
  readonly shape: FileShape;
  readonly mapped: readonly MappedColumn[];
  /** Present for files that only servers can read. */
  readonly native: NativeSource | undefined;
  /** One more than rows may be rejected. */
  readonly rejectedMax: number;
  readonly call: Call;
}

/** Throws DATA_INVALID if the file cannot be split into rows. The caller drops the result. */
export async function checkRows(server: ClickHouseServer, options: CheckedOptions): Promise<CheckedRows> {
  const { shape, mapped, native, rejectedMax, call } = options;
  const table = qualifiedName({ database: internalDatabase, table: `load_${randomUUID().replaceAll('-', '')}` });
  const drop = async () => {
    await server.text({ timeoutMs: call.timeoutMs, sql: `DROP TABLE IF EXISTS ${table} SYNC` });
  };
  const raws = native && shape.file.format === 'parquet' ? native.raws : wantedColumns(shape, mapped);
  const types = raws.map((raw) => `${raw.name} ${storedType(raw)}`);
  try {
    await server.text({ ...call, sql: `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(internalDatabase)}` });
    await server.text({
      ...call,
      sql: `CREATE TABLE ${table} (${[`${rowNumber} UInt64`, `${rowText} Nullable(String)`, ...types].join(', ')}) ENGINE = MergeTree ORDER BY ${rowNumber}`,
    });
    const scanned =
      native && shape.file.format === 'parquet'
        ? await storeNative(server, table, options, native)
        : await storeRows(server, table, options, raws);
    const sql = rowSql(shape, mapped, raws, { source: sourceWithRows(table), isJsonChecked: true });
    const found =
      scanned.length >= rejectedMax ? [] : await findFaults(server, sql, rejectedMax - scanned.length, call);
    const rejected = [...scanned, ...found].sort((a, b) => a.row - b.row).slice(0, rejectedMax);
    const failing = found.flatMap(({ row, isFailing }) => (isFailing ? [row] : []));
    const isKept = failing.length === 0 ? '' : `${rowNumber} NOT IN (${failing.join(', ')}) AND `;
    return {
      sql,
      where: `WHERE ${isKept}${faultExpression(sql)} = 0`,
      rejected: rejected.map(({ row, column, reason, text }) => ({ row, column, reason, text })),
      drop,
    };
  } catch (error) {
    await drop().catch(() => undefined);
    throw error;
  }
}

/** `rowSql` recognizes the source by its number of the row. */
const sourceWithRows = (table: string): string => `(SELECT ${rowNumber}, * EXCEPT ${rowNumber} FROM ${table})`;

const storedType = ({ form }: RawColumn): string =>
  form.kind === 'value' ? serverType(form.type, true) : 'Nullable(String)';

/** Each column of the file that is read: as text, or of each nested type that is asked of it. */
function wantedColumns({ columns }: FileShape, mapped: readonly MappedColumn[]): RawColumn[] {
  const usesExpressions = mapped.some(({ expression }) => expression !== undefined);
  const wanted = new Map<string, { readonly file: FileColumn; readonly type: LogicalType }>();
  const want = (file: FileColumn, type: LogicalType) =>
    wanted.set(`${file.name}\0${isNested(type) ? formatType(type) : type.kind === 'JSON' ? 'JSON' : ''}`, {
      file,
      type,
    });
  for (const { column, source } of mapped) if (source) want(source, column.type);
  if (usesExpressions) for (const file of columns) want(file, file.type);
  return [...wanted.values()].map(
    ({ file, type }, i): RawColumn => ({
      name: quoteIdentifier(`_raw_${i}`),
      file,
      form: isNested(type) || type.kind === 'JSON' ? { kind: 'value', type, isBytes: false } : { kind: 'nullableText' },
    }),
  );
}

/** A line of the file as a line for the server, or why it is none. */
type RowReader<Record> = (
  record: Record,
) => { readonly values: string } | { readonly column: string | null; readonly reason: string };

async function storeRows(
  server: ClickHouseServer,
  table: string,
  options: CheckedOptions,
  raws: readonly RawColumn[],
): Promise<Scanned[]> {
  const { shape, rejectedMax, call } = options;
  const rejected: Scanned[] = [];
  const lines = shape.file.format === 'csv' ? csvLines(shape, raws) : jsonFileLines(shape, raws);
  async function* data(): AsyncGenerator<Buffer> {
    let parts: string[] = [];
    let characters = 0;
    for await (const line of lines) {
      if ('row' in line) {
        rejected.push(line);
        if (rejected.length >= rejectedMax) break;
        continue;
      }
      parts.push(line.values);
      characters += line.values.length;
      if (characters < linesBytes) continue;
      yield Buffer.from(parts.join(''), 'latin1');
      [parts, characters] = [[], 0];
    }
    if (parts.length > 0) yield Buffer.from(parts.join(''), 'latin1');
  }
  await server.text({
    ...call,
    sql: `INSERT INTO ${table} ${readingOf(raws)} FORMAT JSONCompactEachRow`,
    settings: { ...computeSettings, input_format_null_as_default: 0 },
    data: data(),
  });
  return rejected;
}

/** A SELECT that reads the lines, where the table cannot read them as they are. */
function readingOf(raws: readonly RawColumn[]): string {
  const stored: readonly LogicalType[] = [
    { kind: 'BIGINT' },
    { kind: 'STRING' },
    ...raws.map(({ form }): LogicalType => (form.kind === 'value' ? form.type : { kind: 'STRING' })),
  ];
  const reading = readValues(
    stored.map((type) => ({ type, nullable: true })),
    [],
  );
  return reading ? readingSql(reading) : '';
}

type Scanned = RejectedRow & { readonly isFailing?: boolean };
const linesBytes = 1024 * 1024;

const latin1 = (text: string): string => Buffer.from(text).toString('latin1');
const textJson = (text: string): string => latin1(JSON.stringify(text));

const lineOf = (row: number, text: string, values: readonly string[]): { readonly values: string } => ({
  values: `[${[row, textJson(text.slice(0, textCharactersMax)), ...values].join(',')}]\n`,
});

async function* csvLines(
  { file, csv, columns }: FileShape,
  raws: readonly RawColumn[],
): AsyncGenerator<{ readonly values: string } | RejectedRow> {
  const read = csvReader(columns, raws, csv.nullText ?? '', csv.quotedNulls ?? true);
  let row = csv.header ? -1 : 0;
  try {
    for await (const record of csvRecords(file.path, dialectOf(csv), csv.skipRows)) {
      if (++row === 0) continue;
      const found = read(record);
      yield 'values' in found
        ? lineOf(row, record.text, [found.values])
        : { row, ...found, text: record.text.slice(0, textCharactersMax) };
    }
  } catch (error) {
    if (!(error instanceof EndlessRecord)) throw error;
    const reason = 'the line has no end, or is too long';
    throw rejectedFailure([{ row: Math.max(row + 1, 1), column: null, reason, text: null }], 0);
  }
}

function csvReader(
  columns: readonly FileColumn[],
  raws: readonly RawColumn[],
  nullText: string,
  quotedNulls: boolean,
): RowReader<CsvRecord> {
  const readers = raws.map(({ form, file }) => ({
    index: columns.findIndex(({ name }) => name === file.name),
    read: form.kind === 'value' ? nestedText(form.type) : undefined,
  }));
  return ({ fields }) => {
    if (fields.length < columns.length)
      return { column: columns[fields.length]?.name ?? null, reason: 'the line has too few columns' };
    if (fields.length > columns.length) return { column: null, reason: 'the line has too many columns' };
    const long = fields.findIndex(isTooLong);
    if (long >= 0) return { column: columns[long]?.name ?? null, reason: 'the value is too long' };
    const broken = fields.findIndex(({ isBroken }) => isBroken);
    if (broken >= 0)
      return { column: columns[broken]?.name ?? null, reason: 'the text is not of the encoding of the file' };
    const values: string[] = [];
    for (const { index, read } of readers) {
      const { text, isQuoted } = fields[index] as CsvRecord['fields'][number];
      if (text === nullText && (quotedNulls || !isQuoted)) {
        values.push('null');
        continue;
      }
      const value = read ? read(text) : textJson(text);
      if (value instanceof Fault) return { column: columns[index]?.name ?? null, reason: value.message };
      values.push(value);
    }
    return { values: values.join(',') };
  };
}

/** Reads a value that is written as JSON. A JSON column gets the text as it is, also its numbers and spaces, and the JSON value null. */
function nestedText(type: LogicalType): (text: string) => string | Fault {
  const read = jsonValueOf(type);
  return (text) => {
    try {
      const value = parseJson(text);
      return type.kind === 'JSON' ? textJson(text) : read(value);
    } catch {
      return new Fault('format', `the value is none of ${formatType(type)}`);
    }
  };
}

/** A JSON value as the server reads it. A JSON column gets its text, a map may be an object. */
function jsonValueOf(type: LogicalType): (value: unknown) => string | Fault {
  const read: ValueReader = valueReader(type);
  const write: ValueWriter = valueWriter(type);
  return (value) => {
    if (value === null) return 'null';
    const checked = read(asEntries(type, value));
    if (checked instanceof Fault) return checked;
    try {
      return write(checked);
    } catch {
      return new Fault('range', `the value is none of ${formatType(type)}`);
    }
  };
}

function asEntries(type: LogicalType, value: unknown): unknown {
  if (value === null || typeof value !== 'object' || JSON.isRawJSON(value)) return value;
  if (type.kind === 'MAP' && !Array.isArray(value))
    return Object.entries(value).map(([key, inner]) => ({ key, value: asEntries(type.value, inner) }));
  if (type.kind === 'ARRAY' && Array.isArray(value)) return value.map((item) => asEntries(type.element, item));
  if (type.kind !== 'STRUCT' || Array.isArray(value)) return value;
  const types = new Map(type.fields.map((field) => [field.name, field.type]));
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const fieldType = types.get(name);
      return [name, fieldType ? asEntries(fieldType, inner) : inner];
    }),
  );
}

async function* jsonFileLines(
  { file }: FileShape,
  raws: readonly RawColumn[],
): AsyncGenerator<{ readonly values: string } | RejectedRow> {
  const readers = raws.map(({ form, file: column }) => ({
    name: column.name,
    read: form.kind === 'value' ? jsonValueOf(form.type) : textOf,
  }));
  let row = 0;
  try {
    for await (const record of jsonRecordsOf(file)) {
      row++;
      const object = objectOf(record);
      const text = record.text.slice(0, textCharactersMax);
      if (!object) {
        yield { row, column: null, reason: noObjectReason, text };
        continue;
      }
      const values: string[] = [];
      let fault: RejectedRow | undefined;
      for (const { name, read } of readers) {
        const value = read(Object.hasOwn(object, name) ? object[name] : null);
        if (value instanceof Fault) fault ??= { row, column: name, reason: value.message, text };
        else values.push(value);
      }
      yield fault ?? lineOf(row, text, values);
    }
  } catch (error) {
    if (!(error instanceof BrokenJsonFile)) throw error;
    throw rejectedFailure([{ row: row + 1, column: null, reason: error.message, text: null }], 0);
  }
}

/** The text of a value that a column without structure reads; of an array or an object its JSON. */
function textOf(value: unknown): string | Fault {
  if (value === null) return 'null';
  if (typeof value === 'string')
    return value.isWellFormed() ? textJson(value) : new Fault('unicode', 'the string is not well-formed Unicode');
  return textJson(JSON.stringify(value));
}

/** Only servers can read Parquet. One thread keeps the order. */
async function storeNative(
  server: ClickHouseServer,
  table: string,
  { shape, call }: CheckedOptions,
  native: NativeSource,
): Promise<Scanned[]> {
  const names = native.raws.map(({ name }) => name);
  const labelled = native.raws.map(({ name, file }) => `${name} AS ${quoteIdentifier(file.name)}`);
  const text = `substring(toJSONString(tuple(${labelled.join(', ')})), 1, ${textCharactersMax})`;
  const statement = {
    ...call,
    sql: `INSERT INTO ${table} (${[rowNumber, rowText, ...names].join(', ')}) SELECT rowNumberInAllBlocks() + 1, ${text}, ${names.join(', ')} FROM ${native.from} FORMAT ${native.format}`,
    settings: {
      ...native.settings,
      max_threads: 1,
      max_insert_threads: 1,
      input_format_parquet_preserve_order: 1,
      enable_named_columns_in_function_tuple: 1,
    },
  };
  await withNativeData(shape, undefined, (data) => server.text({ ...statement, data }));
  return [];
}

/** The first rows that do not fit. An expression that fails does not name its row, which is then searched for. */
async function findFaults(server: ClickHouseServer, sql: RowSql, rowsMax: number, call: Call): Promise<Scanned[]> {
  const hasExpression = sql.columns.some(({ mapped }) => mapped.expression !== undefined);
  const faults = (where: string) =>
    server.rows<{ row: string; fault: number; text: string | null }>({
      ...call,
      sql:
        `SELECT toString(${rowNumber}) AS row, ${rowText} AS text, toUInt32(fault) AS fault FROM (SELECT ${rowNumber}, ${rowText}, ` +
        `${faultExpression(sql)} AS fault FROM ${sql.from} ${where}) WHERE fault != 0 ORDER BY ${rowNumber} LIMIT ${rowsMax}`,
      settings: computeSettings,
    });
  const toRejected = (rows: Awaited<ReturnType<typeof faults>>): Scanned[] =>
    rows.map(({ row, fault, text }) => ({ row: Number(row), text, ...faultReason(fault, sql) }));
  if (!hasExpression) return toRejected(await faults(''));
  const expressions = sql.columns.filter(({ mapped }) => mapped.expression !== undefined);
  const found: Scanned[] = [];
  const search = async (from: number, to: number): Promise<void> => {
    if (found.length >= rowsMax) return;
    try {
      found.push(...toRejected(await faults(`WHERE ${rowNumber} >= ${from} AND ${rowNumber} < ${to}`)));
    } catch (error) {
      if (!(error instanceof ClickHouseError)) throw error;
      if (to - from > 1) {
        const middle = from + Math.floor((to - from) / 2);
        await search(from, middle);
        await search(middle, to);
        return;
      }
      const column = expressions.length === 1 ? (expressions[0]?.mapped.column.name ?? null) : null;
      found.push({ row: from, column, reason: 'an expression has no value for the row', text: null, isFailing: true });
    }
  };
  const [last] = await server.rows<{ row: string }>({
    ...call,
    sql: `SELECT toString(max(${rowNumber})) AS row FROM ${sql.from}`,
    settings: computeSettings,
  });
  await search(1, Number(last?.row ?? 0) + 1);
  return found.slice(0, rowsMax);
}
