// The logical types as types of ClickHouse and back. Each has a type of its own there, so that the columns of any result show which values
// they have: binary and JSON values are strings with a marker, which functions treat as strings.
import { type LogicalType, parseType } from '../../../model/types.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { parseTypeText, type ServerType } from './type_text.ts';

/** Behaves like its second argument in every function and table; its name is kept in results. */
const binary = (text: string) => `SimpleAggregateFunction(anyLast, ${text})`;
const json = (text: string) => `SimpleAggregateFunction(any, ${text})`;

/** Times without a zone have this one, so that they do not depend on the zone of a server. */
const unzoned = 'Etc/UTC';

/** The type of a value; `isNullable`: or null. Arrays, maps and structs cannot be nullable, but the one type of a variant can. */
export function serverType(type: LogicalType, isNullable: boolean): string {
  const scalar = (name: string) => (isNullable ? `Nullable(${name})` : name);
  const nested = (name: string) => (isNullable ? `Variant(${name})` : name);
  switch (type.kind) {
    case 'BOOLEAN':
      return scalar('Bool');
    case 'TINYINT':
      return scalar('Int8');
    case 'SMALLINT':
      return scalar('Int16');
    case 'INT':
      return scalar('Int32');
    case 'BIGINT':
      return scalar('Int64');
    case 'LARGEINT':
      return scalar('Int128');
    case 'FLOAT':
      return scalar('Float32');
    case 'DOUBLE':
      return scalar('Float64');
    case 'DECIMAL':
      return scalar(`Decimal(${type.precision}, ${type.scale})`);
    case 'DATE':
      return scalar('Date32');
    case 'DATETIME':
      return scalar(`DateTime64(6, '${unzoned}')`);
    case 'TIMESTAMPTZ':
      return scalar(`DateTime64(6, 'UTC')`);
    case 'CHAR':
    case 'VARCHAR':
    case 'STRING':
      return scalar('String');
    case 'BINARY':
      return binary(scalar('String'));
    case 'JSON':
      return json(scalar('String'));
    case 'UUID':
      return scalar('UUID');
    case 'ARRAY':
      return nested(`Array(${serverType(type.element, true)})`);
    case 'MAP':
      return nested(`Map(${serverType(type.key, false)}, ${serverType(type.value, true)})`);
    case 'STRUCT': {
      const fields = type.fields.map((field) => `${quoteIdentifier(field.name)} ${serverType(field.type, true)}`);
      return nested(`Tuple(${fields.join(', ')})`);
    }
  }
}

/** Whether a column of this type of the server has nulls. */
export const mayBeNull = (type: string): boolean =>
  /^(?:Nullable|Variant|SimpleAggregateFunction\(\w+, Nullable)\(/.test(type);

/** The logical type that can represent every value of a type of the server; undefined if there is none. */
export function logicalTypeOf(text: string): LogicalType | undefined {
  const parsed = parseTypeText(text);
  return parsed && logicalOf(parsed);
}

const integers: Readonly<Record<string, LogicalType['kind']>> = {
  Int8: 'TINYINT',
  Int16: 'SMALLINT',
  Int32: 'INT',
  Int64: 'BIGINT',
  Int128: 'LARGEINT',
  UInt8: 'SMALLINT',
  UInt16: 'INT',
  UInt32: 'BIGINT',
  UInt64: 'LARGEINT',
};

const scalars: Readonly<Record<string, LogicalType['kind']>> = {
  ...integers,
  Bool: 'BOOLEAN',
  Float32: 'FLOAT',
  Float64: 'DOUBLE',
  BFloat16: 'FLOAT',
  Date: 'DATE',
  Date32: 'DATE',
  String: 'STRING',
  FixedString: 'STRING',
  Enum8: 'STRING',
  Enum16: 'STRING',
  IPv4: 'STRING',
  IPv6: 'STRING',
  UUID: 'UUID',
};

export function logicalOf(type: ServerType): LogicalType | undefined {
  const { name, parts } = type;
  const kind = scalars[name];
  if (kind !== undefined) return parseType(kind);
  const [first, second] = parts;
  switch (name) {
    case 'Nullable':
    case 'LowCardinality':
      return typeIn(first);
    case 'Variant':
      return parts.length === 1 ? typeIn(first) : undefined;
    case 'SimpleAggregateFunction':
      if (first?.text === 'anyLast') return { kind: 'BINARY' };
      return first?.text === 'any' ? { kind: 'JSON' } : typeIn(second);
    case 'Decimal': {
      const [precision = 0, scale = 0] = parts.map(({ text }) => Number(text));
      return precision <= 38 ? { kind: 'DECIMAL', precision, scale } : undefined;
    }
    case 'DateTime':
      return { kind: zoneKind(first?.text) };
    case 'DateTime64':
      return Number(first?.text) <= 6 ? { kind: zoneKind(second?.text) } : undefined;
    case 'Nothing':
      return { kind: 'STRING' };
    default:
      return nestedOf(type);
  }
}

function nestedOf({ name, parts }: ServerType): LogicalType | undefined {
  if (name === 'Array') {
    const element = typeIn(parts[0]);
    return element && { kind: 'ARRAY', element };
  }
  if (name === 'Map') {
    const [key, value] = [typeIn(parts[0]), typeIn(parts[1])];
    return key && value && { kind: 'MAP', key, value };
  }
  if (name !== 'Tuple' || parts.length === 0) return undefined;
  const fields = parts.map(({ label, type }, index) => {
    const logical = type && logicalOf(type);
    return logical && { name: label ?? String(index + 1), type: logical };
  });
  return fields.every((field) => field !== undefined) ? { kind: 'STRUCT', fields } : undefined;
}

const typeIn = (part: ServerType['parts'][number] | undefined): LogicalType | undefined =>
  part?.type && logicalOf(part.type);

/** A time is zoned if its type names a zone. */
const zoneKind = (zone: string | undefined): 'DATETIME' | 'TIMESTAMPTZ' =>
  zone === undefined || zone === `'${unzoned}'` ? 'DATETIME' : 'TIMESTAMPTZ';
