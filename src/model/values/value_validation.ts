// The accepted JSON values of each logical type (rest-standard B7), and the form in which they are passed to an engine. A value that must
// not become a double is passed as a string. Rows are checked in row_validation.ts.
import { formatType, type LogicalType, type ScalarKind } from '../types.ts';
import { formatDecimal, parseDecimal } from './decimal_text.ts';
import { escapePointer } from './json_pointer.ts';

/** A violation in a value. `pointer` leads from the value to the violation, such as `/3/value`. */
export class Fault {
  readonly pointer: string;
  readonly rule: string;
  readonly message: string;

  constructor(rule: string, message: string, pointer = '') {
    this.rule = rule;
    this.message = message;
    this.pointer = pointer;
  }

  /** The same violation with a pointer from one level further out. */
  under(segment: string | number): Fault {
    return new Fault(this.rule, this.message, `/${escapePointer(String(segment))}${this.pointer}`);
  }
}

/** Takes a value as returned by parseJson, never null; returns the value to pass on, or a Fault. */
export type ValueReader = (value: unknown) => unknown;

export function valueReader(type: LogicalType): ValueReader {
  switch (type.kind) {
    case 'DECIMAL':
      return decimalReader(type.precision, type.scale);
    case 'CHAR':
    case 'VARCHAR':
      return textReader(type.length);
    case 'ARRAY':
      return arrayReader(type.element);
    case 'MAP':
      return mapReader(type.key, type.value);
    case 'STRUCT':
      return structReader(type.fields);
    default:
      return scalarReaders[type.kind];
  }
}

function describeValue(value: unknown): string {
  if (JSON.isRawJSON(value)) return value.rawJSON.length > 50 ? 'a number' : value.rawJSON;
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return value === null ? 'null' : 'an object';
  const text = JSON.stringify(value);
  return text.length > 50 ? `${text.slice(0, 50)}...` : text;
}

const wrongType = (expected: string, value: unknown): Fault =>
  new Fault('type', `must be ${expected}, not ${describeValue(value)}`);

const booleanReader: ValueReader = (value) => (typeof value === 'boolean' ? value : wrongType('true or false', value));

/**
 * The exact text of a number (parseJson returns a double only if it prints as the same text), or of a string that the query API returns
 * for a number (`"numbers": "string"`).
 */
function numberText(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  if (JSON.isRawJSON(value)) return value.rawJSON;
  return typeof value === 'string' && /^-?\d{1,100}(?:\.\d{1,100})?$/.test(value) ? value : undefined;
}

function integerReader(bits: number): ValueReader {
  const least = -(2n ** BigInt(bits - 1));
  const most = 2n ** BigInt(bits - 1) - 1n;
  const safeLeast = Math.max(Number(least), Number.MIN_SAFE_INTEGER);
  const safeMost = Math.min(Number(most), Number.MAX_SAFE_INTEGER);
  return (value) => {
    if (typeof value === 'number' && value >= safeLeast && value <= safeMost && Number.isInteger(value)) return value;
    const text = numberText(value);
    if (text === undefined) return wrongType('an integer', value);
    const exact = parseDecimal(text);
    if (exact !== undefined && exact.fraction !== '')
      return new Fault('type', `must be an integer, not ${describeValue(value)}`);
    const integer = exact === undefined || exact.whole.length > 40 ? undefined : BigInt(formatDecimal(exact));
    if (integer === undefined || integer < least || integer > most) {
      return new Fault('range', `${describeValue(value)} is out of range: ${least} to ${most}`);
    }
    return String(integer);
  };
}

/**
 * The text of a double with at most `scale` digits after the point, undefined for any other: without an exponent it has no superfluous
 * zeros, so that it need not be parsed.
 */
function shortDecimal(value: number, scale: number): string | undefined {
  const text = String(value);
  const point = text.indexOf('.');
  return point > 0 && text.length - point - 1 <= scale && !text.includes('e') ? text : undefined;
}

