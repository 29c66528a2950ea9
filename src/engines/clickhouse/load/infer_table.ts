// Infers the table for a file: its columns with their types, and a preview of the first rows. What the caller specifies takes precedence; the
// rest is inferred from the file.
import type { ColumnDefinition } from '../../../model/records.ts';
import type { LogicalType } from '../../../model/types.ts';
import { byName, loadedColumns, typesByName } from '../../data_files/column_mapping.ts';
import { optionsOfInference } from '../../data_files/file_schema.ts';
import { invalidColumns } from '../../data_files/load_failures.ts';
import type { InferColumn, InferredTable, LoadColumn, RowSample, SchemaInference } from '../../port/load.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { rowsRewriter } from '../types/json_rows.ts';
import { logicalTypeOf, serverType } from '../types/type_mapping.ts';
import { checkRows } from './checked_rows.ts';
import { mapColumns } from './column_mapping.ts';
import { expressionType, requireExpressions } from './expressions.ts';
import { writeHead } from './file_head.ts';
import { type FileShape, readShape, schemaOf } from './file_shape.ts';
import { computeSettings, nativeSource } from './native_source.ts';
import { type ParquetColumn, readParquetColumns } from './parquet_columns.ts';

/** Limit for the previewed rows together. */
const shownCharactersMax = 262_144;
const previewTimeoutMs = 60_000;

/** Throws DATA_INVALID, INVALID_PARAMETER, SQL_FORBIDDEN_FUNCTION. */
export async function inferTable(
  server: ClickHouseServer,
  inference: SchemaInference,
  signal: AbortSignal,
): Promise<InferredTable> {
  const { file, columns: requested, types = {}, rowsMax } = inference;
  let parquet: readonly ParquetColumn[] = [];
  const shape = await readShape(file, optionsOfInference(inference), async (path) => {
    parquet = await readParquetColumns(server, path, signal);
    return parquet;
  });
  const columns = requested ? await typedColumns(server, shape, requested, signal) : columnsOf(shape, types);
  const loaded = requested && loadedColumns(shape.columns, requested);
  const schema = schemaOf(shape);
  if (rowsMax === 0) return { columns, schema, loaded, rows: [] };
  const { rows, sample } = await preview(server, shape, columns, loaded, { rowsMax, parquet, signal });
  return { columns, schema, loaded, rows, ...(file.format === 'csv' && sample ? { sample } : {}) };
}

function columnsOf(shape: FileShape, types: Readonly<Record<string, LogicalType>>): ColumnDefinition[] {
  const given = typesByName(shape.columns, types);
  return shape.columns.map(({ name, type }) => ({ name, type: given(name) ?? type, nullable: true }));
}

async function typedColumns(
  server: ClickHouseServer,
  shape: FileShape,
  requested: readonly InferColumn[],
  signal: AbortSignal,
): Promise<ColumnDefinition[]> {
  const inFile = byName(shape.columns);
  const columns: ColumnDefinition[] = [];
  for (const [i, { name, source, expression, type, isOptional }] of requested.entries()) {
    if (expression !== undefined) {
      const found = await expressionType(server, shape, { expression, name, index: i }, signal);
      columns.push({ name, type: type ?? logicalTypeOf(found) ?? { kind: 'STRING' }, nullable: true });
      continue;
    }
    const fileColumn = inFile(source ?? name);
    const inferred = type ?? fileColumn?.type;
    if (!inferred || (!fileColumn && !isOptional))
      throw invalidColumns(`/columns/${i}/source`, `the file has no column ${JSON.stringify(source ?? name)}`);
    columns.push({ name, type: inferred, nullable: true });
  }
  return columns;
}

interface PreviewOptions {
  readonly rowsMax: number;
  readonly parquet: readonly ParquetColumn[];
  readonly signal: AbortSignal;
}

/** The first rows that fit, of the beginning of the file. */
async function preview(
  server: ClickHouseServer,
  shape: FileShape,
  columns: readonly ColumnDefinition[],
  loaded: readonly LoadColumn[] | undefined,
  { rowsMax, parquet, signal }: PreviewOptions,
): Promise<{ readonly rows: readonly string[]; readonly sample: RowSample | undefined }> {
  const call = { timeoutMs: previewTimeoutMs, isOfCaller: true, signal };
  const mapped = await requireExpressions(server, shape, mapColumns(shape, { columns }, loaded), signal);
  const head = await writeHead(shape);
  try {
    const native = shape.file.format === 'parquet' ? nativeSource(shape, mapped, parquet) : undefined;
    const checked = await checkRows(server, {
      shape: { ...shape, file: { ...shape.file, path: head.path } },
      mapped,
      native,
      rejectedMax: head.rowsMax,
      call,
    });
    try {
      const values = columns.map(({ name, type }) => {
        const found = checked.sql.columns.find(({ mapped: { column } }) => column.name === name);
        return found ? `CAST(${found.value} AS ${serverType(type, true)})` : 'NULL';
      });
      const rewrite = rowsRewriter(columns.map(({ type }) => serverType(type, true)));
      const text = await server.text({
        ...call,
        sql: `SELECT ${values.join(', ')} FROM ${checked.sql.from} ${checked.where} ORDER BY \`_row_number\` LIMIT ${rowsMax} FORMAT JSONCompactEachRow`,
        settings: { ...computeSettings, date_time_output_format: 'iso', output_format_decimal_trailing_zeros: 1 },
      });
      const lines = rewrite(Buffer.from(text))
        .rows.toString()
        .split('\n')
        .filter((line) => line !== '');
      const [counted] = await server.rows<{ n: string }>({
        ...call,
        sql: `SELECT toString(count()) AS n FROM ${checked.sql.from} ${checked.where}`,
        settings: computeSettings,
      });
      const rowsRejected = checked.rejected.length;
      return { rows: shown(lines), sample: { rows: Number(counted?.n ?? 0) + rowsRejected, rowsRejected } };
    } finally {
      await checked.drop();
    }
  } catch (error) {
    // The load reports what is wrong with the file.
    if (error instanceof ClickHouseError) return { rows: [], sample: undefined };
    throw error;
  } finally {
    await head.remove();
  }
}

function shown(lines: readonly string[]): string[] {
  const texts: string[] = [];
  let characters = 0;
  for (const line of lines) {
    characters += line.length;
    if (characters > shownCharactersMax) break;
    texts.push(line.replace(/,$/, ''));
  }
  return texts;
}
