// The values of the logical types in SQLite, exact for each type: integers up to 64 bits as integers, floating-point numbers as reals
// (NaN as text), binary as blobs, and all others as canonical text. `Value` is the form in which rows are validated
// (src/model/values/value_validation.ts).
import type { SQLOutputValue } from 'node:sqlite';
import { formatType, isNested, type LogicalType, parseType, type TypeKind } from '../../../../src/model/types.ts';
import { formatDecimal, parseDecimal } from '../../../../src/model/values/decimal_text.ts';
import { Fault, valueReader } from '../../../../src/model/values/value_validation.ts';
import { parseJson } from '../../../../src/standard/json/parse_json.ts';

export type Numbers = 'number' | 'string';
type Stored = SQLOutputValue;

/** The declared type of a column. Only its affinity matters: that of text and blobs leaves values as they are. */
export const declaredTypes: Readonly<Record<TypeKind, 'INTEGER' | 'TEXT' | 'BLOB'>> = {
  BOOLEAN: 'INTEGER',
  TINYINT: 'INTEGER',
  SMALLINT: 'INTEGER',
  INT: 'INTEGER',
  BIGINT: 'INTEGER',
  LARGEINT: 'TEXT',
  FLOAT: 'BLOB',
  DOUBLE: 'BLOB',
  DECIMAL: 'TEXT',
  DATE: 'TEXT',
  DATETIME: 'TEXT',
  TIMESTAMPTZ: 'TEXT',
  CHAR: 'TEXT',
  VARCHAR: 'TEXT',
  STRING: 'TEXT',
  BINARY: 'BLOB',
  JSON: 'TEXT',
  UUID: 'TEXT',
  ARRAY: 'TEXT',
  MAP: 'TEXT',
  STRUCT: 'TEXT',
};

/** A value that passed validation, to the value in the file. */
export function encode(type: LogicalType, value: unknown): Stored {
  if (value === null || value === undefined) return null;
  switch (type.kind) {
    case 'BOOLEAN':
      return value === true ? 1n : 0n;
    case 'TINYINT':
    case 'SMALLINT':
    case 'INT':
    case 'BIGINT':
      return BigInt(String(value));
    case 'LARGEINT':
      return String(BigInt(String(value)));
    case 'FLOAT':
    case 'DOUBLE':
      return encodeFloat(type.kind, value);
    case 'DECIMAL':
      return canonicalDecimal(String(value));
    case 'DATETIME':
    case 'TIMESTAMPTZ':
      return canonicalTimestamp(String(value));
    case 'BINARY':
      return Buffer.from(String(value), 'base64');
    case 'UUID':
      return String(value).toLowerCase();
    case 'ARRAY':
    case 'MAP':
    case 'STRUCT':
      return jsonOf(type, value, 'number');
    default:
      return String(value);
  }
}

function encodeFloat(kind: 'FLOAT' | 'DOUBLE', value: unknown): number | string {
  if (value === 'NaN') return 'NaN';
  return kind === 'FLOAT' ? Math.fround(Number(value)) : Number(value);
}

function canonicalDecimal(text: string): string {
  const exact = parseDecimal(text);
  return exact === undefined ? text : formatDecimal(exact);
}

/** In UTC if the text has a zone, without it; the fraction without final zeros. So texts have the order of their times. */
function canonicalTimestamp(text: string): string {
  const [, date = '', time = '', fraction = '', zone = ''] =
    /^(.{10})[T ](.{8})(?:\.(\d*))?(Z|[+-]\d\d:\d\d)?$/.exec(text) ?? [];
  const digits = fraction.replace(/0+$/, '');
  const local = `${date}T${time}`;
  const utc = zone === '' || zone === 'Z' ? local : new Date(`${local}${zone}`).toISOString().slice(0, 19);
  return digits === '' ? utc : `${utc}.${digits}`;
}

/** The JSON text of a value that passed validation, in the form of responses. */
export function jsonOf(type: LogicalType, value: unknown, numbers: Numbers): string {
  if (value === null || value === undefined) return 'null';
  switch (type.kind) {
    case 'JSON':
      return String(value);
    case 'ARRAY':
      return `[${(value as unknown[]).map((item) => jsonOf(type.element, item, numbers)).join(',')}]`;
    case 'MAP': {
      const entries = value as { readonly key: unknown; readonly value: unknown }[];
      const textOf = (entry: (typeof entries)[number]) =>
        `{"key":${jsonOf(type.key, entry.key, numbers)},"value":${jsonOf(type.value, entry.value, numbers)}}`;
      return `[${entries.map(textOf).join(',')}]`;
    }
    case 'STRUCT': {
      const fields = value as Readonly<Record<string, unknown>>;
      const texts = type.fields.map((field) => {
        return `${JSON.stringify(field.name)}:${jsonOf(field.type, fields[field.name], numbers)}`;
      });
      return `{${texts.join(',')}}`;
    }
    default:
      return storedJson(type, encode(type, value), numbers);
  }
}

