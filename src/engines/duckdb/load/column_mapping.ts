// Maps the columns of a file to the columns of a table: by name, or as the caller specifies. A caller's expression must be a single
// expression over one row of the file; it is bound and checked like a statement before it is used in one.
import type { DuckDBConnection } from '@duckdb/node-api';
import { foldName } from '../../../model/names.ts';
import type { TableDefinition } from '../../../model/records.ts';
import { isNested, type LogicalType } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import { type SourcedColumn, sourcedColumns } from '../../data_files/column_mapping.ts';
import { expressionRefusal } from '../../data_files/load_failures.ts';
import type { LoadColumn } from '../../port/load.ts';
import { readPlan } from '../analysis/plan.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { fromJson, hasMap, fromText as valueFromText } from '../query/insert_rows.ts';
import { numberTooLarge, parseTree } from '../sql/default_expression.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { duckdbType } from '../types/type_mapping.ts';
import { exactNumbers } from './exact_numbers.ts';
import { type FileColumn, type FileSchema, zonedValue } from './reader_sql.ts';

export interface MappedColumn extends SourcedColumn<FileColumn> {
  /** The SQL text of its value, over a row of the file as read with the types of the mapping. */
  readonly value: string;
}

/** How the rows of a file become rows of a table. */
export interface ColumnMapping {
  /** The columns of the file with the types that the reader gives them. */
  readonly types: readonly FileColumn[];
  readonly columns: readonly MappedColumn[];
}

/** Throws DATA_INVALID or INVALID_PARAMETER if file and table do not match. */
export function mapColumns(
  file: FileSchema,
  definition: Pick<TableDefinition, 'columns'>,
  columns: readonly LoadColumn[] | undefined,
): ColumnMapping {
  const missing = (name: string): FileColumn => ({ name, type: 'VARCHAR' });
  return withValues(file, sourcedColumns({ ...file, missing }, definition, columns));
}

/**
 * The fastest way to read a file: strings are converted to the table's types while the file is parsed. Columns of CSV that an expression names,
 * and all columns of JSON beside an expression, have the inferred types, which the expression sees.
 */
function withValues(file: FileSchema, sourced: readonly SourcedColumn<FileColumn>[]): ColumnMapping {
  const expressions = sourced.flatMap(({ expression }) => expression?.toLowerCase() ?? []);
  const mayBeSeen = (name: string) =>
    expressions.length > 0 &&
    (file.format !== 'csv' || name.includes('"') || expressions.some((text) => text.includes(name.toLowerCase())));
  const types = new Map(file.columns.map((candidate) => [foldName(candidate.name), candidate]));
  const sqlValue = ({ column, source, expression }: SourcedColumn<FileColumn>): string => {
    if (!source) return cast(`(${expression}\n)`, column.type);
    const name = quoteIdentifier(source.name);
    if (file.format === 'parquet') return fileValue(name, source.type, column.type);
    if (mayBeSeen(source.name))
      return fileValue(
        file.format === 'csv' ? exactDouble(name, source.type, column.type) : name,
        source.type,
        column.type,
      );
    const type = file.format === 'csv' ? readFromCsv(column.type) : readFromJson(column.type);
    types.set(foldName(source.name), { name: source.name, type });
    if (column.type.kind === 'TIMESTAMPTZ' && file.format === 'csv') return zonedValue(name, file.csv);
    return fileValue(name, type, column.type);
  };
  const columns = sourced.map((column) => ({ ...column, value: sqlValue(column) }));
  return { types: [...types.values()], columns };
}

/** The value of a column of CSV that was read as a double; no number if it may have had more digits, so that the row is refused. */
function exactDouble(name: string, from: string, type: LogicalType): string {
  if (from !== 'DOUBLE' || (type.kind !== 'DECIMAL' && type.kind !== 'LARGEINT')) return name;
  const scale = type.kind === 'DECIMAL' ? type.scale : 0;
  return `(CASE WHEN abs(${name}) >= 1e${15 - scale} THEN 'NaN'::DOUBLE ELSE ${name} END)`;
}

/** BINARY is base64 text, as in rows of JSON; the reader would convert an invalid TIMESTAMPTZ to null. */
const readFromCsv = (type: LogicalType): string =>
  isNested(type) || type.kind === 'BINARY' || type.kind === 'TIMESTAMPTZ' ? 'VARCHAR' : duckdbType(type);
const readFromJson = (type: LogicalType): string =>
  type.kind === 'BINARY' ? 'VARCHAR' : hasMap(type) ? 'JSON' : duckdbType(type);
