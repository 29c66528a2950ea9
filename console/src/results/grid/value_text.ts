// Values of results as text: in cells, in files and as SQL literals.
import { ExactNumber, type Value } from '../../../../src/client/index.ts';

/** JSON of a value, with wide integers and numbers exactly as they are. */
export function jsonOf(value: Value, indent = ''): string {
  if (value === null) return 'null';
  if (typeof value === 'bigint') return String(value);
  if (value instanceof ExactNumber) return value.text;
  if (typeof value !== 'object') return JSON.stringify(value);
  if (value instanceof Uint8Array) return JSON.stringify(hexOf(value));
  const inner = indent === '' ? '' : `${indent}  `;
  const [open, separator, close] = indent === '' ? ['', ', ', ''] : [inner, `,${inner}`, indent];
  const parts = entriesOf(value).map(([name, item]) => (name === undefined ? '' : `${name}: `) + jsonOf(item, inner));
  const [left, right] = Array.isArray(value) ? '[]' : '{}';
  return parts.length === 0 ? `${left}${right}` : `${left}${open}${parts.join(separator)}${close}${right}`;
}

function entriesOf(value: object): readonly (readonly [string | undefined, Value])[] {
  if (Array.isArray(value)) return value.map((item: Value) => [undefined, item]);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return entries.map(([name, item]) => [typeof name === 'string' ? JSON.stringify(name) : jsonOf(name), item]);
}

const hexOf = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** As a cell shows it; null is shown by the cell itself. */
export function textOf(value: Value): string {
  if (typeof value === 'string') return value;
  return value !== null && typeof value === 'object' ? jsonOf(value) : String(value);
}

const numberType = /^(TINYINT|SMALLINT|INT|BIGINT|LARGEINT|FLOAT|DOUBLE|DECIMAL)/;
export const isNumberType = (type: string): boolean => numberType.test(type);
export const isNestedType = (type: string): boolean => /^(ARRAY|STRUCT|MAP|JSON)/.test(type);
export const isTimeType = (type: string): boolean => /^(DATE|DATETIME|TIMESTAMPTZ)/.test(type);

/** A literal that has the same value in SQL. */
export function literalOf(value: Value, type: string): string {
  if (value === null) return 'NULL';
  if (typeof value === 'boolean' || typeof value === 'number' || typeof value === 'bigint') return String(value);
  if (isNumberType(type)) return String(value);
  return `'${textOf(value).replaceAll("'", "''")}'`;
}

const plainName = /^[a-z_][a-z0-9_]*$/;
const reservedWords = new Set(
  `all analyse analyze and any array as asc asymmetric at both case cast check collate column constraint create default deferrable desc
  describe distinct do else end except false fetch for foreign from group having in initially intersect into lambda lateral leading
  limit not null offset on only or order pivot pivot_longer pivot_wider placing primary qualify references returning select show some
  summarize symmetric table then to trailing true union unique unpivot using variadic when where window with`.split(
    /\s+/,
  ),
);

/** A name in quotes, which no keyword of the engine can be taken for. */
export const quotedName = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** A name as people write it: quoted unless it is plain. */
export const quoteName = (name: string): string =>
  plainName.test(name) && !reservedWords.has(name) ? name : quotedName(name);
