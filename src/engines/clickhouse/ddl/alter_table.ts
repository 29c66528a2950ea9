// Changes the columns of a table: what the servers have now shows which of the statements are still to be run.
import type { ColumnDefinition, TableDefinition } from '../../../model/records.ts';
import { Failure } from '../../../standard/failure.ts';
import type { Change, ChangeCost } from '../../port/changes.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import { namesOf } from '../names.ts';
import { takeOverChanges } from '../replication/take_over.ts';
import { qualifiedName, quoteIdentifier } from '../sql/identifiers.ts';
import { serverType } from '../types/type_mapping.ts';
import type { ChangeOn } from './change_on.ts';
import { distribute } from './distribute.ts';
import type { ServerColumn, ServerTables, TablePlace } from './server_tables.ts';
import { columnSql, constraintsOf, sortingKey } from './table_sql.ts';
import { bindDependents, followSources } from './views.ts';

type Alteration = Extract<Change, { readonly kind: 'alterTable' }>;

/** A column of the new definition, and that of the old one that has its data. */
interface ColumnPair {
  readonly column: ColumnDefinition;
  readonly origin: ColumnDefinition | undefined;
}

/** How long the servers may take to rewrite the data of a table. */
const rewriteTimeoutMs = 6 * 3600 * 1000;
/** Waits until this server has done the work. To wait for all replicas, also those that are away, would take two minutes and then fail. */
const waiting = { mutations_sync: 1, alter_sync: 1 };
/** Errors of an ALTER that the servers do not support: of a column in a key, or to a type. */
const refusedCodes: readonly number[] = [36, 44, 48, 50, 53, 70, 524];

/**
 * Adding a column with a default writes it into all rows, so that they keep it when the default changes. Throws CHANGE_NOT_SUPPORTED for
 * what the servers refuse, before anything is changed.
 */
export function costOfAlteration(change: Alteration): ChangeCost {
  requireSupported(change);
  const rewrites = pairsOf(change).some(({ column, origin }) =>
    origin === undefined
      ? column.defaultValue !== undefined
      : changesType(column, origin) || loosesNulls(column, origin),
  );
  return rewrites ? 'rewrite' : 'instant';
}

export async function alterTable(on: ChangeOn, change: Alteration): Promise<void> {
  const { database, table, localTable } = namesOf({ ...change.table, catalog: change.table.catalog.name });
  const place = { database, table: localTable };
  requireSupported(change);
  const columns = change.to.columns.map(({ name, type, nullable }) => ({ name, type: serverType(type, nullable) }));
  const views = await bindDependents(on, { place: { database, table }, columns }, change.views ?? []);
  await on.onEachCopy((tables) => requireNoNulls(tables, place, change));
  try {
    await on.onEachCopy((tables) => alterLocal(tables, place, change));
  } catch (error) {
    if (!(error instanceof ClickHouseError) || !refusedCodes.includes(error.code)) throw error;
    throw new Failure(
      'CHANGE_NOT_SUPPORTED',
      'the engine cannot change a column of this table in this way',
      {},
      { cause: error },
    );
  }
  await takeOverChanges(on.cluster, place);
  await distribute(on, change.table, change.to, await retainedKey(on, { database, table }, change));
  await followSources(on, views);
}

/** By which rows are spread now, so that a repeated insert meets the same shards; undefined if a column is dropped or renamed that may be in the key. */
async function retainedKey(on: ChangeOn, place: TablePlace, { from, to }: Alteration): Promise<string | undefined> {
  if (!from.columns.every(({ name }) => to.columns.some((column) => column.name === name))) return undefined;
  let key: string | undefined;
  await on.onEachCopy(async (tables) => {
    key ??= await tables.shardingKey(place);
  });
  return key;
}

const renamed = ({ renamedColumns }: Alteration, name: string): string =>
  Object.hasOwn(renamedColumns, name) ? (renamedColumns[name] as string) : name;

function pairsOf(change: Alteration): readonly ColumnPair[] {
  const origins = new Map(change.from.columns.map((column) => [renamed(change, column.name), column]));
  return change.to.columns.map((column) => ({ column, origin: origins.get(column.name) }));
}

