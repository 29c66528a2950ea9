// The plan of a load: the schema of the file, the source of each column of the table, and the statements. It is made once, in an analysis
// process, which the input may crash, and is plain data. See execute_load.ts for its execution.
import type { DuckDBConnection } from '@duckdb/node-api';
import { invalidParameter } from '../../../standard/failure.ts';
import { optionsOfLoad } from '../../data_files/file_schema.ts';
import type { FileLoad } from '../../port/load.ts';
import { optimizePlan } from '../analysis/optimized.ts';
import { qualifiedTable } from '../sql/identifiers.ts';
import { createTableText, createUniqueKeyTexts, nameList } from '../sql/table_ddl.ts';
import { type ColumnMapping, mapColumns, requireExpressions } from './column_mapping.ts';
import { readFileSchema } from './file_schema.ts';
import { type FileSchema, fromText } from './reader_sql.ts';

export interface LoadPlan {
  /** Without its path, which differs between processes. */
  readonly file: Omit<FileSchema, 'path'>;
  readonly mapping: ColumnMapping;
  readonly statements: {
    /** Creates the table for a dry run into a table that does not exist. */
    readonly create: readonly string[];
    /** Removes the rows that are replaced. */
    readonly truncate: string | undefined;
    /** Precedes the SELECT of the rows. */
    readonly insert: string;
    /** Follows the SELECT of the rows. */
    readonly onConflict: string;
  };
}

/** Throws DATA_INVALID, INVALID_PARAMETER, SQL_FORBIDDEN_FUNCTION. */
export async function planLoad(
  connection: DuckDBConnection,
  work: FileLoad,
  unreviewed: ReadonlySet<string>,
): Promise<LoadPlan> {
  const { definition, columns } = work;
  const schema = await readFileSchema(connection, work.file, optionsOfLoad(work));
  const mapping = mapColumns(schema, definition, columns);
  await requireExpressions(connection, schema, mapping, unreviewed);
  requireKey(work);
  const values = mapping.columns.map(({ value }) => value);
  await optimizePlan(connection, selectText(values, fromText(schema, mapping.types)));
  const { path: _, ...file } = schema;
  return { file, mapping, statements: statementsOf(work, mapping) };
}

export const selectText = (values: readonly string[], from: string): string =>
  `SELECT ${values.join(', ')} FROM ${from}`;

function requireKey({ mode, definition }: FileLoad): void {
  if (mode !== 'upsert' || definition.primaryKey.length > 0) return;
  const message = 'the mode `upsert` requires a table with a primary key';
  throw invalidParameter('/mode', 'key', message, message);
}

function statementsOf(work: FileLoad, { columns }: ColumnMapping): LoadPlan['statements'] {
  const { table, definition, mode, isNewTable = false } = work;
  const names = columns.map(({ column }) => column.name);
  return {
    create: isNewTable
      ? [createTableText(table, definition, { ifNotExists: false }), ...createUniqueKeyTexts(table, definition)]
      : [],
    truncate: mode === 'replace' ? `TRUNCATE ${qualifiedTable(table)}` : undefined,
    insert: `INSERT INTO ${qualifiedTable(table)} (${nameList(names)})`,
    onConflict: mode === 'upsert' ? onConflict(definition.primaryKey, names) : '',
  };
}

function onConflict(primaryKey: readonly string[], names: readonly string[]): string {
  const changed = names.filter((name) => !primaryKey.includes(name)).map((name) => nameList([name]));
  const action =
    changed.length === 0 ? 'NOTHING' : `UPDATE SET ${changed.map((name) => `${name} = excluded.${name}`).join(', ')}`;
  return `ON CONFLICT (${nameList(primaryKey)}) DO ${action}`;
}
