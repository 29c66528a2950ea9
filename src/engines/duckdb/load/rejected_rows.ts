// Finds the rows of a file that do not fit a table, with the reason and the text of each. Used only if rows may be rejected, or after a
// load failed: it takes several times as long as a load.
import { randomUUID } from 'node:crypto';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { LogicalType } from '../../../model/types.ts';
import { formatType } from '../../../model/types.ts';
import { lineAt, longestField } from '../../data_files/csv_lines.ts';
import { noObjectReason, type RejectedRow, textCharactersMax } from '../../data_files/load_failures.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { fromJson } from '../query/insert_rows.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { lengthOf } from '../sql/table_ddl.ts';
import type { ColumnMapping, MappedColumn } from './column_mapping.ts';
import { type FileSchema, fromText, jsonRecordsText } from './reader_sql.ts';

/** The rows of a file in a temporary table, which the caller must drop. */
export interface StagingTable {
  readonly table: string;
  readonly values: readonly string[];
  readonly rejected: readonly RejectedRow[];
  drop(): Promise<void>;
}

interface Source {
  readonly from: string;
  /** The row as text, or NULL if it is not available. */
  readonly record: string;
  /** A condition for records that cannot be parsed; undefined if that cannot happen. */
  readonly broken?: string;
  readonly columns: readonly (MappedColumn & {
    /** A condition for rows whose value is invalid in any case. */
    readonly fault?: string | undefined;
  })[];
}

/** `rowsMax`: the maximum number of rejected rows that are returned, one more than is allowed. */
export async function stageRows(
  connection: DuckDBConnection,
  file: FileSchema,
  mapping: ColumnMapping,
  rowsMax: number,
): Promise<StagingTable> {
  const id = randomUUID().replaceAll('-', '');
  const names = { table: `load_${id}`, rejects: `rejects_${id}`, scans: `scans_${id}` };
  const drop = async () => {
    for (const name of Object.values(names)) await connection.run(`DROP TABLE IF EXISTS temp.${quoteIdentifier(name)}`);
  };
  try {
    const source = sourceOf(file, mapping, names);
    const table = `temp.${quoteIdentifier(names.table)}`;
    await connection.run(
      `CREATE TEMP TABLE ${quoteIdentifier(names.table)} AS SELECT *, ${whichExpression(source, `"row ${id}"`)} AS "which ${id}" FROM ` +
        `(SELECT row_number() OVER () AS "row ${id}", ${source.record} AS "record ${id}", * FROM ${source.from})`,
    );
    const scanned = file.format === 'csv' ? await scanRejects(connection, names.rejects, file, rowsMax) : [];
    const found = await rowsOf(
      connection,
      `SELECT "row ${id}", "which ${id}", left("record ${id}"::VARCHAR, ${textCharactersMax}) FROM ${table} ` +
        `WHERE "which ${id}" <> 0 ORDER BY 1 LIMIT ${rowsMax}`,
    );
    const before = scanned.map(({ row }) => row);
    const later = found.map(([row, which, text]) => ({
      row: rowInFile(Number(row), before),
      ...reasonOf(Number(which), source),
      text: text === null || text === undefined ? null : String(text),
    }));
    return {
      table: `(SELECT * FROM ${table} WHERE "which ${id}" = 0 ORDER BY "row ${id}")`,
      values: source.columns.map(({ value }) => value),
      rejected: [...scanned, ...later].sort((a, b) => a.row - b.row).slice(0, rowsMax),
      drop,
    };
  } catch (error) {
    await drop();
    throw error;
  }
}

function sourceOf(
  file: FileSchema,
  { types, columns }: ColumnMapping,
  names: { rejects: string; scans: string },
): Source {
  const hasExpression = columns.some(({ source }) => !source);
  if (file.format === 'csv') {
    const keep = ['store_rejects = true', 'rejects_limit = 0'];
    const tables = [`rejects_table = ${quoteLiteral(names.rejects)}`, `rejects_scan = ${quoteLiteral(names.scans)}`];
    return { from: fromText(file, types, [...keep, ...tables]), record: 'NULL', columns };
  }
  if (file.format === 'parquet') {
    const record = types.map(({ name }) => `${quoteLiteral(name)}: ${quoteIdentifier(name)}`);
    return { from: fromText(file, types), record: `to_json({${record.join(', ')}})`, columns };
  }
  const fieldText = (name: string) => `json_extract(json, ${quoteLiteral(`$.${JSON.stringify(name)}`)})`;
  const broken = `json IS NULL OR json_type(json) <> 'OBJECT'`;
  const fromFile = columns.map((column) =>
    column.source
      ? { ...column, value: fromJson(column.column.type, fieldText(column.source.name)) }
      : { ...column, fault: faultOf(column, types) },
  );
  if (!hasExpression) return { from: jsonRecordsText(file), record: 'json', broken, columns: fromFile };
  // Expressions see the columns with the inferred types, as in a load that rejects nothing.
  const typed = types.map(({ name, type }) => {
    const text = `(${fieldText(name)} ->> '$')`;
    const value = `TRY_CAST(${text} AS ${type})`;
    return `${value} AS ${quoteIdentifier(name)}, ${text} IS NOT NULL AND ${isOther(value, text, type)} AS ${otherOf(name)}`;
  });
  return {
    from: `(SELECT json, ${typed.join(', ')} FROM ${jsonRecordsText(file)})`,
    record: 'json',
    broken,
    columns: fromFile,
  };
}

