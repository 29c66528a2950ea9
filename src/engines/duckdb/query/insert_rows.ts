// Inserts a batch of JSON rows in one statement, which is one durable commit; where a key refuses it, finds the rows that clash. The
// rows were checked before (query/rows/row_validation.ts); here they are only turned into DuckDB's types, exactly.
import type { DuckDBConnection, DuckDBPreparedStatement } from '@duckdb/node-api';
import type { ColumnDefinition, TableDefinition } from '../../../model/records.ts';
import { holdsType, type LogicalType } from '../../../model/types.ts';
import { Failure, type Violation, violated } from '../../../standard/failure.ts';
import type { InsertStep, RowsBatch, TableRef } from '../../engine.ts';
import { inTransaction, rememberSteps, rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { nameList } from '../sql/table_ddl.ts';
import { duckdbType } from '../types/type_mapping.ts';
import { isConstraintError, objectExpression } from './constraint_violations.ts';

/**
 * One attempt, all or nothing; returns the number of rows.
 * @throws Failure CONSTRAINT_VIOLATED with violations by row index, STATEMENT_CANCELLED, or what DuckDB threw: a conflict may be retried.
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
    await (steps.length === 0 ? run() : once(connection, table, batch, steps, run));
    return batch.rowCount;
  } catch (error) {
    if (signal?.aborted) throw cancelled();
    if (!isConstraintError(error)) throw error;
    throw await clashes(connection, table, batch, definition, error as Error);
  } finally {
    signal?.removeEventListener('abort', interrupt);
  }
}

/** What keyed requests insert commits together with their steps. The batch may have rows of requests without a key, which have no step. */
function once(
  connection: DuckDBConnection,
  table: TableRef,
  batch: RowsBatch,
  steps: readonly InsertStep[],
  run: () => Promise<unknown>,
): Promise<void> {
  return inTransaction(connection, async () => {
    const isNew = await rememberSteps(connection, table.catalog.name, steps);
    if (isNew === steps.length) return void (await run());
    const keyedRows = steps.reduce((sum, { rowCount }) => sum + rowCount, 0);
    if (isNew > 0 || keyedRows !== batch.rowCount)
      throw new Failure('CHANGE_IN_PROGRESS', 'some of the requests were done before');
  });
}

const cancelled = (): Failure => new Failure('STATEMENT_CANCELLED', 'the insert was cancelled; nothing was inserted');

interface BoundText {
  readonly text: string;
  readonly parameters: readonly string[];
}

function insertStatement(table: TableRef, batch: RowsBatch): BoundText {
  const parameters = [batch.json];
  const values = batch.columns.map((column, c) => valueExpression(column, c, batch, parameters));
  const names = nameList(batch.columns.map((column) => column.name));
  const text = `INSERT INTO ${qualifiedTable(table)} (${names}) SELECT ${values.join(', ')} FROM ${source(batch)}`;
  return { text, parameters };
}

/**
 * Measured against read_json of a file, an Appender, typed from_json of objects and more: lists of texts, cast one by one, are the
 * fastest that keep row-wise arrays, and a cast from text is exact for every number.
 * `r` is the row, `i` its index where that is needed.
 */
function source(batch: RowsBatch, indexed = batch.omitted !== undefined): string {
  const rows = `system.main.from_json_strict($1::VARCHAR, '[["VARCHAR"]]')`;
  if (!indexed) return `(SELECT unnest(${rows}) AS r)`;
  return `(SELECT unnest(rows) AS r, unnest(system.main.range(len(rows))) AS i FROM (SELECT ${rows} AS rows))`;
}

/** The first parameter is the rows; where a column's default stands in some of them, their indexes are one more. */
function valueExpression(column: ColumnDefinition, c: number, batch: RowsBatch, parameters: string[]): string {
  const given = fromText(column.type, `r[${c + 1}]`);
  const omitted = batch.omitted?.find((one) => one.column === c);
  if (omitted === undefined) return given;
  parameters.push(JSON.stringify(omitted.rows));
  const rows = `(SELECT unnest(system.main.from_json_strict($${parameters.length}::VARCHAR, '["BIGINT"]')))`;
  return `CASE WHEN i IN ${rows} THEN (${column.defaultValue ?? 'NULL'})::${duckdbType(column.type)} ELSE ${given} END`;
}

/** A value from its text: of a nested one, the text is JSON. */
export function fromText(type: LogicalType, text: string): string {
  if (!isNested(type)) return fromLeaf(type, text);
  return fromWire(type, `system.main.from_json_strict(${text}, ${quoteLiteral(JSON.stringify(wireOf(type)))})`, 0);
}

/** A value from JSON as a file has it: a map may be an object there, too. */
export function fromJson(type: LogicalType, json: string): string {
  if (type.kind === 'JSON') return `nullif(${json}, 'null'::JSON)`;
  if (!isNested(type)) return fromLeaf(type, `(${json} ->> '$')`);
  const text = fromText(type, `${json}::VARCHAR`);
  if (type.kind !== 'MAP') return text;
  return `CASE WHEN json_type(${json}) = 'OBJECT' THEN CAST(${json} AS ${duckdbType(type)}) ELSE ${text} END`;
}

/** DuckDB's reader of JSON takes maps as objects only. */
export const hasMap = (type: LogicalType): boolean => holdsType(type, ({ kind }) => kind === 'MAP');

export function isNested(type: LogicalType): boolean {
  return type.kind === 'ARRAY' || type.kind === 'MAP' || type.kind === 'STRUCT';
}

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

/** The shape of a nested value as from_json reads it: every leaf a text, a map its entries. */
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

/** From that shape to the type. Where a cast does it for the whole, it is one cast. */
function fromWire(type: LogicalType, wire: string, depth: number): string {
  if (castable(type)) return `${wire}::${duckdbType(type)}`;
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

const castable = (type: LogicalType): boolean => !holdsType(type, ({ kind }) => kind === 'BINARY' || kind === 'MAP');

/** More clashing rows than this are not counted. */
const clashesMax = 10_000;

const preparedMax = 32;
const prepared = new WeakMap<DuckDBConnection, Map<string, DuckDBPreparedStatement>>();

/** A client inserts into few tables many times; preparing costs a third of a small insert. DuckDB binds anew after a change. */
async function runPrepared(connection: DuckDBConnection, text: string, values: readonly string[]): Promise<void> {
  const statements = prepared.get(connection) ?? new Map<string, DuckDBPreparedStatement>();
  prepared.set(connection, statements);
  const statement = statements.get(text) ?? (await connection.prepare(text));
  // The least recently used is the first.
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

async function clashes(
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
    const { text, parameters } = clashStatement(table, batch, columns);
    for (const [index, key, first, exists] of await rowsOf(connection, text, [...parameters])) {
      const message = exists ? `the key ${key} exists already` : `row ${first} has the same key ${key}`;
      found.push({ index: Number(index), violation: { pointer: `/rows/${index}`, rule, message } });
    }
  }
  found.sort((a, b) => a.index - b.index);
  if (found.length > 0) {
    return violated(
      'CONSTRAINT_VIOLATED',
      'rows break a key of the table; nothing was inserted',
      found.map((f) => f.violation),
    );
  }
  // The row it clashed with may be gone since; or a default broke a NOT NULL or a length.
  const reason = error.message.replace(/^Constraint Error: /, '').split('\n')[0];
  return new Failure('CONSTRAINT_VIOLATED', `${reason}; nothing was inserted`, {}, { cause: error });
}

/** Rows of the batch whose key an earlier row of it has, or a row of the table: index, key, index of the first, whether in the table. */
function clashStatement(table: TableRef, batch: RowsBatch, columns: readonly ColumnDefinition[]): BoundText {
  const parameters = [batch.json];
  const names = columns.map((column) => quoteIdentifier(column.name));
  const keys = columns.map((column, k) => {
    const c = batch.columns.findIndex((one) => one.name === column.name);
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
    `WHERE held OR first_i < i ORDER BY i LIMIT ${clashesMax}`;
  return { text, parameters };
}
