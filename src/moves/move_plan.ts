// What a move would do: the definitions of a catalog as the target gets them, and what does not carry over. Changes nothing.
import type { MoveConsent, MoveProblemKind } from '../api/namespaces/move_result.ts';
import type { TaskResultOf } from '../api/tasks/task_types.ts';
import type { SourceDefinitions } from '../backups/definitions.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Engine, EngineWarehouse } from '../engines/port/engine.ts';
import type { TableSpec } from '../model/records.ts';
import { Failure, type Violation } from '../standard/failure.ts';
import type { Store } from '../store/store.ts';
import type { ScheduleSpec } from '../tasks/schedule.ts';
import type { MovedViews, ViewToMove } from './moved_views.ts';

export interface MoveProblem {
  readonly kind: MoveProblemKind;
  readonly database: string | null;
  readonly name: string | null;
  readonly reason: string;
  readonly blocks: boolean;
  readonly consent: MoveConsent | null;
}

/** The request of the task. */
export interface MoveRequest {
  /** Id of the catalog, which may have been renamed or moved since. */
  readonly objectId: string;
  readonly warehouse: string;
  readonly dryRun: boolean;
  readonly retainSeconds: number;
  readonly pauseSeconds: number;
  readonly roundsMax: number;
  readonly dropUnsupportedViews: boolean;
  readonly dropUnenforcedKeys: boolean;
  readonly forgetDroppedObjects: boolean;
}

export type MoveResult = TaskResultOf<'move_catalog'>;

export interface TableToMove {
  readonly id: string;
  readonly database: string;
  readonly name: string;
  readonly spec: TableSpec;
  /** In the target. */
  readonly target: TableSpec;
}

export interface MovePlan {
  readonly databases: readonly string[];
  readonly tables: readonly TableToMove[];
  readonly views: readonly ViewToMove[];
  readonly problems: readonly MoveProblem[];
}

interface PlanParts {
  readonly catalog: Catalog;
  readonly store: Store;
  /** Why an engine cannot create a table. */
  readonly violationsOf: (spec: TableSpec, engine: Engine) => readonly Violation[];
}

const idsPerQueryMax = 500;
const schedulesMax = 1000;

export async function planMove(
  parts: PlanParts,
  { root, databases }: SourceDefinitions,
  request: MoveRequest,
  target: { readonly adapter: Engine; readonly engine: EngineWarehouse; readonly replicaCount: number },
): Promise<MovePlan> {
  const problems: MoveProblem[] = [];
  const { adapter } = target;
  const tables: TableToMove[] = [];
  const views: ViewToMove[] = [];
  const named = (category: 'databases' | 'tables' | 'views', database: string, name: string | null) => {
    const reason = adapter.reservedName(category, name ?? database);
    if (reason !== undefined) problems.push({ ...problem('definition', database, name, reason), blocks: true });
  };
  for (const { object, tables: all, views: allViews } of databases) {
    named('databases', object.name, null);
    for (const { id, name, spec } of all) {
      named('tables', object.name, name);
      const table = { id, database: object.name, name, spec, target: targetSpec(spec, target) };
      tables.push(table);
      problems.push(...(await tableProblems(table, request, parts, target)));
    }
    for (const { id, name, spec } of allViews) {
      named('views', object.name, name);
      views.push({ id, database: object.name, name, sql: spec.sql });
    }
  }
  if (!adapter.capabilities.views)
    for (const view of views) problems.push(viewProblem(view, 'the engine does not support views', request));
  problems.push(...(await dependentViews(parts, tables, views)));
  problems.push(...(await droppedProblems(parts, root.id, request)));
  problems.push(...(await scheduleProblems(parts, root.name, root.spec.warehouse)));
  return { databases: databases.map(({ object }) => object.name), tables, views, problems };
}

function problem(kind: MoveProblemKind, database: string | null, name: string | null, reason: string): MoveProblem {
  return { kind, database, name, reason, blocks: false, consent: null };
}

function viewProblem(view: ViewToMove, reason: string, request: MoveRequest): MoveProblem {
  const isAccepted = request.dropUnsupportedViews;
  const described = problem('view', view.database, view.name, reason);
  return { ...described, blocks: !isAccepted, consent: 'dropUnsupportedViews' };
}

/** The views that the move leaves out, with the reason of each. */
export const refusedViews = (views: MovedViews, request: MoveRequest): MoveProblem[] =>
  views.refused.map(({ view, reason }) => viewProblem(view, reason, request));