const wholeTypes = /^U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?$/;

/** A cast converts some invalid values to null, and rounds to integers. */
const isOther = (value: string, text: string, type: string): string =>
  wholeTypes.test(type) ? `(${value} IS NULL OR ${value} <> TRY_CAST(${text} AS DOUBLE))` : `${value} IS NULL`;

const otherOf = (name: string): string => quoteIdentifier(`other ${name}`);

/** An expression is invalid if a column that it uses has a value that does not match the inferred type. */
function faultOf({ expression = '' }: MappedColumn, types: ColumnMapping['types']): string | undefined {
  const named = types.filter(({ name }) => expression.toLowerCase().includes(name.toLowerCase()));
  return named.length === 0 ? undefined : named.map(({ name }) => otherOf(name)).join(' OR ');
}

/**
 * 0: valid; 1: the record cannot be parsed; 3n+2, +3, +4: the value of the nth column is invalid, null, or too long. The optimizer would
 * evaluate an expression of several TRYs once and outside of TRY, unless they follow a first condition that it cannot fold: `row`.
 */
function whichExpression({ broken, columns }: Source, row: string): string {
  const cases = columns.flatMap(({ column, value, fault }, i) => {
    const length = lengthOf(column);
    return [
      ...(fault === undefined ? [] : [`WHEN ${fault} THEN ${3 * i + 2}`]),
      // In a list, a null value can be distinguished from one that failed.
      `WHEN TRY([${value}]) IS NULL THEN ${3 * i + 2}`,
      ...(column.nullable ? [] : [`WHEN TRY(${value}) IS NULL THEN ${3 * i + 3}`]),
      ...(length === undefined ? [] : [`WHEN length(TRY(${value})) > ${length} THEN ${3 * i + 4}`]),
    ];
  });
  return `CASE WHEN ${row} IS NULL THEN 1 ${broken === undefined ? '' : `WHEN ${broken} THEN 1`} ${cases.join(' ')} ELSE 0 END`;
}

function reasonOf(which: number, { columns }: Source): Pick<RejectedRow, 'column' | 'reason'> {
  if (which === 1) return { column: null, reason: noObjectReason };
  const { column } = columns[Math.floor((which - 2) / 3)] as MappedColumn;
  const reasons = [
    `the value is none of ${formatType(column.type as LogicalType)}`,
    'the column is not nullable, and the value is null',
    `the text is longer than ${formatType(column.type as LogicalType)} takes`,
  ];
  return { column: column.name, reason: reasons[(which - 2) % 3] as string };
}

/** The rows that the CSV reader rejected. It reports every error of a row; only the first is used. */
async function scanRejects(
  connection: DuckDBConnection,
  table: string,
  file: FileSchema,
  rowsMax: number,
): Promise<RejectedRow[]> {
  const { csv } = file;
  const rows = await rowsOf(
    connection,
    `SELECT line, arg_min(column_name, column_idx), coalesce(arg_min(error_message, column_idx), any_value(error_message)), left(any_value(csv_line), ${textCharactersMax}) ` +
      `FROM temp.${quoteIdentifier(table)} GROUP BY line ORDER BY line LIMIT ${rowsMax}`,
  );
  const above = (csv.skipRows ?? 0) + (csv.header === true ? 1 : 0);
  const rejected = rows.map(([line, column, reason, text]) => ({
    row: Number(line) - above,
    column: column === null ? null : String(column),
    reason: String(reason).split('\n', 1)[0] as string,
    text: text === null ? null : String(text),
  }));
  const [first, ...others] = rejected;
  if (!first || first.column !== null || !/^Maximum line size/.test(first.reason)) return rejected;
  // DuckDB does not store the text of a line that is too long.
  return [{ ...first, ...(await longField(file, first.row + above)) }, ...others];
}

async function longField(
  { path, csv, columns }: FileSchema,
  lineNumber: number,
): Promise<Pick<RejectedRow, 'column' | 'text'>> {
  const line = await lineAt(path, lineNumber);
  const { delimiter = ',', quote = '"' } = csv;
  const field = line && longestField(line, { delimiter, quote, escape: csv.escape });
  const column = field === undefined ? null : (columns[field]?.name ?? null);
  return { column, text: line?.toString('utf8', 0, textCharactersMax) ?? null };
}

/** `counted`: the row's index among the rows that were read; `before`: the rejected rows, in order. */
function rowInFile(counted: number, before: readonly number[]): number {
  let row = counted;
  for (const count of before) {
    if (count > row) break;
    row++;
  }
  return row;
}
