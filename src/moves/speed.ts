// Measures how fast rows are copied, and which views the target accepts, with a trial copy of the catalog: all definitions, and a part of
// the largest table. The trial copy is removed again.
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { CatalogRef } from '../engines/port/refs.ts';
import { newId } from '../model/ids.ts';
import type { Principal } from '../model/principal.ts';
import type { TableDefinition, TableSpec } from '../model/records.ts';
import type { TaskContext } from '../tasks/task.ts';
import { type MovePlan, type MoveProblem, type MoveRequest, refusedViews, type TableToMove } from './move_plan.ts';
import { createViews, namesCatalog } from './moved_views.ts';
import { type MoveSides, TableCopier } from './table_copier.ts';

interface Trial {
  readonly plan: MovePlan;
  readonly sides: MoveSides;
  readonly source: CatalogRef;
  /** The trial copy. */
  readonly staged: CatalogRef;
  readonly spool: string;
  readonly principal: Principal;
  readonly request: MoveRequest;
  readonly definitionOf: (spec: TableSpec) => TableDefinition;
}

const cleanUpMsMax = 60_000;

/** `rowsPerSecond`: null if there are no rows, or the target cannot have the tables. */
export async function measureSpeed(
  trial: Trial,
  { signal, progress }: Pick<TaskContext, 'signal' | 'progress'>,
): Promise<{ readonly rowsPerSecond: number | null; readonly problems: readonly MoveProblem[] }> {
  const { plan, sides, staged } = trial;
  if (plan.problems.some(({ kind, blocks }) => kind === 'definition' && blocks))
    return { rowsPerSecond: null, problems: [] };
  const { engine } = sides.target;
  const clean = () =>
    engine.apply(
      { kind: 'dropCatalog', catalog: staged },
      { step: newId(), signal: AbortSignal.timeout(cleanUpMsMax) },
    );
  await clean();
  try {
    progress(null, 'creating a trial copy of the definitions');
    const apply = (change: Parameters<EngineWarehouse['apply']>[0]) => engine.apply(change, { step: newId(), signal });
    await apply({ kind: 'createCatalog', catalog: staged });
    for (const database of plan.databases)
      await apply({ kind: 'createDatabase', database: { catalog: staged, database } });
    for (const { database, name, target } of plan.tables) {
      const table = { catalog: staged, database, table: name };
      await apply({ kind: 'createTable', table, definition: trial.definitionOf(target) });
    }
    const problems = await tryViews(trial, signal);
    progress(null, 'measuring the speed of a copy');
    return { rowsPerSecond: await speedOf(trial, signal), problems };
  } finally {
    await clean();
  }
}

/** Views whose text names the catalog cannot be tried, because the trial copy has another name. */
async function tryViews({ plan, sides, source, staged, request }: Trial, signal: AbortSignal): Promise<MoveProblem[]> {
  const { engine, adapter } = sides.target;
  if (!adapter.capabilities.views) return [];
  const named = new Set<string>();
  for (const { id, sql } of plan.views) if (await namesCatalog(engine, sql, source.name)) named.add(id);
  const tried = await createViews(
    engine,
    (change, step) => engine.apply(change, { step, signal }),
    staged,
    plan.views.filter(({ id }) => !named.has(id)),
  );
  // A view that reads one of those that were not tried is not refused for that.
  return named.size === 0 ? refusedViews(tried, request) : [];
}

async function speedOf(trial: Trial, signal: AbortSignal): Promise<number | null> {
  const { plan, sides, source, staged, definitionOf } = trial;
  let largest: { readonly table: TableToMove; readonly rowCount: number } | undefined;
  for (const table of plan.tables) {
    // Its copy would fail.
    const isRefused = ({ kind, database, name }: MoveProblem) =>
      kind === 'values' && database === table.database && name === table.name;
    if (plan.problems.some(isRefused)) continue;
    const ref = { catalog: source, database: table.database, table: table.name };
    const { rowCount } = await sides.source.engine.tableStatistics(ref);
    if (rowCount > (largest?.rowCount ?? 0)) largest = { table, rowCount };
  }
  if (!largest) return null;
  const { database, name, target } = largest.table;
  const from = { catalog: source, database, table: name };
  const to = { catalog: staged, database, table: name };
  const definition = definitionOf(target);
  const began = performance.now();
  const copier = new TableCopier(sides, trial);
  const rows = await copier.copy({ from, to, definition }, { signal, partsMax: 1 });
  await sides.target.engine.checksumTable({ ...to, columns: definition.columns }, { signal });
  return (1000 * rows) / Math.max(1, performance.now() - began);
}
