// Rows of a request (model/values/value_validation.ts) as JSON lines that a server reads exactly. Values that a type of the server cannot hold
// are refused: the server would store the nearest one that it can.
import type { ColumnDefinition } from '../../../model/records.ts';
import type { LogicalType } from '../../../model/types.ts';
import { escapePointer } from '../../../model/values/json_pointer.ts';
import { type Violation, violationsFailure, violationsMax } from '../../../standard/failure.ts';
import type { RowsBatch } from '../../port/rows.ts';
import { readingSql, readValues } from './read_values.ts';

/** The text of a value that is not null; bytes are characters (latin1) where the batch has binary values. Throws OutOfRange. */
export type ValueWriter = (value: unknown) => string;

class OutOfRange extends Error {}

/** The years of the types Date32 and DateTime64. */
export const dates = { first: '1900-01-01', last: '2299-12-31' } as const;

/** The data of an INSERT, and what precedes its format. */
export interface RowsText {
  readonly format: string;
  readonly data: Uint8Array;
  /** A SELECT that reads the data, where the table cannot read it as it is. */
  readonly reading?: string;
}

/** `exactFloats`: the servers read floating-point numbers of rows exactly. Throws ROWS_INVALID. */
export function rowsText(batch: RowsBatch, options: { readonly exactFloats?: boolean } = {}): RowsText {
  const omittedColumns = batch.omitted?.map(({ column }) => column) ?? [];
  const reading = readValues(batch.columns, omittedColumns, options);
  const text = linesOf(batch, reading ? omittedColumns : undefined);
  return reading ? { ...text, reading: readingSql(reading) } : text;
}

/**
 * Lines for `FORMAT JSONEachRow` if some rows omit columns that have defaults, or else for `FORMAT JSONCompactEachRow`. `flagged`: columns
 * whose omission is a value of the row instead.
 */
function linesOf(batch: RowsBatch, flagged: readonly number[] | undefined): RowsText {
  const rows = JSON.parse(batch.json) as readonly (readonly unknown[])[];
  const writers = batch.columns.map(({ type }) => valueWriter(type));
  const omitted = new Map(batch.omitted?.map(({ column, rows: indexes }) => [column, new Set(indexes)]));
  const names =
    omitted.size > 0 && !flagged ? batch.columns.map(({ name }) => `${utf8(JSON.stringify(name))}:`) : undefined;
  const violations: Violation[] = [];
  let count = 0;
  const lines = rows.map((row, index) => {
    const values = row.flatMap((value, c) => {
      if (names && omitted.get(c)?.has(index)) return [];
      try {
        const text = value === null ? 'null' : (writers[c] as ValueWriter)(value);
        return [names ? `${names[c]}${text}` : text];
      } catch (error) {
        if (!(error instanceof OutOfRange)) throw error;
        if (count++ < violationsMax) violations.push(violationOf(index, batch.columns[c] as ColumnDefinition));
        return ['null'];
      }
    });
    for (const c of flagged ?? []) values.push(omitted.get(c)?.has(index) ? '1' : '0');
    return names ? `{${values.join(',')}}` : `[${values.join(',')}]`;
  });
  if (count > 0)
    throw violationsFailure('ROWS_INVALID', 'the rows do not match the table; nothing was inserted', violations);
  return { format: names ? 'JSONEachRow' : 'JSONCompactEachRow', data: Buffer.from(`${lines.join('\n')}\n`, 'latin1') };
}

const violationOf = (index: number, { name }: ColumnDefinition): Violation => ({
  pointer: `/rows/${index}/${escapePointer(name)}`,
  rule: 'range',
  message: `the engine has dates from ${dates.first} to ${dates.last}`,
});

/** The bytes of a text as characters. */
const utf8 = (text: string): string => Buffer.from(text).toString('latin1');

const asIs: ValueWriter = (value) => String(value);
const text: ValueWriter = (value) => {
  const json = JSON.stringify(value);
  return isAscii(json) ? json : utf8(json);
};
const isAscii = (json: string): boolean => /^[\x00-\x7f]*$/.test(json);

const float: ValueWriter = (value) => {
  if (typeof value === 'number') return String(value);
  const name = String(value);
  return name === 'NaN' ? '"nan"' : name === 'Infinity' ? '"inf"' : name === '-Infinity' ? '"-inf"' : name;
};

const date: ValueWriter = (value) => `"${inRange(String(value))}"`;
const datetime: ValueWriter = (value) => `"${inRange(microseconds(String(value).replace('T', ' ')))}"`;

function inRange(time: string): string {
  if (time < dates.first || time.slice(0, dates.last.length) > dates.last) throw new OutOfRange();
  return time;
}

/** Without digits beyond the sixth, which are zeros. */
const microseconds = (time: string): string => time.slice(0, '2026-01-31 10:00:00.123456'.length);

/** In UTC, to the microsecond. */
const timestamp: ValueWriter = (value) => {
  const [, local = '', fraction = '', zone = ''] = /^(.{19})(\.\d+)?(Z|[+-]\d\d:\d\d)$/.exec(String(value)) ?? [];
  const shifted = zone === 'Z' ? local : new Date(`${local.replace(' ', 'T')}${zone}`).toISOString().slice(0, 19);
  return `"${inRange(microseconds(`${shifted.replace('T', ' ')}${fraction}`))}"`;
};

/** Bytes of a JSON string: a server takes all but the escaped ones as they are. */
const binary: ValueWriter = (value) =>
  `"${Buffer.from(String(value), 'base64')
    .toString('latin1')
    .replaceAll(/["\\\x00-\x1f]/g, (byte) => `\\u00${byte.charCodeAt(0).toString(16).padStart(2, '0')}`)}"`;

export function valueWriter(type: LogicalType): ValueWriter {
  switch (type.kind) {
    case 'BOOLEAN':
    case 'TINYINT':
    case 'SMALLINT':
    case 'INT':
    case 'BIGINT':
    case 'LARGEINT':
    case 'DECIMAL':
      return asIs;
    case 'FLOAT':
    case 'DOUBLE':
      return float;
    case 'DATE':
      return date;
    case 'DATETIME':
      return datetime;
    case 'TIMESTAMPTZ':
      return timestamp;
    case 'BINARY':
      return binary;
    case 'ARRAY': {
      const element = nullable(valueWriter(type.element));
      return (value) => `[${(value as readonly unknown[]).map(element).join(',')}]`;
    }
    case 'MAP':
      return mapWriter(type.key, type.value);
    case 'STRUCT': {
      const fields = type.fields.map(
        (field) => [field.name, `${utf8(JSON.stringify(field.name))}:`, nullable(valueWriter(field.type))] as const,
      );
      return (value) => {
        const given = value as Readonly<Record<string, unknown>>;
        return `{${fields.map(([name, label, write]) => `${label}${write(given[name] ?? null)}`).join(',')}}`;
      };
    }
    default:
      return text;
  }
}

const nullable =
  (write: ValueWriter): ValueWriter =>
  (value) =>
    value === null ? 'null' : write(value);

/** A server reads maps as objects, whose names are texts of the keys. */
function mapWriter(key: LogicalType, value: LogicalType): ValueWriter {
  const [writeKey, writeValue] = [valueWriter(key), nullable(valueWriter(value))];
  const name = (text: string) =>
    text.startsWith('"') ? text : `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
  return (entries) =>
    `{${(entries as readonly { readonly key: unknown; readonly value: unknown }[])
      .map((entry) => `${name(writeKey(entry.key))}:${writeValue(entry.value)}`)
      .join(',')}}`;
}