const changesType = (column: ColumnDefinition, origin: ColumnDefinition): boolean =>
  serverType(column.type, true) !== serverType(origin.type, true);

const loosesNulls = (column: ColumnDefinition, origin: ColumnDefinition): boolean =>
  origin.nullable && !column.nullable;

/** The order and the partitions of rows, and the columns that they use, cannot be changed; names cannot be exchanged in one statement. */
function requireSupported(change: Alteration): void {
  const { from, to } = change;
  const oldNames = new Set(from.columns.map(({ name }) => name));
  const dropped = from.columns.filter(
    ({ name }) => !to.columns.some((column) => column.name === renamed(change, name)),
  );
  const isTaken = (name: string) => oldNames.has(name) && !dropped.some((column) => column.name === name);
  const swaps = Object.entries(change.renamedColumns).some(([old, name]) => old !== name && isTaken(name));
  if (swaps) throw unsupported('the engine cannot exchange the names of columns; rename one of them first');
  const key = (definition: TableDefinition, nameOf: (name: string) => string) =>
    JSON.stringify([definition.orderBy, definition.partitionBy].map((list) => list.map(nameOf)));
  const retained = sortingKey(from).length > 0 || from.partitionBy.length > 0 || to.orderBy.length > 0;
  if (retained && key(from, (name) => renamed(change, name)) !== key(to, (name) => name))
    throw unsupported('the engine cannot change the order or the partitions of the rows of a table');
  const keyNames = new Set([...(from.orderBy.length > 0 ? from.orderBy : from.primaryKey), ...from.partitionBy]);
  for (const { column, origin } of pairsOf(change)) {
    if (!origin || !keyNames.has(origin.name)) continue;
    const isSameType = serverType(column.type, column.nullable) === serverType(origin.type, origin.nullable);
    if (origin.name === column.name && isSameType) continue;
    const what = origin.name === column.name ? 'change the type of' : 'rename';
    throw unsupported(
      `the engine cannot ${what} the column ${JSON.stringify(origin.name)}, by which the rows of the table are ordered or partitioned`,
    );
  }
}

const unsupported = (message: string) => new Failure('CHANGE_NOT_SUPPORTED', message);

/** Throws CONSTRAINT_VIOLATED if a column that is to be without nulls has some. */
async function requireNoNulls(
  tables: ServerTables,
  place: { readonly database: string; readonly table: string },
  change: Alteration,
): Promise<void> {
  const current = new Set((await tables.columns(place.database, place.table)).map(({ name }) => name));
  for (const { column, origin } of pairsOf(change)) {
    if (!origin || !loosesNulls(column, origin)) continue;
    const name = current.has(origin.name) ? origin.name : column.name;
    const count = `SELECT toString(countIf(isNull(${quoteIdentifier(name)}))) AS n`;
    const sql = `${count} FROM ${qualifiedName(place)} SETTINGS prefer_column_name_to_alias = 1`;
    const [row] = await tables.rows<{ n: string }>(sql);
    if (Number(row?.n ?? 0) > 0)
      throw new Failure('CONSTRAINT_VIOLATED', `the column "${column.name}" has ${row?.n} nulls`);
  }
}

async function alterLocal(
  tables: ServerTables,
  place: { readonly database: string; readonly table: string },
  change: Alteration,
): Promise<void> {
  const alter = `ALTER TABLE ${qualifiedName(place)}`;
  const pairs = pairsOf(change);
  const before = await tables.columns(place.database, place.table);
  const structure = structureCommands(change, pairs, before);
  await dropConstraints(tables, alter, change);
  if (structure.length > 0) await tables.run(`${alter} ${structure.join(', ')}`, { settings: waiting });
  const added = pairs.filter(({ origin, column }) => !origin && column.defaultValue !== undefined);
  for (const { column } of added) await rewrite(tables, `${alter} MATERIALIZE COLUMN ${quoteIdentifier(column.name)}`);
  await modifyColumns(tables, place, change);
  const constraints = [...constraintsOf(change.to)].map(
    ([name, check]) => `ADD CONSTRAINT IF NOT EXISTS ${quoteIdentifier(name)} CHECK ${check}`,
  );
  if (constraints.length > 0) await tables.run(`${alter} ${constraints.join(', ')}`);
}

