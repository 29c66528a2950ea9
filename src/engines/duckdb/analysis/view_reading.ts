// A query as a view would be made of it. Runs nothing.
import { Failure } from '../../../standard/failure.ts';
import type { TableName } from '../../engine.ts';
import type { ViewReading } from '../../views.ts';
import { qualifyViewSql } from '../ddl/qualified_view_sql.ts';
import { columnsOfQuery } from '../ddl/views.ts';
import type { Session } from '../instance/connection_pool.ts';
import type { WireStatement } from '../process/protocol.ts';
import { planOf } from './plan.ts';

/** That the query is allowed, its analysis has shown. */
export async function viewReading(
  session: Session,
  { sql, catalog, database }: WireStatement & { readonly database: string },
  unreviewed: ReadonlySet<string>,
): Promise<ViewReading> {
  const plan = (text: string) => planOf(session.connection, text, unreviewed);
  const before = await plan(sql);
  const { text, sources } = await qualifyViewSql(session.connection, sql, { catalog: catalog.name, database });
  await session.leave();
  const after = await plan(text);
  // Where whole names mean something else than those that were given, the reading of them was wrong.
  if (after.kind !== 'select' || !sameTables(before.reads, after.reads)) {
    throw new Failure('SQL_NOT_SUPPORTED', 'write the names of the tables of a view whole: catalog.database.table');
  }
  return { columns: await columnsOfQuery(session.connection, text), sources };
}

const keyOf = ({ catalog, database, table }: TableName) => JSON.stringify([catalog, database, table]);

function sameTables(one: readonly TableName[], other: readonly TableName[]): boolean {
  const keys = (tables: readonly TableName[]) => tables.map(keyOf).sort().join();
  return keys(one) === keys(other);
}
