// Infers the logical types of the columns of a file from the texts or JSON values of a sample.
import type { LogicalType } from '../../../model/types.ts';
import { formatType } from '../../../model/types.ts';

const integer = /^[+-]?\d+$/;
const number = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const date = /^(\d{4})-(\d{1,2})-(\d{1,2})$/;
const datetime = /^(\d{4})-(\d{1,2})-(\d{1,2})[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?$/;
const timestamp =
  /^(\d{4})-(\d{1,2})-(\d{1,2})[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?(?:Z|[+-]\d{2}(?::?\d{2})?)$/;
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

const int64 = 2n ** 63n;
const int128 = 2n ** 127n;
/** Longer texts of digits are no integers of any type. */
const digitsMax = 40;

const isDay = (match: RegExpExecArray | null): boolean => {
  if (!match) return false;
  const [year, month, day] = match.slice(1, 4).map(Number) as [number, number, number];
  return month >= 1 && month <= 12 && day >= 1 && day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
};
const isTime = (match: RegExpExecArray | null): boolean =>
  match !== null && Number(match[4]) < 24 && Number(match[5]) < 60 && Number(match[6] ?? 0) < 60;

/** The dates of this engine begin and end there. */
const hasYear = (match: RegExpExecArray | null): boolean => Number(match?.[1]) >= 1900 && Number(match?.[1]) <= 2299;

const fitsIn = (text: string, limit: bigint): boolean => {
  if (text.length > digitsMax) return false;
  const value = BigInt(text.replace('+', ''));
  return value >= -limit && value < limit;
};

interface Candidate {
  readonly type: LogicalType;
  readonly fits: (text: string) => boolean;
}

/** Other ways to write dates, by the format that reads them. */
const dateFormats: readonly (readonly [string, RegExp])[] = [
  ['%Y/%m/%d', /^(\d{4})\/(\d{1,2})\/(\d{1,2})$/],
  ['%d/%m/%Y', /^(?<d>\d{1,2})\/(?<m>\d{1,2})\/(?<y>\d{4})$/],
  ['%m/%d/%Y', /^(?<m>\d{1,2})\/(?<d>\d{1,2})\/(?<y>\d{4})$/],
  ['%d-%m-%Y', /^(?<d>\d{1,2})-(?<m>\d{1,2})-(?<y>\d{4})$/],
  ['%m-%d-%Y', /^(?<m>\d{1,2})-(?<d>\d{1,2})-(?<y>\d{4})$/],
];

const csvCandidates = (decimalSeparator: string): readonly Candidate[] => [
  { type: { kind: 'BOOLEAN' }, fits: (text) => /^(?:true|false)$/i.test(text) },
  { type: { kind: 'BIGINT' }, fits: (text) => integer.test(text) && fitsIn(text, int64) },
  {
    type: { kind: 'DOUBLE' },
    fits: (text) =>
      number.test(decimalSeparator === ',' ? text.replace(',', '.') : text) ||
      /^[+-]?(?:inf|infinity|nan)$/i.test(text),
  },
  { type: { kind: 'DATE' }, fits: (text) => isDay(date.exec(text)) && hasYear(date.exec(text)) },
  {
    type: { kind: 'DATETIME' },
    fits: (text) => isDay(date.exec(text)) || (isDay(datetime.exec(text)) && isTime(datetime.exec(text))),
  },
  {
    type: { kind: 'TIMESTAMPTZ' },
    fits: (text) => isDay(timestamp.exec(text)) && isTime(timestamp.exec(text)),
  },
];

/** Finds the type of a column of CSV: of the texts that it is given, the first one that all of them have. */
export class TextInference {
  #candidates: readonly Candidate[];
  #formats = dateFormats;
  #isEmpty = true;

  constructor(decimalSeparator = '.') {
    this.#candidates = csvCandidates(decimalSeparator);
  }

  add(text: string): void {
    this.#isEmpty = false;
    if (this.#candidates.length > 0) this.#candidates = this.#candidates.filter(({ fits }) => fits(text));
    if (this.#formats.length > 0) this.#formats = this.#formats.filter(([, pattern]) => isDayOf(pattern.exec(text)));
  }

  get type(): LogicalType {
    if (!this.#isEmpty && this.dateFormat !== undefined) return { kind: 'DATE' };
    return this.#isEmpty ? { kind: 'STRING' } : (this.#candidates[0]?.type ?? { kind: 'STRING' });
  }

  /** The format of the dates, unless it is that of ISO 8601. */
  get dateFormat(): string | undefined {
    return this.#isEmpty || this.#candidates.length > 0 ? undefined : this.#formats[0]?.[0];
  }
}

function isDayOf(match: RegExpExecArray | null): boolean {
  if (!match) return false;
  const { y = match[1], m = match[2], d = match[3] } = match.groups ?? {};
  const parts = Object.assign([match[0], y ?? '', m ?? '', d ?? ''], {
    index: 0,
    input: match[0],
  }) as unknown as RegExpExecArray;
  return isDay(parts) && hasYear(parts);
}

/** Objects with more names than this are maps, if their values have one type. */
const fieldsMax = 200;
const json: LogicalType = { kind: 'JSON' };

/** The type of a value of a JSON file, as parsed with exact numbers; undefined for null. */
export function typeOfJson(value: unknown): LogicalType | undefined {
  if (value === null) return undefined;
  if (typeof value === 'boolean') return { kind: 'BOOLEAN' };
  if (typeof value === 'number' || JSON.isRawJSON(value))
    return typeOfNumber(typeof value === 'number' ? String(value) : value.rawJSON);
  if (typeof value === 'string') return typeOfString(value);
  if (Array.isArray(value)) {
    const element = value.map(typeOfJson).reduce(mergedTypes, undefined);
    return { kind: 'ARRAY', element: element ?? json };
  }
  const fields = Object.entries(value as Record<string, unknown>).map(([name, inner]) => ({
    name,
    type: typeOfJson(inner),
  }));
  if (fields.length === 0 || new Set(fields.map(({ name }) => name.toLowerCase())).size < fields.length) return json;
  if (fields.some(({ name }) => name === '')) return json;
  return fields.length > fieldsMax
    ? json
    : { kind: 'STRUCT', fields: fields.map(({ name, type }) => ({ name, type: type ?? json })) };
}

function typeOfNumber(text: string): LogicalType {
  if (!integer.test(text)) return { kind: 'DOUBLE' };
  if (fitsIn(text, int64)) return { kind: 'BIGINT' };
  return fitsIn(text, int128) ? { kind: 'LARGEINT' } : { kind: 'DOUBLE' };
}

function typeOfString(text: string): LogicalType {
  if (isDay(date.exec(text)) && hasYear(date.exec(text))) return { kind: 'DATE' };
  if (isDay(datetime.exec(text)) && isTime(datetime.exec(text))) return { kind: 'DATETIME' };
  if (isDay(timestamp.exec(text)) && isTime(timestamp.exec(text))) return { kind: 'TIMESTAMPTZ' };
  return uuid.test(text) ? { kind: 'UUID' } : { kind: 'STRING' };
}

const numeric = ['BIGINT', 'LARGEINT', 'DOUBLE'];
const textual = ['DATE', 'DATETIME', 'UUID', 'STRING', 'TIMESTAMPTZ'];

/** The type that values of both types have; undefined stands for null. */
export function mergedTypes(a: LogicalType | undefined, b: LogicalType | undefined): LogicalType | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  if (formatType(a) === formatType(b)) return a;
  if (numeric.includes(a.kind) && numeric.includes(b.kind))
    return numeric.indexOf(a.kind) > numeric.indexOf(b.kind) ? a : b;
  if (textual.includes(a.kind) && textual.includes(b.kind)) {
    const kinds = [a.kind, b.kind];
    return kinds.every((kind) => kind === 'DATE' || kind === 'DATETIME') ? { kind: 'DATETIME' } : { kind: 'STRING' };
  }
  if (a.kind === 'ARRAY' && b.kind === 'ARRAY') return { kind: 'ARRAY', element: mergedElements(a.element, b.element) };
  if (a.kind === 'STRUCT' && b.kind === 'STRUCT') return mergedStructs(a.fields, b.fields);
  return json;
}

/** JSON stands for an element that was null or absent so far. */
const mergedElements = (a: LogicalType, b: LogicalType): LogicalType =>
  a.kind === 'JSON' ? b : b.kind === 'JSON' ? a : (mergedTypes(a, b) ?? json);

type Fields = Extract<LogicalType, { kind: 'STRUCT' }>['fields'];

function mergedStructs(a: Fields, b: Fields): LogicalType {
  const merged = new Map(a.map(({ name, type }) => [name, type]));
  for (const { name, type } of b) {
    const known = merged.get(name);
    merged.set(name, known === undefined ? type : mergedElements(known, type));
  }
  const folded = new Set([...merged.keys()].map((name) => name.toLowerCase()));
  if (merged.size > fieldsMax || folded.size < merged.size) return json;
  return { kind: 'STRUCT', fields: [...merged].map(([name, type]) => ({ name, type })) };
}