function decimalReader(precision: number, scale: number): ValueReader {
  const limit = 10 ** (precision - scale);
  const name = `DECIMAL(${precision},${scale})`;
  return (value) => {
    if (typeof value === 'number' && value < limit && value > -limit) {
      if (Number.isSafeInteger(value)) return value;
      const short = shortDecimal(value, scale);
      if (short !== undefined) return short;
    }
    const text = numberText(value);
    if (text === undefined) return wrongType('a number', value);
    const exact = parseDecimal(text);
    if (exact === undefined) return new Fault('range', `${describeValue(value)} is out of range for ${name}`);
    if (exact.whole.length > precision - scale) {
      return new Fault('range', `${describeValue(value)} has too many digits before the point for ${name}`);
    }
    if (exact.fraction.length > scale) {
      return new Fault('scale', `${describeValue(value)} has too many digits after the point for ${name}`);
    }
    return formatDecimal(exact);
  };
}

const floatMax = 3.4028234663852886e38;

/** `round`: to the nearest number of the type. The greatest FLOAT is shown with fewer digits (3.4028235e38), which round to it. */
function floatReader(most: number, round: (number: number) => number): ValueReader {
  return (value) => {
    const given = JSON.isRawJSON(value) ? Number(value.rawJSON) : value;
    const number = typeof given === 'number' && Math.abs(given) > most ? round(given) : given;
    if (typeof number === 'number') {
      if (!(Math.abs(number) <= most))
        return new Fault('range', `${describeValue(value)} is out of range for the type`);
      // JSON.stringify would write 0.
      return Object.is(number, -0) ? '-0.0' : number;
    }
    if (number === 'NaN' || number === 'Infinity' || number === '-Infinity') return number;
    return wrongType('a number, "NaN", "Infinity" or "-Infinity"', value);
  };
}

function textReader(lengthMax: number): ValueReader {
  return (value) => {
    if (typeof value !== 'string') return wrongType('a string', value);
    if (!value.isWellFormed()) return new Fault('unicode', 'the string is not well-formed Unicode');
    if (value.length > lengthMax && characters(value) > lengthMax) {
      return new Fault('length', `the string has ${characters(value)} characters; the limit is ${lengthMax}`);
    }
    return value;
  };
}

/** Code points of a well-formed string. */
function characters(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xd800) count--;
  return count;
}

const monthDays = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Whether the first ten characters are a calendar date from 0001-01-01 to 9999-12-31. */
function startsWithDate(text: string): boolean {
  const year = digits(text, 0, 4);
  const month = digits(text, 5, 2);
  const day = digits(text, 8, 2);
  if (!(year >= 1 && month >= 1 && month <= 12 && day >= 1)) return false;
  if (text.charCodeAt(4) !== 45 || text.charCodeAt(7) !== 45) return false;
  const leap = month === 2 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day <= (leap ? 29 : monthDays[month - 1]!);
}

/** The number represented by `count` ASCII digits, or NaN. */
function digits(text: string, from: number, count: number): number {
  let number = 0;
  for (let i = from; i < from + count; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (!(digit >= 0 && digit <= 9)) return Number.NaN;
    number = number * 10 + digit;
  }
  return number;
}

const dateReader: ValueReader = (value) => {
  if (typeof value !== 'string') return wrongType('a date such as "2026-01-31"', value);
  if (value.length === 10 && startsWithDate(value)) return value;
  return new Fault('format', `must be a date such as "2026-01-31", not ${describeValue(value)}`);
};

/** The date is checked by `startsWithDate`. */
const localTime = String.raw`^.{10}[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6}0*)?`;
const localTimestamp = new RegExp(`${localTime}$`);
const zonedTimestamp = new RegExp(String.raw`${localTime}(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)$`);

function timestampReader(example: string, zoned: boolean): ValueReader {
  const form = zoned ? zonedTimestamp : localTimestamp;
  return (value) => {
    if (typeof value !== 'string') return wrongType(`a timestamp such as "${example}"`, value);
    const isDated = value.length <= 48 && startsWithDate(value);
    if (isDated && form.test(value)) return value;
    const reason = isDated && zonedTimestamp.test(value) ? 'the type has no time zone: ' : '';
    return new Fault('format', `${reason}must be a timestamp such as "${example}", not ${describeValue(value)}`);
  };
}