/** Throws MOVE_BLOCKED. */
export function requireUnblocked(problems: readonly MoveProblem[]): void {
  const blocking = problems.filter(({ blocks }) => blocks);
  const [first] = blocking;
  if (!first) return;
  const names = [first.database, first.name].filter((name) => name !== null).map((name) => JSON.stringify(name));
  const object = names.length === 0 ? '' : `${names.join('.')}: `;
  throw new Failure('MOVE_BLOCKED', `the catalog cannot be moved: ${object}${first.reason}`, { problems: blocking });
}

function targetSpec(
  spec: TableSpec,
  { adapter, replicaCount }: { readonly adapter: Engine; readonly replicaCount: number },
): TableSpec {
  const keys = adapter.capabilities.enforcedKeys ? {} : { primaryKey: [], uniqueKey: [] };
  return { ...spec, ...keys, replicationNum: replicaCount };
}

async function tableProblems(
  { database, name, spec, target }: TableToMove,
  request: MoveRequest,
  { violationsOf }: PlanParts,
  { adapter, engine }: { readonly adapter: Engine; readonly engine: EngineWarehouse },
): Promise<MoveProblem[]> {
  const found: MoveProblem[] = [];
  if (spec.primaryKey.length + spec.uniqueKey.length > 0 && !adapter.capabilities.enforcedKeys) {
    const reason = 'the engine does not enforce keys: the table would have none';
    const keys = problem('keys', database, name, reason);
    found.push({ ...keys, blocks: !request.dropUnenforcedKeys, consent: 'dropUnenforcedKeys' });
  }
  for (const { pointer, message } of violationsOf(target, adapter))
    found.push({ ...problem('definition', database, name, `${pointer}: ${message}`), blocks: true });
  for (const { name: column, type, defaultValue } of target.columns) {
    if (defaultValue === undefined) continue;
    try {
      await engine.checkDefault(defaultValue, type);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const reason = `the default of ${JSON.stringify(column)}: ${error.message}`;
      found.push({ ...problem('definition', database, name, reason), blocks: true });
    }
  }
  return found;
}

/** A view can only read catalogs of its own warehouse. */
async function dependentViews(
  { store, catalog }: PlanParts,
  tables: readonly TableToMove[],
  views: readonly ViewToMove[],
): Promise<MoveProblem[]> {
  const inside = new Set(views.map(({ id }) => id));
  const ids = [...tables.map(({ id }) => id), ...inside];
  const outside = new Set<string>();
  for (let start = 0; start < ids.length; start += idsPerQueryMax) {
    const rows = await store.db
      .selectFrom('view_sources')
      .select('view_id')
      .where('source_id', 'in', ids.slice(start, start + idsPerQueryMax))
      .execute();
    for (const { view_id } of rows) if (!inside.has(view_id)) outside.add(view_id);
  }
  const found: MoveProblem[] = [];
  for (const id of outside) {
    const chain = await catalog.findChain(id);
    // Names in other catalogs may be hidden from the caller.
    const reason = 'a view in another catalog reads an object of this one; change or drop it first';
    if (chain.length > 0) found.push({ ...problem('dependentView', null, null, reason), blocks: true });
  }
  return found.slice(0, 1);
}

async function droppedProblems({ catalog }: PlanParts, id: string, request: MoveRequest): Promise<MoveProblem[]> {
  const count = await catalog.countDroppedWithin(id);
  if (count === 0) return [];
  const reason = `${count} dropped objects can be restored now, and could not after the move`;
  const dropped = problem('droppedObjects', null, null, reason);
  return [{ ...dropped, blocks: !request.forgetDroppedObjects, consent: 'forgetDroppedObjects' }];
}

/** Schedules name catalogs, and follow; one that also names the warehouse is refused from then on. */
async function scheduleProblems({ catalog }: PlanParts, name: string, warehouse: string): Promise<MoveProblem[]> {
  const schedules = await catalog.list(null, 'schedules', { limit: schedulesMax });
  const reason = `it runs in the warehouse ${JSON.stringify(warehouse)}; change it after the move`;
  return schedules.flatMap((schedule) => {
    const { task } = schedule.spec as ScheduleSpec;
    const request = (task?.request ?? {}) as { readonly catalog?: unknown; readonly warehouse?: unknown };
    return request.catalog === name && request.warehouse === warehouse
      ? [problem('schedule', null, schedule.name, reason)]
      : [];
  });
}
