// Reads a query of a caller as the definition of a view: its text for the servers, its columns and what it names.
import { Failure } from '../../../standard/failure.ts';
import type { Statement } from '../../port/statements.ts';
import type { ViewSource } from '../../port/views.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import type { BoundColumn } from '../query/bound_statement.ts';
import { foldedName } from '../sql/identifiers.ts';
import { describeQuery, readerOf, sourcesOf } from './described_query.ts';
import { keyOf } from './stored_objects.ts';

export interface ViewQuery {
  /** With the full names of the servers. */
  readonly text: string;
  readonly columns: readonly BoundColumn[];
  readonly sources: readonly ViewSource[];
}

const callTimeoutMs = 10_000;

/** `view`: the name of the view, which its query must not read. Throws SQL_INVALID, SQL_NOT_SUPPORTED or SQL_FORBIDDEN_FUNCTION. */
export async function readViewQuery(
  server: ClickHouseServer,
  context: WarehouseContext,
  statement: Statement & { readonly database: string; readonly view?: string },
  signal: AbortSignal,
): Promise<ViewQuery> {
  const { catalog, database, view } = statement;
  const bound = await readerOf(context).read(server, { ...statement, caller: undefined }, { signal });
  if (bound.shape.kind !== 'select') throw new Failure('SQL_NOT_SUPPORTED', 'a view is defined by a query');
  const own = view === undefined ? undefined : keyOf({ catalog: catalog.name, database, table: view });
  if (bound.analysis.views.some((name) => keyOf(name) === own))
    throw sqlInvalid('the view would read itself', statement.sql, undefined);
  const columns = await describeQuery(server, bound, { signal, timeoutMs: callTimeoutMs });
  requireDistinct(columns);
  return { text: bound.query?.text ?? '', columns, sources: sourcesOf(bound) };
}

/** Servers compare the names of columns exactly, and callers without regard to case. */
function requireDistinct(columns: readonly BoundColumn[]): void {
  const seen = new Set<string>();
  for (const { name } of columns) {
    if (seen.has(foldedName(name)))
      throw sqlInvalid(`two columns of the view have the name ${JSON.stringify(name)}; use AS`, '', undefined);
    seen.add(foldedName(name));
  }
}
