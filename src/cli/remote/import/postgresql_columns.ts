// The types of the columns of an imported PostgreSQL table, and the SQL expressions that give their values as texts (model/import_source.ts).
import type { NotCarried, SourceColumn } from '../../../model/import_source.ts';
import { sqlIdentifier } from '../../../model/names.ts';
import { decimalPrecisionMax, formatType, type LogicalType, varcharLengthMax } from '../../../model/types.ts';

/** A column as the database describes it. */
export interface DatabaseColumn {
  readonly name: string;
  /** As `format_type` writes it, such as `numeric(10,2)[]`; of a domain, its base type. */
  readonly type: string;
  /** Whether it is of the database itself, and not created by a user or an extension. */
  readonly isBuiltIn: boolean;
  /** The name of the domain. */
  readonly domain: string | null;
  readonly isEnum: boolean;
  readonly nullable: boolean;
  readonly default: string | null;
  readonly comment: string | null;
  readonly isGenerated: boolean;
  readonly isIdentity: boolean;
}

/** What is read of the rows before the type of a column is chosen: SQL expressions over the table, by a name. */
export interface Probe {
  readonly sql: string;
}

export interface Candidate {
  readonly column: DatabaseColumn;
  /** Undefined: only the text can be copied. */
  readonly type: LogicalType | undefined;
  /** True if a value does not fit the type; undefined: all do. */
  readonly misfit: string | undefined;
  /** Of a number without precision: the digits before and after the point that its values have. */
  readonly digits: readonly [string, string] | undefined;
}

const scalars: Readonly<Record<string, LogicalType>> = {
  boolean: { kind: 'BOOLEAN' },
  smallint: { kind: 'SMALLINT' },
  integer: { kind: 'INT' },
  bigint: { kind: 'BIGINT' },
  oid: { kind: 'BIGINT' },
  real: { kind: 'FLOAT' },
  'double precision': { kind: 'DOUBLE' },
  date: { kind: 'DATE' },
  text: { kind: 'STRING' },
  name: { kind: 'STRING' },
  'character varying': { kind: 'STRING' },
  bytea: { kind: 'BINARY' },
  uuid: { kind: 'UUID' },
  json: { kind: 'JSON' },
  jsonb: { kind: 'JSON' },
};
const timestamp = /^timestamp(\(\d\))? (with|without) time zone$/;
const numeric = /^numeric\((\d+),(-?\d+)\)$/;
const varchar = /^character( varying)?\((\d+)\)$/;

function scalarOf(type: string): LogicalType | undefined {
  if (Object.hasOwn(scalars, type)) return scalars[type];
  const [, , zone] = timestamp.exec(type) ?? [];
  if (zone !== undefined) return { kind: zone === 'with' ? 'TIMESTAMPTZ' : 'DATETIME' };
  const [, p, s] = numeric.exec(type) ?? [];
  const [precision, scale] = [Number(p), Number(s)];
  if (p !== undefined && precision <= decimalPrecisionMax && scale >= 0 && scale <= precision)
    return { kind: 'DECIMAL', precision, scale };
  const [, , length] = varchar.exec(type) ?? [];
  return length !== undefined && Number(length) <= varcharLengthMax
    ? { kind: 'VARCHAR', length: Number(length) }
    : undefined;
}

/** JSON of PostgreSQL writes elements of these types as the server reads them. */
const isElement = ({ kind }: LogicalType): boolean => kind !== 'BINARY' && kind !== 'JSON';

function typeOf(text: string): LogicalType | undefined {
  if (!text.endsWith('[]')) return scalarOf(text);
  const element = scalarOf(text.slice(0, -2));
  return element && isElement(element) ? { kind: 'ARRAY', element } : undefined;
}

/** Whether a value is infinite, not a number, or outside the years 1 to 9999. */
function misfitOf(value: string, type: LogicalType): string | undefined {
  switch (type.kind) {
    case 'DECIMAL':
      return `${value} = 'NaN'`;
    case 'DATE':
    case 'DATETIME':
    case 'TIMESTAMPTZ':
      return `NOT (${value} >= '0001-01-01' AND ${value} < '10000-01-01')`;
    case 'ARRAY': {
      const inner = misfitOf('e', type.element);
      const isDeep = `array_ndims(${value}) > 1`;
      return inner === undefined ? isDeep : `${isDeep} OR EXISTS (SELECT 1 FROM unnest(${value}) AS e WHERE ${inner})`;
    }
    default:
      return undefined;
  }
}