const cast = (text: string, type: LogicalType): string => `CAST(${text} AS ${duckdbType(type)})`;

function fileValue(name: string, from: string, type: LogicalType): string {
  const to = duckdbType(type);
  if (from === to) return name;
  if (from === 'VARCHAR') return valueFromText(type, isNested(type) ? exactNumbers(type, name) : name);
  if (from === 'JSON') return fromJson(type, name);
  return `CAST(${name} AS ${to})`;
}

/** A FROM clause with one row of nulls that has the names and types of the file's columns. */
export const expressionSource = ({ columns }: FileSchema): string =>
  `FROM (SELECT ${columns.map(({ name, type }) => `CAST(NULL AS ${type}) AS ${quoteIdentifier(name)}`).join(', ')}) AS file`;

/** Throws INVALID_PARAMETER if an expression is not a single allowed expression over the columns of the file. */
export async function requireExpressions(
  connection: DuckDBConnection,
  file: FileSchema,
  { columns }: ColumnMapping,
  unreviewed: ReadonlySet<string>,
): Promise<void> {
  for (const [i, { column, expression }] of columns.entries()) {
    if (expression === undefined) continue;
    const pointer = `/columns/${i}/expression`;
    const request = { pointer, name: column.name, type: column.type, expression };
    await requireExpression(connection, file, request, unreviewed);
  }
}

/** `type`: the type to which the value is cast, if it is known. */
export async function requireExpression(
  connection: DuckDBConnection,
  file: FileSchema,
  {
    pointer,
    name,
    expression,
    type,
  }: {
    readonly pointer: string;
    readonly name: string;
    readonly expression: string;
    readonly type: LogicalType | undefined;
  },
  unreviewed: ReadonlySet<string>,
): Promise<void> {
  const refused = expressionRefusal(pointer, name, expression);
  await requireSingleExpression(connection, expression, refused);
  const value = `(${expression}\n)`;
  // In WHERE the engine only accepts expressions over a single row: no aggregate, window or set-returning function.
  const sql = `SELECT 1 ${expressionSource(file)} WHERE (${type ? cast(value, type) : value}) IS NULL`;
  try {
    const { kind, reads } = await readPlan(connection, sql, unreviewed);
    if (kind !== 'select' || reads.length > 0) throw refused('it names a table');
  } catch (error) {
    if (!(error instanceof Failure) || error.code === 'INVALID_PARAMETER') throw error;
    throw error.code === 'SQL_FORBIDDEN_FUNCTION'
      ? error
      : refused(String(error.result.engineMessage ?? error.message));
  }
}

interface Parsed {
  readonly error: boolean;
  readonly error_message?: string;
  readonly statements?: readonly { readonly node: Readonly<Record<string, unknown>> }[];
}

/** Parses the text in parentheses, as it is used: text that closes them or comments them out is not an expression. */
async function requireSingleExpression(connection: DuckDBConnection, text: string, refused: (why: string) => Failure) {
  const sql = `SELECT (${text}\n)`;
  const [[tree] = []] = await rowsOf(connection, 'SELECT json_serialize_sql($1::VARCHAR, skip_null := true)', [sql]);
  const parsed = parseTree<Parsed>(String(tree));
  if (parsed === undefined) throw refused(numberTooLarge);
  if (parsed.error) throw refused((parsed.error_message ?? 'it does not parse').split('\n', 1)[0] as string);
  const node = parsed.statements?.length === 1 ? parsed.statements[0]?.node : undefined;
  const { select_list: list, from_table: from, ...rest } = node ?? {};
  const isOne = Array.isArray(list) && list.length === 1 && (from as { type?: string } | undefined)?.type === 'EMPTY';
  if (!isOne || containsNode(rest, (node) => 'class' in node)) throw refused('it is not one expression');
  if (containsNode(list, (node) => node.class === 'SUBQUERY')) throw refused('it has a subquery');
  if (containsNode(list, (node) => node.class === 'STAR')) throw refused('it contains a star (*)');
  if (containsNode(list, (node) => node.class === 'PARAMETER')) throw refused('it has a parameter');
}

function containsNode(part: unknown, matches: (node: Readonly<Record<string, unknown>>) => boolean): boolean {
  if (typeof part !== 'object' || part === null) return false;
  if (!Array.isArray(part) && matches(part as Record<string, unknown>)) return true;
  return Object.values(part).some((value) => containsNode(value, matches));
}
