// Generates the SQL that creates a table with a given definition. See apply_change.ts and alter_table_sql.ts for its use.
import { randomUUID } from 'node:crypto';
import type { ColumnDefinition, TableDefinition } from '../../../model/records.ts';
import type { TableRef } from '../../port/refs.ts';
import { duckdbType } from '../types/type_mapping.ts';
import { qualifiedSchema, qualifiedTable, quoteIdentifier } from './identifiers.ts';

/** `"a" INTEGER NOT NULL DEFAULT (1)`. */
function columnText(column: ColumnDefinition): string {
  const parts = [quoteIdentifier(column.name), duckdbType(column.type)];
  if (!column.nullable) parts.push('NOT NULL');
  if (column.defaultValue !== undefined) parts.push(`DEFAULT (${column.defaultValue})`);
  const length = lengthOf(column);
  if (length !== undefined) parts.push(`CHECK (length(${quoteIdentifier(column.name)}) <= ${length})`);
  return parts.join(' ');
}

/**
 * The length that a CHECK of the column enforces, because DuckDB does not enforce VARCHAR(n). It makes inserts about 6 % slower,
 * and adding such a column or changing its length requires a rewrite. Lengths inside ARRAY, MAP and STRUCT are enforced only for
 * rows in JSON (query/rows/row_validation.ts).
 */
export function lengthOf(column: ColumnDefinition): number | undefined {
  return column.type.kind === 'CHAR' || column.type.kind === 'VARCHAR' ? column.type.length : undefined;
}

export function createTableText(
  table: TableRef,
  definition: TableDefinition,
  options: { readonly ifNotExists: boolean },
): string {
  const parts = definition.columns.map(columnText);
  if (definition.primaryKey.length > 0) parts.push(`PRIMARY KEY (${nameList(definition.primaryKey)})`);
  return `CREATE TABLE ${options.ifNotExists ? 'IF NOT EXISTS ' : ''}${qualifiedTable(table)} (${parts.join(', ')})`;
}

/** The unique key, if there is one, under a new name: DuckDB refuses a name that was dropped in the same transaction. */
export function createUniqueKeyTexts(table: TableRef, definition: TableDefinition): string[] {
  if (definition.uniqueKey.length === 0) return [];
  const name = quoteIdentifier(`unique_${randomUUID()}`);
  return [`CREATE UNIQUE INDEX ${name} ON ${qualifiedTable(table)} (${nameList(definition.uniqueKey)})`];
}

export function dropIndexText(table: TableRef, indexName: string): string {
  return `DROP INDEX ${qualifiedSchema(table)}.${quoteIdentifier(indexName)}`;
}

export function nameList(names: readonly string[]): string {
  return names.map(quoteIdentifier).join(', ');
}
