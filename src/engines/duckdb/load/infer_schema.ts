// Infers the table for a file: its columns with their types, and a preview of the first rows. What the caller specifies takes precedence;
// the rest is inferred from the file.
import type { DuckDBConnection } from '@duckdb/node-api';
import { foldName } from '../../../model/names.ts';
import type { ColumnDefinition } from '../../../model/records.ts';
import type { LogicalType } from '../../../model/types.ts';
import { namesByPosition } from '../../data_files/column_mapping.ts';
import { invalidColumns } from '../../data_files/load_failures.ts';
import type { InferColumn, InferredTable, LoadColumn, SchemaInference } from '../../port/load.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { duckdbType, jsonExpression, nearestTypeOf } from '../types/type_mapping.ts';
import { type ColumnMapping, expressionSource, mapColumns, requireExpression } from './column_mapping.ts';
import { readFileSchema } from './file_schema.ts';
import { type FileColumn, type FileSchema, fromText } from './reader_sql.ts';
import { countSample } from './sample_counts.ts';

/** Limit for the previewed rows together. */
const shownCharactersMax = 262_144;

interface InferenceEnvironment {
  readonly unreviewed: ReadonlySet<string>;
  /** A directory for temporary files that the engine reads. */
  readonly own: string;
}

/** Throws DATA_INVALID, INVALID_PARAMETER, SQL_FORBIDDEN_FUNCTION. */
export async function inferTable(
  connection: DuckDBConnection,
  { file, columns: requested, types = {}, readsAllRows, rowsMax }: SchemaInference,
  { unreviewed, own }: InferenceEnvironment,
): Promise<InferredTable> {
  const fileSchema = await readFileSchema(connection, file, {
    headings: requested?.map(({ name, source }) => source ?? name) ?? Object.keys(types),
    names: namesByPosition(requested ?? []),
    isTyped: true,
    readsAllRows,
  });
  const columns = requested
    ? await typedColumns(connection, fileSchema, requested, unreviewed)
    : columnsOf(fileSchema, requireTypes(types, fileSchema));
  const loaded = requested && loadedColumns(fileSchema, requested);
  const mapping = mapColumns(fileSchema, { columns }, loaded);
  const rows = await firstRows(connection, fileSchema, columns, mapping, rowsMax);
  const isCounted = rowsMax > 0 && fileSchema.format === 'csv';
  const sample = isCounted ? await countSample(connection, fileSchema, mapping.types, own) : undefined;
  return { columns, schema: { csv: fileSchema.csv, columns: fileSchema.columns }, loaded, rows, sample };
}

function columnsOf(fileSchema: FileSchema, types: ReadonlyMap<string, LogicalType>): ColumnDefinition[] {
  return fileSchema.columns.map(({ name, type }) => ({
    name,
    type: types.get(foldName(name)) ?? nearestTypeOf(type),
    nullable: true,
  }));
}

function requireTypes(types: Readonly<Record<string, LogicalType>>, fileSchema: FileSchema): Map<string, LogicalType> {
  const names = new Set(fileSchema.columns.map(({ name }) => foldName(name)));
  const folded = new Map(Object.entries(types).map(([name, type]) => [foldName(name), type]));
  const unknown = Object.keys(types).find((name) => !names.has(foldName(name)));
  if (unknown !== undefined) throw invalidColumns('/types', `the file has no column ${JSON.stringify(unknown)}`);
  return folded;
}

function sourceOf(fileSchema: FileSchema): (column: InferColumn) => FileColumn | undefined {
  const byName = new Map(fileSchema.columns.map((column) => [foldName(column.name), column]));
  return ({ name, source }) => byName.get(foldName(source ?? name));
}

/** Omits the columns that the file does not have. */
function loadedColumns(fileSchema: FileSchema, columns: readonly InferColumn[]): LoadColumn[] {
  const fileColumnOf = sourceOf(fileSchema);
  return columns
    .filter((column) => column.expression !== undefined || fileColumnOf(column))
    .map(({ name, source, expression }) => ({ name, source, expression }));
}

async function typedColumns(
  connection: DuckDBConnection,
  fileSchema: FileSchema,
  requested: readonly InferColumn[],
  unreviewed: ReadonlySet<string>,
): Promise<ColumnDefinition[]> {
  const fileColumnOf = sourceOf(fileSchema);
  const columns: ColumnDefinition[] = [];
  for (const [i, column] of requested.entries()) {
    const { name, source, expression, type } = column;
    if (expression !== undefined) {
      const pointer = `/columns/${i}/expression`;
      await requireExpression(connection, fileSchema, { pointer, name, expression, type }, unreviewed);
      columns.push({
        name,
        type: type ?? (await typeOfExpression(connection, fileSchema, expression)),
        nullable: true,
      });
      continue;
    }
    const fileColumn = fileColumnOf(column);
    const inferred = type ?? (fileColumn && nearestTypeOf(fileColumn.type));
    if (!inferred || (!fileColumn && !column.isOptional))
      throw invalidColumns(`/columns/${i}/source`, `the file has no column ${JSON.stringify(source ?? name)}`);
    columns.push({ name, type: inferred, nullable: true });
  }
  return columns;
}

async function typeOfExpression(connection: DuckDBConnection, fileSchema: FileSchema, expression: string) {
  const [row] = await rowsOf(connection, `DESCRIBE SELECT (${expression}\n) AS value ${expressionSource(fileSchema)}`);
  return nearestTypeOf(String(row?.[1]));
}

/** Skips rows and values that do not match the types: the load reports them. */
async function firstRows(
  connection: DuckDBConnection,
  fileSchema: FileSchema,
  columns: readonly ColumnDefinition[],
  mapping: ColumnMapping,
  rowsMax: number,
): Promise<string[]> {
  if (rowsMax === 0) return [];
  const names = mapping.columns.map((_, i) => quoteIdentifier(`v${i}`));
  const cells = columns.map(({ name, type }) => {
    const index = mapping.columns.findIndex(({ column }) => column.name === name);
    return index < 0 ? `'null'` : jsonExpression(duckdbType(type), names[index] as string, 'number');
  });
  const readerOptions = fileSchema.format === 'csv' || fileSchema.format === 'ndjson' ? ['ignore_errors = true'] : [];
  // The condition keeps the optimizer from moving a repeated expression out of TRY. See rejected_rows.ts.
  const read = mapping.columns.map(
    ({ value }, i) => `CASE WHEN random() < 0 THEN NULL ELSE TRY(${value}) END AS ${names[i]}`,
  );
  const rows = await rowsOf(
    connection,
    `SELECT concat('[', ${cells.join(", ',', ")}, ']') FROM (SELECT ${read.join(', ')} FROM ${fromText(fileSchema, mapping.types, readerOptions)} LIMIT ${rowsMax})`,
  );
  const texts: string[] = [];
  let characters = 0;
  for (const [text] of rows) {
    characters += String(text).length;
    if (characters > shownCharactersMax) break;
    texts.push(String(text));
  }
  return texts;
}
