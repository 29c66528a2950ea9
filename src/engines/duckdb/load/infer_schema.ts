// Infers the table for a file: its columns with their types, and a preview of the first rows. What the caller specifies takes precedence;
// the rest is inferred from the file.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ColumnDefinition } from '../../../model/records.ts';
import type { LogicalType } from '../../../model/types.ts';
import { byName, loadedColumns, typesByName } from '../../data_files/column_mapping.ts';
import { optionsOfInference } from '../../data_files/file_schema.ts';
import { invalidColumns } from '../../data_files/load_failures.ts';
import type { InferColumn, InferredTable, SchemaInference } from '../../port/load.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { duckdbType, jsonExpression, nearestTypeOf } from '../types/type_mapping.ts';
import { type ColumnMapping, expressionSource, mapColumns, requireExpression } from './column_mapping.ts';
import { readFileSchema } from './file_schema.ts';
import { type FileSchema, fromText } from './reader_sql.ts';
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
  inference: SchemaInference,
  { unreviewed, own }: InferenceEnvironment,
): Promise<InferredTable> {
  const { file, columns: requested, types = {}, rowsMax } = inference;
  const fileSchema = await readFileSchema(connection, file, optionsOfInference(inference));
  const columns = requested
    ? await typedColumns(connection, fileSchema, requested, unreviewed)
    : columnsOf(fileSchema, types);
  const loaded = requested && loadedColumns(fileSchema.columns, requested);
  const mapping = mapColumns(fileSchema, { columns }, loaded);
  const rows = await firstRows(connection, fileSchema, columns, mapping, rowsMax);
  const isCounted = rowsMax > 0 && fileSchema.format === 'csv';
  const sample = isCounted ? await countSample(connection, fileSchema, mapping.types, own) : undefined;
  return { columns, schema: { csv: fileSchema.csv, columns: fileSchema.columns }, loaded, rows, sample };
}

function columnsOf(fileSchema: FileSchema, types: Readonly<Record<string, LogicalType>>): ColumnDefinition[] {
  const given = typesByName(fileSchema.columns, types);
  return fileSchema.columns.map(({ name, type }) => ({
    name,
    type: given(name) ?? nearestTypeOf(type),
    nullable: true,
  }));
}

async function typedColumns(
  connection: DuckDBConnection,
  fileSchema: FileSchema,
  requested: readonly InferColumn[],
  unreviewed: ReadonlySet<string>,
): Promise<ColumnDefinition[]> {
  const inFile = byName(fileSchema.columns);
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
    const fileColumn = inFile(source ?? name);
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
