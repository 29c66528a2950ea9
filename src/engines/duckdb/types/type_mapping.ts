// Maps logical types to DuckDB types and back. See json_sql.ts for the JSON form of values.
import { formatType, type LogicalType, type ScalarKind } from '../../../model/types.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { type EngineType, parseEngineType } from './type_parser.ts';

export { jsonExpression } from './json_sql.ts';

const scalarNames: Record<ScalarKind, string> = {
  BOOLEAN: 'BOOLEAN',
  TINYINT: 'TINYINT',
  SMALLINT: 'SMALLINT',
  INT: 'INTEGER',
  BIGINT: 'BIGINT',
  LARGEINT: 'HUGEINT',
  FLOAT: 'FLOAT',
  DOUBLE: 'DOUBLE',
  DATE: 'DATE',
  DATETIME: 'TIMESTAMP',
  TIMESTAMPTZ: 'TIMESTAMP WITH TIME ZONE',
  STRING: 'VARCHAR',
  BINARY: 'BLOB',
  JSON: 'JSON',
  UUID: 'UUID',
};

/** Total: a missing kind does not compile. */
export function duckdbType(type: LogicalType): string {
  switch (type.kind) {
    case 'DECIMAL':
      return `DECIMAL(${type.precision},${type.scale})`;
    case 'CHAR':
    case 'VARCHAR':
      // DuckDB ignores the length; a CHECK of the column enforces it (see table_ddl.ts).
      return 'VARCHAR';
    case 'ARRAY':
      return `${duckdbType(type.element)}[]`;
    case 'MAP':
      return `MAP(${duckdbType(type.key)}, ${duckdbType(type.value)})`;
    case 'STRUCT':
      return `STRUCT(${type.fields.map((f) => `${quoteIdentifier(f.name)} ${duckdbType(f.type)}`).join(', ')})`;
    default:
      return scalarNames[type.kind];
  }
}

/** The logical types of DuckDB's scalars, where one holds every value. Unsigned integers map to the next wider signed type. */
const kindOfScalar: Readonly<Record<string, ScalarKind>> = {
  BOOLEAN: 'BOOLEAN',
  TINYINT: 'TINYINT',
  SMALLINT: 'SMALLINT',
  INTEGER: 'INT',
  BIGINT: 'BIGINT',
  HUGEINT: 'LARGEINT',
  UTINYINT: 'SMALLINT',
  USMALLINT: 'INT',
  UINTEGER: 'BIGINT',
  UBIGINT: 'LARGEINT',
  FLOAT: 'FLOAT',
  DOUBLE: 'DOUBLE',
  DATE: 'DATE',
  TIMESTAMP: 'DATETIME',
  TIMESTAMP_S: 'DATETIME',
  TIMESTAMP_MS: 'DATETIME',
  'TIMESTAMP WITH TIME ZONE': 'TIMESTAMPTZ',
  TIMESTAMPTZ: 'TIMESTAMPTZ',
  VARCHAR: 'STRING',
  BLOB: 'BINARY',
  JSON: 'JSON',
  UUID: 'UUID',
};

/** The logical type that holds every value of a DuckDB type; undefined if there is none (TIME, INTERVAL, ENUM, ...). */
export function logicalTypeOf(duckdbTypeText: string): LogicalType | undefined {
  return logicalOf(parseEngineType(duckdbTypeText), exactKind);
}

/** The logical type to which a value of a DuckDB type is converted: nanoseconds are truncated, other types become text. */
export function nearestTypeOf(duckdbTypeText: string): LogicalType {
  const kindOf = (name: string) => exactKind(name) ?? (name === 'TIMESTAMP_NS' ? 'DATETIME' : 'STRING');
  return logicalOf(parseEngineType(duckdbTypeText), kindOf) ?? { kind: 'STRING' };
}

const exactKind = (name: string) => (Object.hasOwn(kindOfScalar, name) ? kindOfScalar[name] : undefined);

function logicalOf(type: EngineType, kindOf: (scalar: string) => ScalarKind | undefined): LogicalType | undefined {
  switch (type.kind) {
    case 'scalar': {
      const kind = kindOf(type.name);
      return kind === undefined ? undefined : { kind };
    }
    case 'decimal':
      return { kind: 'DECIMAL', precision: type.precision, scale: type.scale };
    case 'list': {
      const element = logicalOf(type.element, kindOf);
      return element && { kind: 'ARRAY', element };
    }
    case 'map': {
      const key = logicalOf(type.key, kindOf);
      const value = logicalOf(type.value, kindOf);
      return key && value && { kind: 'MAP', key, value };
    }
    case 'struct': {
      const fields: { name: string; type: LogicalType }[] = [];
      for (const field of type.fields) {
        const fieldType = logicalOf(field.type, kindOf);
        if (fieldType === undefined || field.name === undefined) return undefined;
        fields.push({ name: field.name, type: fieldType });
      }
      return { kind: 'STRUCT', fields };
    }
    case 'union':
      return undefined;
  }
}

/** The type of a result column as shown to the caller: the canonical text, or the engine's own text if there is no logical type. */
export function resultTypeText(duckdbTypeText: string): string {
  const type = logicalTypeOf(duckdbTypeText);
  return type === undefined ? duckdbTypeText.replaceAll('"NULL"', 'NULL') : formatType(type);
}