const base64Reader: ValueReader = (value) => {
  if (typeof value !== 'string') return wrongType('a base64 string', value);
  const padding = value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0;
  const body = padding === 0 ? value : value.slice(0, -padding);
  if (value.length % 4 === 0 && !/[^A-Za-z0-9+/]/.test(body)) return value;
  return new Fault('format', 'must be base64 with padding (RFC 4648, section 4)');
};

/** A JSON column stores the text of its value, so the text is passed on as a string and never parsed as numbers. */
const jsonReader: ValueReader = (value) => {
  const text = JSON.stringify(value);
  // JSON.stringify escapes lone surrogates in this form, and nothing else.
  if (/\\ud[89a-f]/.test(text) && !JSON.stringify(JSON.parse(text), wellFormed).isWellFormed()) {
    return new Fault('unicode', 'a string in the value is not well-formed Unicode');
  }
  return text;
};

function wellFormed(key: string, value: unknown): unknown {
  const isIntact = key.isWellFormed() && (typeof value !== 'string' || value.isWellFormed());
  // Only rawJSON can make JSON.stringify emit a raw lone surrogate.
  return isIntact ? value : JSON.rawJSON('"\ud800"');
}

const uuidReader: ValueReader = (value) =>
  typeof value === 'string' && /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(value)
    ? value
    : wrongType('a UUID such as "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"', value);

const scalarReaders: Record<ScalarKind, ValueReader> = {
  BOOLEAN: booleanReader,
  TINYINT: integerReader(8),
  SMALLINT: integerReader(16),
  INT: integerReader(32),
  BIGINT: integerReader(64),
  LARGEINT: integerReader(128),
  FLOAT: floatReader(floatMax, Math.fround),
  DOUBLE: floatReader(Number.MAX_VALUE, (number) => number),
  DATE: dateReader,
  DATETIME: timestampReader('2026-01-31T10:00:00.123456', false),
  TIMESTAMPTZ: timestampReader('2026-01-31T10:00:00.123456Z', true),
  STRING: textReader(Number.POSITIVE_INFINITY),
  BINARY: base64Reader,
  JSON: jsonReader,
  UUID: uuidReader,
};

function arrayReader(element: LogicalType): ValueReader {
  const read = valueReader(element);
  return (value) => {
    if (!Array.isArray(value)) return wrongType(`an array (${formatType({ kind: 'ARRAY', element })})`, value);
    const out: unknown[] = [];
    for (let i = 0; i < value.length; i++) {
      const item = value[i] === null ? null : read(value[i]);
      if (item instanceof Fault) return item.under(i);
      out.push(item);
    }
    return out;
  };
}

function mapReader(key: LogicalType, value: LogicalType): ValueReader {
  const readEntry = structReader([
    { name: 'key', type: key },
    { name: 'value', type: value },
  ]);
  return (entries) => {
    if (!Array.isArray(entries)) return wrongType('an array of {"key": ..., "value": ...}', entries);
    const out: unknown[] = [];
    const keys = new Set<string>();
    for (let i = 0; i < entries.length; i++) {
      const entry = readEntry(entries[i]);
      if (entry instanceof Fault) return entry.under(i);
      const { key: entryKey } = entry as { key: unknown };
      if (entryKey === null) return new Fault('required', 'must not be null', `/${i}/key`);
      const text = JSON.stringify(entryKey);
      if (keys.has(text)) return new Fault('unique', 'is a duplicate key', `/${i}/key`);
      keys.add(text);
      out.push(entry);
    }
    return out;
  };
}

function structReader(fields: readonly { readonly name: string; readonly type: LogicalType }[]): ValueReader {
  const readers = new Map(fields.map((field) => [field.name, valueReader(field.type)]));
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || JSON.isRawJSON(value)) {
      return wrongType('an object', value);
    }
    const unknown = Object.keys(value).find((name) => !readers.has(name));
    if (unknown !== undefined)
      return new Fault('unknownField', 'is not a field of the STRUCT', `/${escapePointer(unknown)}`);
    // Without a prototype, so that a field may be named __proto__.
    const out: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
    for (const [name, read] of readers) {
      const field = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : null;
      const result = field === null ? null : read(field);
      if (result instanceof Fault) return result.under(name);
      out[name] = result;
    }
    return out;
  };
}
