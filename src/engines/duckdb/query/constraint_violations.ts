// Finds the rows that violate a constraint after DuckDB refused them. Only reads.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ColumnDefinition } from '../../../model/records.ts';
import { Failure } from '../../../standard/failure.ts';
import { parseJson } from '../../../standard/json/parse_json.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { type Alteration, pairColumns } from '../sql/alter_table_sql.ts';
import { qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';
import { duckdbType, jsonExpression } from '../types/type_mapping.ts';

/** Maximum number of keys or rows in a failure. */
const sampleMax = 10;
/** Maximum number of columns of a row that are shown for tables without a primary key. */
const sampleColumnsMax = 8;

export function isConstraintError(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('Constraint Error');
}

/** Finds the data that prevents the alteration; undefined if nothing is found (any more). */
export async function violatedByAlteration(
  connection: DuckDBConnection,
  alteration: Alteration,
): Promise<Failure | undefined> {
  const { table, from, to, hidesRows = false } = alteration;
  const source = qualifiedTable(table);
  const pairs = pairColumns(alteration);
  const originOf = (name: string): ColumnDefinition | undefined => pairs.find((p) => p.column.name === name)?.origin;
  for (const { column, origin } of pairs) {
    if (column.nullable || origin?.nullable === false) continue;
    if (origin === undefined && column.defaultValue !== undefined) continue;
    const condition = origin === undefined ? 'true' : `${quoteIdentifier(origin.name)} IS NULL`;
    const identifying = from.columns.filter((c) => from.primaryKey.includes(c.name));
    const shown = identifying.length > 0 ? identifying : from.columns.slice(0, sampleColumnsMax);
    const { count, sample } = await countAndSample(connection, shown, `FROM ${source} WHERE ${condition}`);
    if (count === 0) continue;
    return new Failure(
      'CONSTRAINT_VIOLATED',
      origin === undefined
        ? `the column "${column.name}" is not nullable and has no default, but the table has ${count} rows`
        : `the column "${column.name}" is null in ${count} rows`,
      { column: column.name, count, ...(hidesRows ? {} : { rows: sample }) },
    );
  }
  for (const key of [to.primaryKey, to.uniqueKey]) {
    const columns = key.map(originOf);
    if (key.length === 0 || columns.includes(undefined)) continue;
    const keyColumns = columns as ColumnDefinition[];
    const names = keyColumns.map((c) => quoteIdentifier(c.name));
    const { count, sample } = await countAndSample(
      connection,
      keyColumns,
      `FROM (SELECT ${names.join(', ')} FROM ${source} WHERE ${names.map((n) => `${n} IS NOT NULL`).join(' AND ')} ` +
        `GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL)`,
      key,
    );
    if (count === 0) continue;
    return new Failure(
      'CONSTRAINT_VIOLATED',
      `${count} duplicate ${count === 1 ? 'value' : 'values'} of (${key.join(', ')})`,
      { ...(hidesRows ? {} : { keys: sample }), count },
    );
  }
  return undefined;
}

/** A SQL expression for a JSON object of the row's columns. */
export function objectExpression(columns: readonly ColumnDefinition[], names = columns.map((c) => c.name)): string {
  const fields = columns.map((c, i) => {
    const name = JSON.stringify(names[i]).replaceAll("'", "''");
    return `'${i === 0 ? '' : ','}${name}:', ${jsonExpression(duckdbType(c.type), quoteIdentifier(c.name), 'number')}`;
  });
  return `concat('{', ${fields.join(', ')}, '}')`;
}

async function countAndSample(
  connection: DuckDBConnection,
  columns: readonly ColumnDefinition[],
  source: string,
  names?: readonly string[],
): Promise<{ readonly count: number; readonly sample: unknown[] }> {
  const count = Number((await rowsOf(connection, `SELECT count(*) ${source}`))[0]?.[0] ?? 0);
  if (count === 0) return { count, sample: [] };
  const object = objectExpression(columns, names as string[] | undefined);
  const rows = await rowsOf(connection, `SELECT ${object} ${source} LIMIT ${sampleMax}`);
  return { count, sample: rows.map(([text]) => parseJson(String(text))) };
}
