// The DDL of tables and views, from their records.
import { type LogicalType, parseType } from '../../../../src/model/types.ts';
import { quoteName } from '../../results/grid/value_text.ts';

interface ColumnLike {
  readonly name: string;
  readonly type: string;
  readonly nullable: boolean;
  readonly defaultValue: string | null;
}

interface TableLike {
  readonly name: string;
  readonly columns: readonly ColumnLike[];
  readonly primaryKey: readonly string[];
  readonly unique_key_constraints: readonly string[];
}

/** A statement that `tables.create({ sql })` accepts. Comments, properties and the order of rows are no part of it. */
export function tableDdl({ name, columns, primaryKey, unique_key_constraints: uniqueKey }: TableLike): string {
  const lines = [
    ...columns.map(columnText),
    ...(primaryKey.length > 0 ? [`PRIMARY KEY (${listOf(primaryKey)})`] : []),
    ...(uniqueKey.length > 0 ? [`UNIQUE (${listOf(uniqueKey)})`] : []),
  ];
  return `CREATE TABLE ${quoteName(name)} (\n${lines.map((line) => `  ${line}`).join(',\n')}\n)`;
}

const listOf = (names: readonly string[]) => names.map(quoteName).join(', ');

function columnText({ name, type, nullable, defaultValue }: ColumnLike): string {
  const parts = [quoteName(name), sqlType(parseType(type))];
  if (!nullable) parts.push('NOT NULL');
  if (defaultValue !== null) parts.push(`DEFAULT (${defaultValue})`);
  return parts.join(' ');
}

/** The type in SQL, where nested types are written in another way than in records. */
function sqlType(type: LogicalType): string {
  switch (type.kind) {
    case 'DECIMAL':
      return `DECIMAL(${type.precision},${type.scale})`;
    case 'CHAR':
    case 'VARCHAR':
      return `${type.kind}(${type.length})`;
    case 'ARRAY':
      return `${sqlType(type.element)}[]`;
    case 'MAP':
      return `MAP(${sqlType(type.key)}, ${sqlType(type.value)})`;
    case 'STRUCT':
      return `STRUCT(${type.fields.map(({ name, type: field }) => `${quoteName(name)} ${sqlType(field)}`).join(', ')})`;
    case 'LARGEINT':
      return 'HUGEINT';
    default:
      return type.kind;
  }
}

export const viewDdl = ({ name, sql }: { readonly name: string; readonly sql: string }): string =>
  /^\s*create\b/i.test(sql) ? sql : `CREATE VIEW ${quoteName(name)} AS\n${sql}`;
