// The SQL of a load: for each column of the table its value over a row of the file, and the conditions by which a row does not fit.
import { formatType, isNested, type LogicalType, widens } from '../../../model/types.ts';
import { lineBytesMax } from '../../data_files/csv_lines.ts';
import { dataInvalid } from '../../data_files/load_failures.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { serverType } from '../types/type_mapping.ts';
import type { MappedColumn } from './column_mapping.ts';
import type { FileColumn, FileShape } from './file_shape.ts';
import { type TextForm, UnknownDirective, valueOfText } from './text_values.ts';

/** A column of the file as the source of rows has it. */
export interface RawColumn {
  /** Its name in the source, quoted. */
  readonly name: string;
  readonly file: FileColumn;
  readonly form:
    | { readonly kind: 'text'; readonly nullText: string }
    | { readonly kind: 'nullableText' }
    /** A value of this type already, or null. `isBytes`: of the strings of the server, those that are no text. */
    | { readonly kind: 'value'; readonly type: LogicalType; readonly isBytes: boolean };
}

export interface RowSql {
  readonly columns: readonly {
    readonly mapped: MappedColumn;
    readonly value: string;
    readonly isNull: string;
    /** Not null, and no value of the type. */
    readonly isInvalid: string;
    /** Of an invalid text: it is one, but longer than the column allows. */
    readonly isTooLong: string | undefined;
  }[];
  /** What follows FROM. */
  readonly from: string;
}

const expressionOf = (index: number): string => quoteIdentifier(`_expression_${index}`);

/** Throws INVALID_PARAMETER for a format of dates that is not known. */
export function rowSql(
  { csv }: FileShape,
  mapped: readonly MappedColumn[],
  raws: readonly RawColumn[],
  { source, isJsonChecked }: { readonly source: string; readonly isJsonChecked: boolean },
): RowSql {
  const { dateFormat, timestampFormat, decimalSeparator } = csv;
  const form: TextForm = { dateFormat, timestampFormat, decimalSeparator, isJsonChecked };
  try {
    const columns = mapped.map((column, index) => ({
      mapped: column,
      ...(column.source
        ? valueOfRaw(column.column.type, rawFor(raws, column.source, column.column.type), form)
        : valueOfExpression(column.column.type, expressionOf(index))),
    }));
    return {
      columns,
      from: mapped.some(({ source: from }) => !from) ? withExpressions(source, mapped, raws, form) : source,
    };
  } catch (error) {
    if (!(error instanceof UnknownDirective)) throw error;
    throw dataInvalid(`the engine cannot read dates in a format with ${error.message}`);
  }
}

/** A nested column is in the source once for each type that is asked of it, and as a text. */
function rawFor(raws: readonly RawColumn[], file: FileColumn, type: LogicalType): RawColumn {
  const own = raws.filter((raw) => raw.file.name === file.name);
  const typed = own.find(({ form }) => form.kind === 'value' && formatType(form.type) === formatType(type));
  return (typed ?? own.find(({ form }) => form.kind !== 'value') ?? own[0]) as RawColumn;
}

/** Expressions see the columns of the file under their names and with their inferred types. */
function withExpressions(
  source: string,
  mapped: readonly MappedColumn[],
  raws: readonly RawColumn[],
  form: TextForm,
): string {
  const seen = new Map<string, RawColumn>();
  for (const raw of raws) if (!seen.has(raw.file.name)) seen.set(raw.file.name, rawFor(raws, raw.file, raw.file.type));
  const typed = [...seen.values()].map(
    (raw) => `${valueOfRaw(raw.file.type, raw, form).value} AS ${quoteIdentifier(raw.file.name)}`,
  );
  const passed = raws.map(({ name }) => name);
  const expressions = mapped.flatMap(({ expression }, index) =>
    expression === undefined ? [] : [`(${expression}\n) AS ${expressionOf(index)}`],
  );
  const rows = source.includes(rowNumber) ? [rowNumber, rowText] : [];
  const inner = `SELECT ${[...rows, ...passed, ...typed].join(', ')} FROM ${source}`;
  return `(SELECT ${[...rows, ...passed, ...expressions].join(', ')} FROM (${inner}))`;
}

/** The columns of a checked source with the number and the text of the row in the file. */
export const rowNumber = '`_row_number`';
export const rowText = '`_row_text`';

type Value = Omit<RowSql['columns'][number], 'mapped'>;

