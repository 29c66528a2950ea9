// Analyzes the query of a view that is to be created: its columns and the objects that it reads. Runs nothing.
import { Failure } from '../../../standard/failure.ts';
import type { TableName } from '../../port/refs.ts';
import type { ViewReading } from '../../port/views.ts';
import { qualifyViewSql } from '../ddl/qualified_view_sql.ts';
import { columnsOfQuery } from '../ddl/views.ts';
import type { Session } from '../instance/connection_pool.ts';
import type { WireStatement } from '../process/protocol.ts';
import { readPlan } from './plan.ts';

/** The query's statement analysis must have allowed it already. */
export async function readView(
  session: Session,
  { sql, catalog, database }: WireStatement & { readonly database: string },
  unreviewed: ReadonlySet<string>,
): Promise<ViewReading> {
  const plan = (text: string) => readPlan(session.connection, text, unreviewed);
  const before = await plan(sql);
  const { text, sources } = await qualifyViewSql(session.connection, sql, { catalog: catalog.name, database });
  await session.leave();
  const after = await plan(text);
  // If the qualified names refer to other tables than the names in the text, the qualification was wrong.
  if (after.kind !== 'select' || !sameTables(before.reads, after.reads)) {
    throw new Failure(
      'SQL_NOT_SUPPORTED',
      'a table name is ambiguous; write the table names of a view in full: catalog.database.table',
    );
  }
  return { columns: await columnsOfQuery(session.connection, text), sources };
}

const keyOf = ({ catalog, database, table }: TableName) => JSON.stringify([catalog, database, table]);

function sameTables(a: readonly TableName[], b: readonly TableName[]): boolean {
  const keys = (tables: readonly TableName[]) => tables.map(keyOf).sort().join();
  return keys(a) === keys(b);
}