const rewrite = (tables: ServerTables, sql: string): Promise<void> =>
  tables.run(sql, { timeoutMs: rewriteTimeoutMs, isOfCaller: true, settings: waiting });

/** Drops, renames and adds columns in one statement, which a server carries out whole. Empty if the table has the new columns already. */
function structureCommands(
  change: Alteration,
  pairs: readonly ColumnPair[],
  current: readonly ServerColumn[],
): readonly string[] {
  const names = new Set(current.map(({ name }) => name));
  const hasAll = pairs.every(({ column }) => names.has(column.name)) && names.size === pairs.length;
  const dropped = change.from.columns.filter(({ name }) => !pairs.some(({ origin }) => origin?.name === name));
  const isOld = change.from.columns.every(({ name }) => names.has(name)) && names.size === change.from.columns.length;
  if (hasAll && !(isOld && dropped.length > 0)) return [];
  const renames = pairs.flatMap(({ column, origin }) =>
    origin && origin.name !== column.name
      ? [`RENAME COLUMN ${quoteIdentifier(origin.name)} TO ${quoteIdentifier(column.name)}`]
      : [],
  );
  const added = pairs.filter(({ origin }) => !origin).map(({ column }) => `ADD COLUMN ${columnSql(column)}`);
  return [...dropped.map(({ name }) => `DROP COLUMN ${quoteIdentifier(name)}`), ...renames, ...added];
}

/** Types, defaults and the order of columns. */
async function modifyColumns(
  tables: ServerTables,
  place: { readonly database: string; readonly table: string },
  change: Alteration,
): Promise<void> {
  const alter = `ALTER TABLE ${qualifiedName(place)}`;
  const current = await tables.columns(place.database, place.table);
  const isOrdered = change.to.columns.every(({ name }, index) => current[index]?.name === name);
  let previous: string | undefined;
  for (const { column, origin } of pairsOf(change)) {
    const name = quoteIdentifier(column.name);
    const position = isOrdered ? '' : previous === undefined ? ' FIRST' : ` AFTER ${previous}`;
    previous = name;
    const now = current.find((candidate) => candidate.name === column.name);
    const changesDefault = origin !== undefined && origin.defaultValue !== column.defaultValue;
    const changes =
      origin !== undefined && (changesType(column, origin) || origin.nullable !== column.nullable || changesDefault);
    // A part that does not have the column would show the new default in rows that have the old one.
    if (changesDefault) await storeColumn(tables, place, column.name);
    if (changesDefault && column.defaultValue === undefined && now?.defaultKind === 'DEFAULT')
      await tables.run(`${alter} MODIFY COLUMN ${name} REMOVE DEFAULT`);
    if (changes || position !== '') await rewrite(tables, `${alter} MODIFY COLUMN ${columnSql(column)}${position}`);
  }
}

/** Writes a column into the parts that were written before it was added. */
async function storeColumn(
  tables: ServerTables,
  place: { readonly database: string; readonly table: string },
  column: string,
): Promise<void> {
  const sql = `SELECT count() > countIf(column = {column:String}) AS lacks FROM
    (SELECT name, max(if(column = {column:String}, column, '')) AS column FROM system.parts_columns
      WHERE active AND database = {database:String} AND table = {table:String} GROUP BY name)`;
  const [row] = await tables.rows<{ lacks: number }>(sql, { ...place, column });
  const name = quoteIdentifier(column);
  if (row?.lacks) await rewrite(tables, `ALTER TABLE ${qualifiedName(place)} UPDATE ${name} = ${name} WHERE 1`);
}

/** Those that the new definition does not have, or has in another form. */
async function dropConstraints(tables: ServerTables, alter: string, { from, to }: Alteration): Promise<void> {
  const kept = constraintsOf(to);
  const dropped = [...constraintsOf(from)].filter(([name, check]) => kept.get(name) !== check);
  for (const [name] of dropped) await tables.run(`${alter} DROP CONSTRAINT IF EXISTS ${quoteIdentifier(name)}`);
}
