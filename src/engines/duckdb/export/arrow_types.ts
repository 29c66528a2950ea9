// Maps DuckDB types to Arrow types. Columns of types that Arrow lacks (times of day, intervals, enumerations, 128-bit integers) are cast
// in SQL first. See arrow_vectors.ts for the values.
import type { DuckDBType } from '@duckdb/node-api';
import { DuckDBArrayType, DuckDBDecimalType, DuckDBListType, DuckDBMapType, DuckDBStructType } from '@duckdb/node-api';
import * as arrow from 'apache-arrow';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { type EngineType, parseEngineType } from '../types/type_parser.ts';

const decimalBits = 128;

interface Scalar {
  readonly type: () => arrow.DataType;
  /** Bytes of a value in a vector of the engine; undefined for strings and blobs. */
  readonly width: number | undefined;
}

/** By DuckDB's name of the type. */
const scalars: Readonly<Record<string, Scalar>> = {
  BOOLEAN: { type: () => new arrow.Bool(), width: 1 },
  TINYINT: { type: () => new arrow.Int8(), width: 1 },
  SMALLINT: { type: () => new arrow.Int16(), width: 2 },
  INTEGER: { type: () => new arrow.Int32(), width: 4 },
  BIGINT: { type: () => new arrow.Int64(), width: 8 },
  UTINYINT: { type: () => new arrow.Uint8(), width: 1 },
  USMALLINT: { type: () => new arrow.Uint16(), width: 2 },
  UINTEGER: { type: () => new arrow.Uint32(), width: 4 },
  UBIGINT: { type: () => new arrow.Uint64(), width: 8 },
  FLOAT: { type: () => new arrow.Float32(), width: 4 },
  DOUBLE: { type: () => new arrow.Float64(), width: 8 },
  DATE: { type: () => new arrow.DateDay(), width: 4 },
  TIMESTAMP: { type: () => new arrow.Timestamp(arrow.TimeUnit.MICROSECOND, null), width: 8 },
  'TIMESTAMP WITH TIME ZONE': { type: () => new arrow.Timestamp(arrow.TimeUnit.MICROSECOND, 'UTC'), width: 8 },
  VARCHAR: { type: () => new arrow.Utf8(), width: undefined },
  BLOB: { type: () => new arrow.Binary(), width: undefined },
};

/** The type to cast a column to before reading it: the same type if Arrow supports it entirely. */
export function arrowable(type: string): string {
  const parsed = parseEngineType(type);
  return isArrow(parsed) ? type : castOf(parsed);
}

function isArrow(type: EngineType): boolean {
  switch (type.kind) {
    case 'scalar':
      return Object.hasOwn(scalars, type.name);
    case 'decimal':
      return true;
    case 'list':
      return isArrow(type.element);
    case 'map':
      return isArrow(type.key) && isArrow(type.value);
    case 'struct':
      return type.fields.every((field) => isArrow(field.type));
    case 'union':
      return false;
  }
}

function castOf(type: EngineType): string {
  switch (type.kind) {
    case 'scalar':
      if (type.name === 'HUGEINT' || type.name === 'UHUGEINT') return 'DECIMAL(38,0)';
      return Object.hasOwn(scalars, type.name) ? type.name : 'VARCHAR';
    case 'decimal':
      return `DECIMAL(${type.precision},${type.scale})`;
    case 'list':
      return `${castOf(type.element)}[${type.length ?? ''}]`;
    case 'map':
      return `MAP(${castOf(type.key)}, ${castOf(type.value)})`;
    case 'struct': {
      const fields = type.fields.map((field) => field.name !== undefined && [quoteIdentifier(field.name), field.type]);
      // The type of a row(...) cannot be named in a cast.
      if (fields.includes(false)) return 'VARCHAR';
      return `STRUCT(${(fields as [string, EngineType][]).map(([name, fieldType]) => `${name} ${castOf(fieldType)}`).join(', ')})`;
    }
    case 'union':
      return 'VARCHAR';
  }
}

export function arrowType(type: DuckDBType): arrow.DataType {
  if (type instanceof DuckDBDecimalType) return new arrow.Decimal(type.scale, type.width, decimalBits);
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType)
    return new arrow.List(new arrow.Field('item', arrowType(type.valueType), true));
  if (type instanceof DuckDBStructType)
    return new arrow.Struct(
      type.entryTypes.map((entry, i) => new arrow.Field(type.entryNames[i] as string, arrowType(entry), true)),
    );
  if (type instanceof DuckDBMapType) return new arrow.Map_(new arrow.Field('entries', entriesOf(type), false), false);
  return scalarOf(type).type();
}

/** The entries of a map, which Arrow represents as a list of structs. */
export function entriesOf({ keyType, valueType }: DuckDBMapType): arrow.Struct {
  const key = new arrow.Field('key', arrowType(keyType), false);
  const value = new arrow.Field('value', arrowType(valueType), true);
  return new arrow.Struct([key, value]);
}

/** Bytes of a value in a vector of the engine; undefined for strings and blobs. Only for types that are not nested. */
export function widthOf(type: DuckDBType): number | undefined {
  if (!(type instanceof DuckDBDecimalType)) return scalarOf(type).width;
  if (type.width <= 4) return 2;
  if (type.width <= 9) return 4;
  return type.width <= 18 ? 8 : 16;
}

function scalarOf(type: DuckDBType): Scalar {
  const scalar = scalars[String(type)];
  if (!scalar) throw new Error(`a column of type ${String(type)} was not cast to a type that Arrow supports`);
  return scalar;
}
