// Columns that servers cannot read from rows or from texts of their own: a decimal within an array, map or struct that may be null, or a boolean as
// the key of a map, is not accepted there, and older servers read floating-point numbers inexactly. They are read as texts and converted by an
// expression.
import type { ColumnDefinition } from '../../../model/records.ts';
import { holdsType, isNested, jsonForms, type LogicalType } from '../../../model/types.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { serverType } from './type_mapping.ts';

type Condition = (type: LogicalType) => boolean;

const isFloat: Condition = ({ kind }) => kind === 'FLOAT' || kind === 'DOUBLE';
const isDecimal: Condition = ({ kind }) => kind === 'DECIMAL';
const hasBooleanKey: Condition = (type) => type.kind === 'MAP' && type.key.kind === 'BOOLEAN';
const isDecimalOrBoolean: Condition = (type) => isDecimal(type) || type.kind === 'BOOLEAN';
const isNumber: Condition = ({ kind }) => jsonForms[kind] === 'number' || jsonForms[kind] === 'float';

/**
 * Whether a server reads each number of a row as the nearest one that its type has. Servers of 24.8 read `5e-324` as 0, those of 26.7 do; of those
 * between it is not known. A conversion of a text is exact on all of them (`precise_float_parsing`).
 */
export function readsFloatsExactly(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 26 || (major === 26 && minor >= 7);
}

export interface Reader {
  /** See `readsFloatsExactly`. */
  readonly exactFloats: boolean;
}

/** Whether a server cannot read a value as it is. */
export const needsReading = (type: LogicalType, nullable: boolean, { exactFloats }: Reader): boolean =>
  hasUnreadable(type, nullable) || holdsType(type, hasBooleanKey) || (!exactFloats && holdsType(type, isFloat));

/** Whether a decimal is within a value that may be null and is no decimal itself. */
function hasUnreadable(type: LogicalType, nullable: boolean): boolean {
  if (!isNested(type) || !holdsType(type, isDecimal)) return false;
  if (nullable) return true;
  if (type.kind === 'ARRAY') return hasUnreadable(type.element, true);
  if (type.kind === 'MAP') return hasUnreadable(type.value, true) || hasUnreadable(type.key, false);
  return type.kind === 'STRUCT' && type.fields.some((field) => hasUnreadable(field.type, true));
}

/** The same type with texts in the place of what is read as texts. */
function readType(type: LogicalType, isText: Condition): LogicalType {
  if (isText(type)) return { kind: 'STRING' };
  const part = (inner: LogicalType) => readType(inner, isText);
  switch (type.kind) {
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
  /** Whether values of a type are texts. */
  readonly isText: Condition;
  readonly depth: number;
}

/** The value of a type, from one some of whose parts are texts (`readType`). */
function converted(type: LogicalType, nullable: boolean, x: string, place: Place): string {
  if (!holdsType(type, place.isText)) return x;
  const target = quoteLiteral(serverType(type, nullable));
  if (!isNested(type)) return `CAST(${x}, ${target})`;
  if (!nullable) return convertedParts(type, x, place);
  const inner = `variantElement(${x}, ${quoteLiteral(serverType(readType(type, place.isText), false))})`;
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
 * one is a column `omitted_<index>` of 0 or 1 after the others.
 */
export function readValues(
  columns: readonly Pick<ColumnDefinition, 'type' | 'nullable' | 'defaultValue'>[],
  omittedColumns: readonly number[],
  { exactFloats = true }: Partial<Reader> = {},
): ReadValues | undefined {
  const isText: Condition = (type) => isDecimalOrBoolean(type) || (!exactFloats && isFloat(type));
  if (!columns.some(({ type, nullable }) => needsReading(type, nullable, { exactFloats }))) return undefined;
  const inputs = columns.map(({ type }, i) => `c${i} ${serverType(readType(type, isText), true)}`);
  const flags = omittedColumns.map((i) => `omitted_${i} UInt8`);
  const values = columns.map(({ type, nullable, defaultValue }, i) => {
    // Nulls are refused by the table where the column has none.
    const value = converted(type, true, `c${i}`, { isText, depth: 0 });
    if (!omittedColumns.includes(i)) return value;
    const stored = quoteLiteral(serverType(type, nullable));
    return `if(omitted_${i}, CAST((${defaultValue ?? 'NULL'}\n), ${stored}), CAST(${value}, ${stored}))`;
  });
  return { structure: [...inputs, ...flags].join(', '), values };
}

/** In hexadecimal: a quoted text, a number, or another character of the text of a value. */
const tokens = String.raw`27(?:5C..|[0-13-46-9A-F].|2[^7]|5[^C])*27|(?:2D)?(?:6E616E|696E66|3\d(?:3\d|2[BDE]|65)*)|..`;
const numberToken = String.raw`^(?:2D)?(?:6E616E|696E66|3\d)`;

/**
 * The value of which a server has written `toString(tuple(value))`, which it cannot read itself (`needsReading`). `hexText`: that text in
 * hexadecimal, because it may not be in UTF-8, and regular expressions match UTF-8 only.
 */
export function valueOfTupleText(type: LogicalType, nullable: boolean, hexText: string): string {
  const quoted = `if(match(t, ${quoteLiteral(numberToken)}), concat('27', t, '27'), t)`;
  const text = `unhex(arrayStringConcat(arrayMap(t -> ${quoted}, extractAll(${hexText}, ${quoteLiteral(tokens)}))))`;
  const value = `tupleElement(CAST(${text} AS Tuple(${serverType(readType(type, isNumber), nullable)})), 1)`;
  // The value is repeated in the expression for its parts.
  return `arrayMap(v -> ${converted(type, nullable, 'v', { isText: isNumber, depth: 0 })}, [${value}])[1]`;
}

/** `(a, b) SELECT ... FROM input(...)`. */
export const readingSql = ({ structure, values }: ReadValues): string =>
  `SELECT ${values.join(', ')} FROM input(${quoteLiteral(structure)})`;