export function candidateOf(column: DatabaseColumn): Candidate {
  const value = sqlIdentifier(column.name);
  if (column.isBuiltIn && column.type === 'numeric') {
    const whole = `max(CASE WHEN ${value} IS NULL THEN 1 WHEN ${value} <> 'NaN' AND abs(${value}) < 1e40 THEN length(trunc(abs(${value}))::text) ELSE 999 END)`;
    return { column, type: undefined, misfit: undefined, digits: [whole, `max(scale(${value}))`] };
  }
  const type = column.isBuiltIn ? typeOf(column.type) : undefined;
  const misfit = type && misfitOf(value, type);
  return { column, type, misfit: misfit && `coalesce(bool_or(${misfit}), false)`, digits: undefined };
}

export interface ReadColumn extends SourceColumn {
  readonly expression: string;
}

/** `digits` and `isMisfit`: what the probes of the candidate gave. */
export function chosenColumn(
  table: string,
  { column, type: candidate }: Candidate,
  { digits, isMisfit }: { readonly digits: readonly [number, number] | undefined; readonly isMisfit: boolean },
  notCarried: NotCarried[],
): ReadColumn {
  const object = `${table}.${column.name}`;
  const add = (kind: string, text: string) => void notCarried.push({ object, kind, text });
  const type = (isMisfit ? undefined : (candidate ?? (digits && decimalOf(digits)))) ?? { kind: 'STRING' };
  if (column.domain !== null) add('domain', `${column.domain} becomes its type; its checks are not enforced`);
  if (isMisfit)
    add(
      'type',
      `${column.type} becomes STRING: it has values that ${candidate ? formatType(candidate) : 'no type'} has not`,
    );
  else if (column.isEnum) add('type', `the enumeration ${column.type} becomes STRING; its values are not checked`);
  else if (digits && type.kind === 'DECIMAL')
    add('type', `numeric becomes ${formatType(type)}, which its values need; wider ones are refused later`);
  else if (candidate === undefined || column.type === 'oid' || /^character\(/.test(column.type))
    add('type', `${column.type} becomes ${formatType(type)}`);
  if (column.isGenerated) add('generated column', 'has its values, and is not computed any more');
  if (column.isIdentity) add('sequence', 'its values are not generated: give a value');
  const defaultValue = portableDefault(column.default);
  if (column.default !== null && defaultValue === undefined && !column.isGenerated && !/^NULL\b/.test(column.default))
    add('default', `has no default: ${column.default}`);
  const { name, nullable } = column;
  const expression = expressionOf(sqlIdentifier(name), type, column.type);
  return { name, type, nullable, defaultValue, comment: column.comment ?? undefined, expression };
}

/** Two digits of room. */
function decimalOf([whole, scale]: readonly [number, number]): LogicalType | undefined {
  const precision = Math.max(18, whole + scale);
  return precision <= decimalPrecisionMax ? { kind: 'DECIMAL', precision, scale } : undefined;
}

/** A literal without its cast, or the current time; undefined for other expressions. */
function portableDefault(text: string | null): string | undefined {
  if (text === null) return undefined;
  if (/^(now\(\)|CURRENT_TIMESTAMP)$/i.test(text)) return 'current_timestamp';
  const [, written] = /^\(?(-?\d+(?:\.\d+)?|'[^'\\]*'|true|false)\)?(?:::[a-z ]+(?:\([\d,]+\))?)?$/.exec(text) ?? [];
  return written;
}

const isWide = ({ kind }: LogicalType): boolean => kind === 'BIGINT' || kind === 'DECIMAL';

/** The settings of the connection make the texts exact: see postgresql_source.ts. */
function expressionOf(value: string, type: LogicalType, from: string): string {
  switch (type.kind) {
    case 'BOOLEAN':
      return `CASE WHEN ${value} THEN 'true' WHEN NOT ${value} THEN 'false' END`;
    case 'BINARY':
      return `translate(encode(${value}, 'base64'), E'\\n', '')`;
    case 'DATETIME':
      return `to_char(${value}, 'YYYY-MM-DD"T"HH24:MI:SS.US')`;
    case 'TIMESTAMPTZ':
      return `to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
    case 'DECIMAL':
      return from === 'numeric' ? `round(${value}, ${type.scale})::text` : `${value}::text`;
    case 'ARRAY':
      // Numbers as JSON strings, because readers of JSON may round them.
      return isWide(type.element)
        ? `array_to_json(${value}::text[])::text`
        : type.element.kind === 'TIMESTAMPTZ'
          ? `replace(array_to_json(${value})::text, '+00:00"', 'Z"')`
          : `array_to_json(${value})::text`;
    default:
      return `${value}::text`;
  }
}
