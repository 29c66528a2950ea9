// The values of a file whose texts have their usual forms, such as `1.50` or `2026-01-31T10:00:00`: one conversion and one comparison for each
// value. They are those of text_values.ts; a text in another form counts as a fault, after which the file is read again with all forms.
import type { LogicalType } from '../../../model/types.ts';
import { lineBytesMax } from '../../data_files/csv_lines.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { serverType } from '../types/type_mapping.ts';
import type { MappedColumn } from './column_mapping.ts';
import type { FileShape } from './file_shape.ts';
import type { RawColumn } from './row_values.ts';

export interface UsualRow {
  /** In the order of the columns; null where the value is null or has a fault. */
  readonly values: readonly string[];
  /** Whether a value of the row has a fault. */
  readonly fault: string;
}

/** A value, and whether its text is in the usual form. `s`: the text, not null. */
interface Form {
  readonly value: string;
  readonly isUsual: string;
}

/** Every branch of an expression is computed for all rows: they have none. */
export const usualSettings = { short_circuit_function_evaluation: 'disable' } as const;

/** Undefined if the columns need more than one conversion. */
export function usualRow(
  { csv }: FileShape,
  mapped: readonly MappedColumn[],
  raws: readonly RawColumn[],
): UsualRow | undefined {
  if (csv.dateFormat !== undefined || csv.timestampFormat !== undefined || csv.decimalSeparator === ',')
    return undefined;
  const values: string[] = [];
  const faults: string[] = [];
  for (const { column, source } of mapped) {
    const raw = source && raws.find(({ file }) => file.name === source.name);
    if (!raw || raw.form.kind === 'value') return undefined;
    const isNull = raw.form.kind === 'text' ? `(${raw.name} = ${raw.form.nullText})` : `isNull(${raw.name})`;
    const text = raw.form.kind === 'text' ? raw.name : `assumeNotNull(${raw.name})`;
    const form = formOf(column.type, text);
    if (!form) return undefined;
    const value = `${quoteIdentifier(`_value_${values.length}`)}`;
    faults.push(`(isNull(${value}) != ${isNull})`, `NOT (${form.isUsual} OR ${isNull})`);
    if (!column.nullable) faults.push(isNull);
    values.push(`if(${isNull}, NULL, ${form.value}) AS ${value}`);
  }
  return { values, fault: faults.join(' OR ') };
}

/** Undefined for a type without such a form. */
function formOf(type: LogicalType, s: string): Form | undefined {
  switch (type.kind) {
    case 'BOOLEAN':
      return { value: `CAST(${s} = 'true', 'Nullable(Bool)')`, isUsual: `${s} IN ('true', 'false')` };
    case 'TINYINT':
    case 'SMALLINT':
    case 'INT':
    case 'BIGINT':
      return { value: `to${serverType(type, false)}OrNull(${s})`, isUsual: '1' };
    case 'FLOAT':
    case 'DOUBLE': {
      const value = `to${serverType(type, false)}OrNull(${s})`;
      return { value, isUsual: `isFinite(assumeNotNull(${value}))` };
    }
    case 'DECIMAL':
      return decimalForm(type, s);
    case 'DATE': {
      const value = `toDate32OrNull(${s})`;
      return { value, isUsual: `toString(assumeNotNull(${value})) = ${s}` };
    }
    case 'DATETIME':
      return timeForm(s, s);
    case 'TIMESTAMPTZ': {
      const { value, isUsual } = timeForm(`substring(${s}, 1, length(${s}) - 1)`, s);
      return { value, isUsual: `endsWith(${s}, 'Z') AND ${isUsual}` };
    }
    case 'VARCHAR':
    case 'CHAR':
      return { value: `toNullable(${s})`, isUsual: `isValidUTF8(${s}) AND lengthUTF8(${s}) <= ${type.length}` };
    case 'STRING':
      return { value: `toNullable(${s})`, isUsual: `isValidUTF8(${s}) AND length(${s}) <= ${lineBytesMax}` };
    case 'UUID':
      return { value: `toUUIDOrNull(${s})`, isUsual: `length(${s}) = 36` };
    default:
      return undefined;
  }
}

function decimalForm({ precision, scale }: { readonly precision: number; readonly scale: number }, s: string): Form {
  const width = precision <= 18 ? 18 : 38;
  const value = `toDecimal${width === 18 ? 64 : 128}OrNull(${s}, ${scale})`;
  const limit = `CAST('1${'0'.repeat(precision - scale)}' AS Decimal(${width}, ${scale}))`;
  const isInRange =
    precision === width ? '' : ` AND assumeNotNull(${value}) < ${limit} AND assumeNotNull(${value}) > -${limit}`;
  const fraction = scale === 0 ? '' : `([.][0-9]{1,${scale}})?`;
  return { value, isUsual: `match(${s}, '^-?[0-9]+${fraction}$')${isInRange}` };
}

/** `local`: the text without a zone. */
function timeForm(local: string, s: string): Form {
  const value = `toDateTime64OrNull(${local}, 6, 'UTC')`;
  const isSame = `startsWith(toString(assumeNotNull(${value})), translate(${local}, 'T', ' '))`;
  return {
    value,
    isUsual: `length(${local}) BETWEEN 10 AND 26 AND ${s} >= '1900' AND ${s} < '2300' AND ${isSame}`,
  };
}