function valueOfRaw(type: LogicalType, { name, form: raw, file }: RawColumn, form: TextForm): Value {
  if (raw.kind === 'value') return valueOfValue(type, { name, ...raw }, file);
  const text = raw.kind === 'text' ? name : `assumeNotNull(${name})`;
  const isNull = raw.kind === 'text' ? `(${name} = ${raw.nullText})` : `isNull(${name})`;
  return ofText(type, text, isNull, form);
}

function ofText(type: LogicalType, text: string, isNull: string, form: TextForm): Value {
  const value = `if(${isNull}, NULL, ${valueOfText(type, text, form)})`;
  const isLong = isTextual(type) ? ` OR length(${text}) > ${lineBytesMax}` : '';
  const isTooLong =
    type.kind === 'CHAR' || type.kind === 'VARCHAR'
      ? `(isValidUTF8(${text}) AND lengthUTF8(${text}) > ${type.length})`
      : undefined;
  return { value, isNull, isInvalid: `((NOT ${isNull}) != isNotNull(${value})${isLong})`, isTooLong };
}

const isText = ({ kind }: LogicalType): boolean => kind === 'STRING';
const isTextual = ({ kind }: LogicalType): boolean => /^(?:STRING|JSON|BINARY)$/.test(kind);

function valueOfValue(
  type: LogicalType,
  { name, type: from, isBytes }: { readonly name: string; readonly type: LogicalType; readonly isBytes: boolean },
  file: FileColumn,
): Value {
  const isNull = `isNull(${name})`;
  if (isBytes && type.kind === 'BINARY') return { value: name, isNull, isInvalid: '0', isTooLong: undefined };
  if (!isText(from) && formatType(from) === formatType(type))
    return { value: name, isNull, isInvalid: '0', isTooLong: undefined };
  if (!isText(from) && widens(from, type))
    return { value: `CAST(${name} AS ${serverType(type, true)})`, isNull, isInvalid: '0', isTooLong: undefined };
  if (isNested(from) || isNested(type)) throw unlike(file, from, type);
  return ofText(type, isText(from) ? `assumeNotNull(${name})` : `assumeNotNull(toString(${name}))`, isNull, {});
}

const unlike = ({ name }: FileColumn, from: LogicalType, type: LogicalType) =>
  dataInvalid(
    `the column ${JSON.stringify(name)} of the file is ${formatType(from)}, which cannot be read as ${formatType(type)}`,
    {
      column: name,
    },
  );

function valueOfExpression(type: LogicalType, name: string): Value {
  const isNull = `isNull(${name})`;
  if (isNested(type))
    return { value: `CAST(${name} AS ${serverType(type, true)})`, isNull, isInvalid: '0', isTooLong: undefined };
  return ofText(type, `assumeNotNull(toString(${name}))`, isNull, {});
}

/** The number of faults of a row. */
export const faultCount = ({ columns }: RowSql): string =>
  columns
    .map(({ mapped, isNull, isInvalid }) => (mapped.column.nullable ? isInvalid : `(${isInvalid} OR ${isNull})`))
    .map((condition) => `toUInt8(ifNull(${condition}, 1))`)
    .join(' + ') || '0';

/**
 * Which fault a row has: 0: none; 3n+1, +2, +3: the value of the nth column is invalid, null, or too long.
 */
export function faultExpression({ columns }: RowSql): string {
  const cases = columns.flatMap(({ mapped, isNull, isInvalid, isTooLong }, i) => [
    ...(isTooLong === undefined ? [] : [`NOT (${isNull}) AND ${isTooLong}`, String(3 * i + 3)]),
    isInvalid,
    String(3 * i + 1),
    ...(mapped.column.nullable ? [] : [isNull, String(3 * i + 2)]),
  ]);
  return cases.length === 0 ? '0' : `multiIf(${cases.join(', ')}, 0)`;
}

export function faultReason(fault: number, { columns }: RowSql): { readonly column: string; readonly reason: string } {
  const { mapped } = columns[Math.floor((fault - 1) / 3)] as RowSql['columns'][number];
  const { name, type } = mapped.column;
  const reasons = [
    `the value is none of ${formatType(type)}`,
    'the column is not nullable, and the value is null',
    `the text is longer than ${formatType(type)} takes`,
  ];
  return { column: name, reason: reasons[(fault - 1) % 3] as string };
}
