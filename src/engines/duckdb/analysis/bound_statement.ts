// A statement before it runs: what its plan would do, and through which views. Runs nothing.
import { Failure } from '../../../standard/failure.ts';
import type { StatementAnalysis, TableName } from '../../engine.ts';
import type { Session } from '../instance/connection_pool.ts';
import type { WireStatement } from '../process/protocol.ts';
import { parameterTypes } from '../query/parameters.ts';
import type { NamedObjects } from './named_objects.ts';
import { optimizePlan } from './optimized.ts';
import { planOf } from './plan.ts';

/** The session has the statement's namespace, with copies of the objects. */
export async function boundStatement(
  { connection }: Session,
  { sql, parameters }: WireStatement,
  { token, tables, views, underViews }: NamedObjects,
  unreviewed: ReadonlySet<string>,
): Promise<StatementAnalysis> {
  const plan = await planOf(connection, sql, unreviewed, () => parameterTypes(parameters));
  const given = new Set(tables.map(keyOf));
  // The text was read otherwise than the engine reads it: where it runs, its names could mean something else.
  if (![...plan.reads, ...plan.writes].every((table) => given.has(keyOf(table))))
    throw new Failure('SQL_NOT_SUPPORTED', 'write the names of the tables whole: catalog.database.table');
  await optimizePlan(connection, sql);
  return {
    ...plan,
    reads: withTables(plan.reads, underViews),
    views: views.map(({ catalog, database, table }) => ({ catalog, database, table })),
    token,
  };
}

const keyOf = ({ catalog, database, table }: TableName) => JSON.stringify([catalog, database, table]);

function withTables(reads: readonly TableName[], more: readonly TableName[]): readonly TableName[] {
  if (more.length === 0) return reads;
  return [...new Map([...reads, ...more].map((table) => [keyOf(table), table])).values()];
}
