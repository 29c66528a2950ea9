// Columns that servers cannot read from rows: a decimal within an array, map or struct that may be null is not accepted there, and older servers
// read floating-point numbers inexactly. Such numbers are read as texts and converted by an expression.
import type { ColumnDefinition } from '../../../model/records.ts';
import { holdsType, type LogicalType } from '../../../model/types.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { serverType } from './type_mapping.ts';

const isNested = (type: LogicalType): boolean => type.kind === 'ARRAY' || type.kind === 'MAP' || type.kind === 'STRUCT';
const isFloat = ({ kind }: LogicalType): boolean => kind === 'FLOAT' || kind === 'DOUBLE';
const holdsFloat = (type: LogicalType): boolean => holdsType(type, isFloat);
const holdsDecimal = (type: LogicalType): boolean => holdsType(type, ({ kind }) => kind === 'DECIMAL');

/**
 * Whether a server reads each number of a row as the nearest one that its type has. Servers of 24.8 read `5e-324` as 0, those of 26.7 do; of those
 * between it is not known. A conversion of a text is exact on all of them (`precise_float_parsing`).
 */
export function readsFloatsExactly(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 26 || (major === 26 && minor >= 7);
}

/** Whether a decimal is within a value that may be null and is no decimal itself. */
function needsReading(type: LogicalType, nullable: boolean): boolean {
  if (!isNested(type) || !holdsDecimal(type)) return false;
  if (nullable) return true;
  if (type.kind === 'ARRAY') return needsReading(type.element, true);
  if (type.kind === 'MAP') return needsReading(type.value, true) || needsReading(type.key, false);
  return type.kind === 'STRUCT' && type.fields.some((field) => needsReading(field.type, true));
}

/** The same type with texts instead of decimals and, `withFloats`, of floating-point numbers. */
function readType(type: LogicalType, withFloats: boolean): LogicalType {
  if (isFloat(type)) return withFloats ? { kind: 'STRING' } : type;
  const part = (inner: LogicalType) => readType(inner, withFloats);
  switch (type.kind) {
    case 'DECIMAL':
      return { kind: 'STRING' };
    case 'ARRAY':
      return { kind: 'ARRAY', element: part(type.element) };
    case 'MAP':
      return { kind: 'MAP', key: part(type.key), value: part(type.value) };
    case 'STRUCT':
      return { kind: 'STRUCT', fields: type.fields.map(({ name, type: field }) => ({ name, type: part(field) })) };
    default:
      return type;
  }
}

interface Place {
  readonly withFloats: boolean;
  readonly depth: number;
}

/** The value of a type, from one whose numbers are texts (`readType`). */
function converted(type: LogicalType, nullable: boolean, x: string, place: Place): string {
  if (!holdsDecimal(type) && !(place.withFloats && holdsFloat(type))) return x;
  const target = quoteLiteral(serverType(type, nullable));
  if (!isNested(type)) return `CAST(${x}, ${target})`;
  if (!nullable) return convertedParts(type, x, place);
  const inner = `variantElement(${x}, ${quoteLiteral(serverType(readType(type, place.withFloats), false))})`;
  return `if(isNull(${x}), NULL, CAST(${convertedParts(type, inner, place)}, ${target}))`;
}

function convertedParts(type: LogicalType, x: string, place: Place): string {
  const e = `e${place.depth}`;
  const within = { ...place, depth: place.depth + 1 };
  const each = (part: LogicalType, nullable: boolean, list: string) =>
    `arrayMap(${e} -> ${converted(part, nullable, e, within)}, ${list})`;
  if (type.kind === 'ARRAY') return each(type.element, true, x);
  if (type.kind === 'MAP')
    return `mapFromArrays(${each(type.key, false, `mapKeys(${x})`)}, ${each(type.value, true, `mapValues(${x})`)})`;
  const fields = type.kind === 'STRUCT' ? type.fields : [];
  const values = fields.map((field, i) => converted(field.type, true, `tupleElement(${x}, ${i + 1})`, place));
  return `CAST(tuple(${values.join(', ')}), ${quoteLiteral(serverType(type, false))})`;
}

export interface ReadValues {
  /** Of `input(...)`. */
  readonly structure: string;
  /** The values of the columns in their order. */
  readonly values: readonly string[];
}

/**
 * How rows in JSON are read that servers cannot read as they are; undefined if they can. `omittedColumns`: by their indexes; whether a row omits
 * one is a column `omitted_<index>` of 0 or 1 after the others. `exactFloats`: see `readsFloatsExactly`.
 */
export function readValues(
  columns: readonly Pick<ColumnDefinition, 'type' | 'nullable' | 'defaultValue'>[],
  omittedColumns: readonly number[],
  { exactFloats = true } = {},
): ReadValues | undefined {
  const withFloats = !exactFloats;
  if (!columns.some(({ type, nullable }) => needsReading(type, nullable) || (withFloats && holdsFloat(type))))
    return undefined;
  const inputs = columns.map(({ type }, i) => `c${i} ${serverType(readType(type, withFloats), true)}`);
  const flags = omittedColumns.map((i) => `omitted_${i} UInt8`);
  const values = columns.map(({ type, nullable, defaultValue }, i) => {
    // Nulls are refused by the table where the column has none.
    const value = converted(type, true, `c${i}`, { withFloats, depth: 0 });
    if (!omittedColumns.includes(i)) return value;
    const stored = quoteLiteral(serverType(type, nullable));
    return `if(omitted_${i}, CAST((${defaultValue ?? 'NULL'}\n), ${stored}), CAST(${value}, ${stored}))`;
  });
  return { structure: [...inputs, ...flags].join(', '), values };
}

/** `(a, b) SELECT ... FROM input(...)`. */
export const readingSql = ({ structure, values }: ReadValues): string =>
  `SELECT ${values.join(', ')} FROM input(${quoteLiteral(structure)})`;
