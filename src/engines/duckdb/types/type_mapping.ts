// What each logical type is in DuckDB, and which logical type a DuckDB type is. How a value is written as JSON is
// json_sql.ts'.
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

/** Total: a kind without an entry or a case does not compile. */
export function duckdbType(type: LogicalType): string {
  switch (type.kind) {
    case 'DECIMAL':
      return `DECIMAL(${type.precision},${type.scale})`;
    case 'CHAR':
    case 'VARCHAR':
      // DuckDB takes a length and forgets it; the column's CHECK keeps it (table_ddl.ts).
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

/** DuckDB's scalars that are, or fit without loss into, one of ours. Unsigned integers become the next wider signed one. */
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

/** The logical type that holds every value of a DuckDB type, or undefined where none does (TIME, INTERVAL, ENUM, ...). */
export function logicalTypeOf(duckdbTypeText: string): LogicalType | undefined {
  return logicalOf(parseEngineType(duckdbTypeText), exactKind);
}

/** The logical type that a value of a DuckDB type becomes where it has to have one: nanoseconds are cut, the rest is text. */
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

/** How a result column's type is told to the caller: our canonical text, or the engine's own where we have no such type. */
export function resultTypeText(duckdbTypeText: string): string {
  const type = logicalTypeOf(duckdbTypeText);
  return type === undefined ? duckdbTypeText.replaceAll('"NULL"', 'NULL') : formatType(type);
}
