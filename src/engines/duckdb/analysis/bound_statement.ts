// Binds a statement and reports what its plan would read and write, and through which views. Runs nothing.
import { Failure } from '../../../standard/failure.ts';
import type { TableName } from '../../port/refs.ts';
import type { StatementAnalysis } from '../../port/statements.ts';
import type { Session } from '../instance/connection_pool.ts';
import type { WireStatement } from '../process/protocol.ts';
import { parameterTypes } from '../query/parameters.ts';
import type { NamedObjects } from './named_objects.ts';
import { optimizePlan } from './optimized.ts';
import { readPlan } from './plan.ts';

/** The session must use the statement's namespace and contain copies of the objects. */
export async function bindStatement(
  { connection }: Session,
  { sql, parameters }: WireStatement,
  { token, tables, views, underViews }: NamedObjects,
  unreviewed: ReadonlySet<string>,
): Promise<StatementAnalysis> {
  const plan = await readPlan(connection, sql, unreviewed, () => parameterTypes(parameters));
  const namedTables = new Set(tables.map(keyOf));
  // The name scanner resolved the text differently from the engine: in the engine process, a name could refer to another table.
  if (![...plan.reads, ...plan.writes].every((table) => namedTables.has(keyOf(table))))
    throw new Failure(
      'SQL_NOT_SUPPORTED',
      'a table name is ambiguous; write table names in full: catalog.database.table',
    );
  await optimizePlan(connection, sql);
  return {
    ...plan,
    reads: mergeTables(plan.reads, underViews),
    views: views.map(({ catalog, database, table }) => ({ catalog, database, table })),
    token,
  };
}

const keyOf = ({ catalog, database, table }: TableName) => JSON.stringify([catalog, database, table]);

function mergeTables(reads: readonly TableName[], underViews: readonly TableName[]): readonly TableName[] {
  if (underViews.length === 0) return reads;
  return [...new Map([...reads, ...underViews].map((table) => [keyOf(table), table])).values()];
}