/** The JSON text of a value in the file. `type`: undefined for the value of an expression. */
export function storedJson(type: LogicalType | undefined, stored: Stored, numbers: Numbers): string {
  if (stored === null) return 'null';
  switch (type?.kind) {
    case undefined:
      return dynamicJson(stored, numbers);
    case 'BOOLEAN':
      return String(stored === 1n);
    case 'BIGINT':
    case 'LARGEINT':
      return numbers === 'string' ? `"${stored}"` : String(stored);
    case 'TINYINT':
    case 'SMALLINT':
    case 'INT':
      return String(stored);
    case 'FLOAT':
    case 'DOUBLE':
      return floatJson(type.kind, stored);
    case 'DECIMAL': {
      const text = withScale(String(stored), type.scale);
      return numbers === 'string' ? `"${text}"` : text;
    }
    case 'TIMESTAMPTZ':
      return JSON.stringify(`${stored}Z`);
    case 'BINARY':
      return dynamicJson(stored, numbers);
    case 'JSON':
      return String(stored);
    case 'ARRAY':
    case 'MAP':
    case 'STRUCT':
      return numbers === 'number' ? String(stored) : jsonOf(type, validValue(type, stored), numbers);
    default:
      return JSON.stringify(String(stored));
  }
}

function withScale(text: string, scale: number): string {
  const [whole = '0', fraction = ''] = text.split('.');
  return scale === 0 ? whole : `${whole}.${fraction.padEnd(scale, '0')}`;
}

function dynamicJson(stored: Exclude<Stored, null>, numbers: Numbers): string {
  if (typeof stored === 'bigint') return numbers === 'string' ? `"${stored}"` : String(stored);
  if (typeof stored === 'number') return floatJson('DOUBLE', stored);
  return JSON.stringify(typeof stored === 'string' ? stored : Buffer.from(stored).toString('base64'));
}

function floatJson(kind: 'FLOAT' | 'DOUBLE', stored: Exclude<Stored, null>): string {
  const number = Number(stored);
  if (!Number.isFinite(number)) return JSON.stringify(String(number));
  if (Object.is(number, -0)) return '-0.0';
  return kind === 'DOUBLE' ? String(number) : shortestFloat(number);
}

/** The shortest text that represents the same 32-bit number. */
function shortestFloat(number: number): string {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(number.toPrecision(digits));
    if (Math.fround(short) === number) return String(short);
  }
  return String(number);
}

/** A value in the file, in the form in which it passed validation. */
function validValue(type: LogicalType, stored: Stored): unknown {
  return valueReader(type)(parseJson(storedJson(type, stored, 'number')));
}

/** Whether a value in a column of this type is in its canonical form: what a statement wrote may be anything. */
export function isCanonical(typeText: string, stored: Stored): boolean {
  const type = parseType(typeText);
  try {
    if (type.kind === 'FLOAT' || type.kind === 'DOUBLE')
      return stored === 'NaN' || (typeof stored === 'number' && Object.is(encodeFloat(type.kind, stored), stored));
    if (type.kind === 'BINARY') return stored instanceof Uint8Array;
    if (type.kind === 'JSON') return typeof stored === 'string' && parseJson(stored) !== undefined;
    const value = validValue(type, stored);
    if (value instanceof Fault) return false;
    const canonical = encode(type, value);
    return type.kind === 'BOOLEAN' ? stored === 1n || stored === 0n : Object.is(canonical, stored);
  } catch {
    return false;
  }
}

const isNumber = ({ kind }: LogicalType): boolean => /INT$|^DECIMAL$|^FLOAT$|^DOUBLE$/.test(kind);

/** Reads a text, such as a field of a CSV file, as a value of a type. @returns a value that passed validation, or a Fault. */
export function fromText(type: LogicalType, text: string): unknown {
  const read = valueReader(type);
  if (type.kind === 'BOOLEAN') return /^(?:true|false)$/i.test(text) ? text.toLowerCase() === 'true' : read(text);
  if (type.kind === 'JSON' || isNested(type) || isNumber(type)) return fromJson(type, parsed(text));
  return read(text);
}

function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** Like `fromText`, for a value of a JSON file, where a map can be an object. */
export function fromJson(type: LogicalType, json: unknown): unknown {
  if (json === null) return null;
  if (type.kind === 'MAP' && typeof json === 'object' && !Array.isArray(json) && !JSON.isRawJSON(json))
    return fromJson(
      type,
      Object.entries(json).map(([key, value]) => ({ key, value })),
    );
  return valueReader(type)(json);
}

/** Converts a value in the file from one type to another, by its text. @returns undefined if it does not fit. */
export function converted(from: LogicalType, to: LogicalType, stored: Stored): Stored | undefined {
  if (stored === null || formatType(from) === formatType(to)) return stored;
  if (from.kind === 'FLOAT' && to.kind === 'DOUBLE') return stored;
  if (from.kind === 'DATE' && to.kind === 'DATETIME') return `${stored}T00:00:00`;
  const json = storedJson(from, stored, 'number');
  const value = isNested(from) && isNested(to) ? fromJson(to, parseJson(json)) : fromText(to, textOf(json));
  return value instanceof Fault ? undefined : encode(to, value);
}

const textOf = (json: string): string => (json.startsWith('"') ? String(parseJson(json)) : json);
