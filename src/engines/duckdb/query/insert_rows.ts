// Inserts a batch of JSON rows in one statement, which is one durable commit; if a key constraint fails, finds the conflicting rows. The
// rows are validated before (see query/rows/row_validation.ts); here they are only converted to DuckDB's types, exactly.
import type { DuckDBConnection, DuckDBPreparedStatement } from '@duckdb/node-api';
import type { ColumnDefinition, TableDefinition } from '../../../model/records.ts';
import { holdsType, isNested, type LogicalType } from '../../../model/types.ts';
import { Failure, type Violation, violationsFailure } from '../../../standard/failure.ts';
import type { TableRef } from '../../port/refs.ts';
import type { InsertStep, RowsBatch } from '../../port/rows.ts';
import { inTransaction, rememberSteps, rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { nameList } from '../sql/table_ddl.ts';
import { duckdbType } from '../types/type_mapping.ts';
import { isConstraintError, objectExpression } from './constraint_violations.ts';

/**
 * A single, atomic attempt; returns the number of rows.
 * @throws Failure CONSTRAINT_VIOLATED with violations by row index, STATEMENT_CANCELLED, or DuckDB's own error: a conflict may be retried.
 */
export async function insertRows(
  connection: DuckDBConnection,
  table: TableRef,
  batch: RowsBatch,
  definition: TableDefinition,
  {
    signal,
    steps = [],
  }: { readonly signal?: AbortSignal | undefined; readonly steps?: readonly InsertStep[] | undefined } = {},
): Promise<number> {
  if (batch.rowCount === 0) return 0;
  const interrupt = (): void => connection.interrupt();
  if (signal?.aborted) throw cancelled();
  signal?.addEventListener('abort', interrupt);
  try {
    const { text, parameters } = insertStatement(table, batch);
    const run = () => runPrepared(connection, text, parameters);
    await (steps.length === 0 ? run() : runStepsOnce(connection, table, batch, steps, run));
    return batch.rowCount;
  } catch (error) {
    if (signal?.aborted) throw cancelled();
    if (!isConstraintError(error)) throw error;
    throw await findConflicts(connection, table, batch, definition, error as Error);
  } finally {
    signal?.removeEventListener('abort', interrupt);
  }
}

/** Commits the rows of keyed requests together with their steps. The batch may have rows of requests without a key, which have no step. */
function runStepsOnce(
  connection: DuckDBConnection,
  table: TableRef,
  batch: RowsBatch,
  steps: readonly InsertStep[],
  run: () => Promise<unknown>,
): Promise<void> {
  return inTransaction(connection, async () => {
    const newSteps = await rememberSteps(connection, table.catalog.name, steps);
    if (newSteps === steps.length) return void (await run());
    const keyedRows = steps.reduce((sum, { rowCount }) => sum + rowCount, 0);
    if (newSteps > 0 || keyedRows !== batch.rowCount)
      throw new Failure('CHANGE_IN_PROGRESS', 'some of the inserts were already completed');
  });
}

const cancelled = (): Failure => new Failure('STATEMENT_CANCELLED', 'the insert was cancelled; nothing was inserted');

interface ParameterizedSql {
  readonly text: string;
  readonly parameters: readonly string[];
}

function insertStatement(table: TableRef, batch: RowsBatch): ParameterizedSql {
  const parameters = [batch.json];
  const values = batch.columns.map((column, c) => valueExpression(column, c, batch, parameters));
  const names = nameList(batch.columns.map((column) => column.name));
  const text = `INSERT INTO ${qualifiedTable(table)} (${names}) SELECT ${values.join(', ')} FROM ${source(batch)}`;
  return { text, parameters };
}

/**
 * Of the measured ways (read_json of a file, an Appender, typed from_json of objects and others), casting lists of strings item by item is
 * the fastest for rows as arrays, and a cast from a string is exact for every number.
 * `r` is the row, `i` its index if it is needed.
 */
function source(batch: RowsBatch, indexed = batch.omitted !== undefined): string {
  const rows = `system.main.from_json_strict($1::VARCHAR, '[["VARCHAR"]]')`;
  if (!indexed) return `(SELECT unnest(${rows}) AS r)`;
  return `(SELECT unnest(rows) AS r, unnest(system.main.range(len(rows))) AS i FROM (SELECT ${rows} AS rows))`;
}

/** The first parameter is the rows. If some of them omit the column, their indexes are another parameter. */
function valueExpression(column: ColumnDefinition, c: number, batch: RowsBatch, parameters: string[]): string {
  const value = fromText(column.type, `r[${c + 1}]`);
  const omitted = batch.omitted?.find((omission) => omission.column === c);
  if (omitted === undefined) return value;
  parameters.push(JSON.stringify(omitted.rows));
  const rows = `(SELECT unnest(system.main.from_json_strict($${parameters.length}::VARCHAR, '["BIGINT"]')))`;
  return `CASE WHEN i IN ${rows} THEN (${column.defaultValue ?? 'NULL'})::${duckdbType(column.type)} ELSE ${value} END`;
}

/** Converts a string to a value; for nested types the string is JSON. */
export function fromText(type: LogicalType, text: string): string {
  if (!isNested(type)) return fromLeaf(type, text);
  return fromWire(type, `system.main.from_json_strict(${text}, ${quoteLiteral(JSON.stringify(wireOf(type)))})`, 0);
}

/** Converts JSON of a file to a value; there, a map may also be an object. */
export function fromJson(type: LogicalType, json: string): string {
  if (type.kind === 'JSON') return `nullif(${json}, 'null'::JSON)`;
  if (!isNested(type)) return fromLeaf(type, `(${json} ->> '$')`);
  const text = fromText(type, `${json}::VARCHAR`);
  if (type.kind !== 'MAP') return text;
  return `CASE WHEN json_type(${json}) = 'OBJECT' THEN CAST(${json} AS ${duckdbType(type)}) ELSE ${text} END`;
}

/** DuckDB's JSON reader accepts maps only as objects. */
export const hasMap = (type: LogicalType): boolean => holdsType(type, ({ kind }) => kind === 'MAP');

function fromLeaf(type: LogicalType, text: string): string {
  switch (type.kind) {
    case 'STRING':
    case 'CHAR':
    case 'VARCHAR':
      return text;
    case 'BINARY':
      return `from_base64(${text})`;
    default:
      return `${text}::${duckdbType(type)}`;
  }
}

/** The structure of a nested value for from_json: every leaf is a string, a map is a list of entries. */
function wireOf(type: LogicalType): unknown {
  switch (type.kind) {
    case 'ARRAY':
      return [wireOf(type.element)];
    case 'MAP':
      return [{ key: wireOf(type.key), value: wireOf(type.value) }];
    case 'STRUCT':
      return Object.fromEntries(type.fields.map((field) => [field.name, wireOf(field.type)]));
    default:
      return 'VARCHAR';
  }
}

/** Converts a value of that structure to the type, with a single cast if that is possible. */
function fromWire(type: LogicalType, wire: string, depth: number): string {
  if (isCastable(type)) return `${wire}::${duckdbType(type)}`;
  const e = `e${depth}`;
  switch (type.kind) {
    case 'ARRAY':
      return `list_transform(${wire}, lambda ${e}: ${fromWire(type.element, e, depth + 1)})`;
    case 'MAP': {
      const key = fromWire(type.key, `${e}.key`, depth + 1);
      const value = fromWire(type.value, `${e}.value`, depth + 1);
      return `map_from_entries(list_transform(${wire}, lambda ${e}: {'key': ${key}, 'value': ${value}}))::${duckdbType(type)}`;
    }
    case 'STRUCT': {
      const fields = type.fields.map(
        (field) =>
          `${quoteLiteral(field.name)}: ${fromWire(field.type, `struct_extract(${wire}, ${quoteLiteral(field.name)})`, depth + 1)}`,
      );
      return `CASE WHEN ${wire} IS NULL THEN NULL ELSE {${fields.join(', ')}} END`;
    }
    default:
      return fromLeaf(type, wire);
  }
}

const isCastable = (type: LogicalType): boolean => !holdsType(type, ({ kind }) => kind === 'BINARY' || kind === 'MAP');

/** More conflicting rows than this are not reported. */
const conflictsMax = 10_000;

const preparedMax = 32;
const prepared = new WeakMap<DuckDBConnection, Map<string, DuckDBPreparedStatement>>();

/** Clients insert into few tables many times, and preparing takes a third of a small insert. DuckDB rebinds after a change. */
async function runPrepared(connection: DuckDBConnection, text: string, values: readonly string[]): Promise<void> {
  const statements = prepared.get(connection) ?? new Map<string, DuckDBPreparedStatement>();
  prepared.set(connection, statements);
  const statement = statements.get(text) ?? (await connection.prepare(text));
  // Entries are ordered from the least to the most recently used.
  statements.delete(text);
  try {
    values.forEach((value, i) => {
      statement.bindVarchar(i + 1, value);
    });
    await statement.run();
    statement.clearBindings();
    statements.set(text, statement);
    const [oldest] = statements.keys();
    if (statements.size > preparedMax && oldest !== undefined) {
      statements.get(oldest)?.destroySync();
      statements.delete(oldest);
    }
  } catch (error) {
    statement.destroySync();
    throw error;
  }
}

async function findConflicts(
  connection: DuckDBConnection,
  table: TableRef,
  batch: RowsBatch,
  definition: TableDefinition,
  error: Error,
): Promise<Failure> {
  const found: { readonly index: number; readonly violation: Violation }[] = [];
  const keys = [
    { rule: 'primaryKey', names: definition.primaryKey },
    { rule: 'uniqueKey', names: definition.uniqueKey },
  ];
  for (const { rule, names } of keys) {
    const columns = names.flatMap((name) => definition.columns.find((column) => column.name === name) ?? []);
    if (columns.length === 0) continue;
    const { text, parameters } = conflictStatement(table, batch, columns);
    for (const [index, key, first, exists] of await rowsOf(connection, text, [...parameters])) {
      const message = exists ? `the key ${key} already exists` : `row ${first} has the same key ${key}`;
      found.push({ index: Number(index), violation: { pointer: `/rows/${index}`, rule, message } });
    }
  }
  found.sort((a, b) => a.index - b.index);
  if (found.length > 0) {
    return violationsFailure(
      'CONSTRAINT_VIOLATED',
      'rows violate a key of the table; nothing was inserted',
      found.map((f) => f.violation),
    );
  }
  // The conflicting row may have been deleted since, or a default violates NOT NULL or a length.
  const reason = error.message.replace(/^Constraint Error: /, '').split('\n')[0];
  return new Failure('CONSTRAINT_VIOLATED', `${reason}; nothing was inserted`, {}, { cause: error });
}

/** Selects rows whose key an earlier row of the batch or of the table has: index, key, index of the first, whether in the table. */
function conflictStatement(table: TableRef, batch: RowsBatch, columns: readonly ColumnDefinition[]): ParameterizedSql {
  const parameters = [batch.json];
  const names = columns.map((column) => quoteIdentifier(column.name));
  const keys = columns.map((column, k) => {
    const c = batch.columns.findIndex((candidate) => candidate.name === column.name);
    const value =
      c < 0
        ? `(${column.defaultValue ?? 'NULL'})::${duckdbType(column.type)}`
        : valueExpression(column, c, batch, parameters);
    return `${value} AS ${names[k]}`;
  });
  const text =
    `WITH batch AS MATERIALIZED (SELECT i, ${keys.join(', ')} FROM ${source(batch, true)}), ` +
    `numbered AS (SELECT *, min(i) OVER (PARTITION BY ${names.join(', ')}) AS first_i FROM batch ` +
    `WHERE ${names.map((name) => `${name} IS NOT NULL`).join(' AND ')}), ` +
    `held AS (SELECT ${names.join(', ')}, true AS held FROM ${qualifiedTable(table)}) ` +
    `SELECT i, ${objectExpression(columns)}, first_i, coalesce(held, false) FROM numbered LEFT JOIN held USING (${names.join(', ')}) ` +
    `WHERE held OR first_i < i ORDER BY i LIMIT ${conflictsMax}`;
  return { text, parameters };
}
