// A statement looked at before it runs: what its plan would do, and through which views; and a query as a view would be made of it.
// Runs nothing.

import { Failure } from '../../standard/failure.ts';
import type { StatementAnalysis, TableName } from '../engine.ts';
import type { ViewReading } from '../views.ts';
import type { Definitions } from './definitions.ts';
import type { KnownViews } from './known_views.ts';
import { parameterTypes } from './parameters.ts';
import { planOf } from './plan.ts';
import type { WireStatement } from './protocol.ts';
import type { Session } from './sessions.ts';
import { viewTextOf } from './view_text.ts';
import { columnsOfQuery } from './views.ts';

/** How often a statement is looked at again because views changed meanwhile; then it counts as changed at once. */
const analysesMax = 5;

export interface Known {
  readonly unreviewed: ReadonlySet<string>;
  readonly definitions: Definitions;
  readonly views: KnownViews;
}

/** The session has the statement's namespace. */
export async function analysed(
  { connection }: Session,
  { sql, parameters, catalog, database }: WireStatement,
  known: Known,
): Promise<StatementAnalysis> {
  for (let attempt = 1; ; attempt++) {
    const { epoch } = known.definitions;
    const isSame = known.views.watch();
    const plan = await planOf(connection, sql, known.unreviewed, () => parameterTypes(parameters));
    const { views, tables } = await known.views.through(connection, sql, { catalog: catalog.name, database });
    // Views that changed in between may be others than those of the plan.
    if (!isSame() && attempt < analysesMax) continue;
    return { ...plan, reads: withTables(plan.reads, tables), views, token: String(isSame() ? epoch : 0) };
  }
}

/** That the query is allowed, its analysis has shown. */
export async function viewReading(
  session: Session,
  { sql, catalog, database }: WireStatement & { readonly database: string },
  unreviewed: ReadonlySet<string>,
): Promise<ViewReading> {
  const plan = (text: string) => planOf(session.connection, text, unreviewed);
  const before = await plan(sql);
  const { text, sources } = await viewTextOf(session.connection, sql, { catalog: catalog.name, database });
  await session.leave();
  const after = await plan(text);
  // Where whole names mean something else than those that were given, the reading of them was wrong.
  if (after.kind !== 'select' || !sameTables(before.reads, after.reads)) {
    throw new Failure('SQL_NOT_SUPPORTED', 'write the names of the tables of a view whole: catalog.database.table');
  }
  return { columns: await columnsOfQuery(session.connection, text), sources };
}

const keyOf = ({ catalog, database, table }: TableName) => JSON.stringify([catalog, database, table]);

function withTables(reads: readonly TableName[], more: readonly TableName[]): readonly TableName[] {
  if (more.length === 0) return reads;
  return [...new Map([...reads, ...more].map((table) => [keyOf(table), table])).values()];
}

function sameTables(one: readonly TableName[], other: readonly TableName[]): boolean {
  const keys = (tables: readonly TableName[]) => tables.map(keyOf).sort().join();
  return keys(one) === keys(other);
}
