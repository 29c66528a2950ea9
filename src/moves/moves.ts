// Moves a catalog to another warehouse as a task (jobs/move_catalog.ts): copies its tables in rounds while it is used, refuses writes for a
// short time, proves the copy, and lets the store switch (catalog/moves/). What an interrupted move copied is kept if it still is equal.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Transaction } from 'kysely';
import type { Trail } from '../access/audit/audit_log.ts';
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Directory } from '../access/authorization/directory.ts';
import { readDefinitions, type SourceDefinitions } from '../backups/definitions.ts';
import type { MetadataCategory } from '../backups/metadata_objects.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { leftName } from '../catalog/moves/left_copies.ts';
import type { CatalogMove } from '../catalog/moves/move_catalog.ts';
import type { Engine, EngineWarehouse } from '../engines/port/engine.ts';
import type { CatalogRef } from '../engines/port/refs.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import { ServerNotAnswering } from '../holds/asked_servers.ts';
import { type WritesOfServers, writesTo } from '../holds/writes_of_servers.ts';
import { newId } from '../model/ids.ts';
import type { BackendSpec, TableDefinition, TableSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import { Failure, objectNotFound, type Violation } from '../standard/failure.ts';
import type { LeaseHolder } from '../store/leases.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { actorOfTask, Cancelled, RetryableError, type TaskContext, type TaskRecord } from '../tasks/task.ts';
import { terminalStates } from '../tasks/task_rows.ts';
import { MoveCopy } from './move_copy.ts';
import {
  type MovePlan,
  type MoveProblem,
  type MoveRequest,
  type MoveResult,
  planMove,
  requireUnblocked,
} from './move_plan.ts';
import { refusedValues } from './refused_values.ts';
import { measureSpeed } from './speed.ts';
import type { MoveSides } from './table_copier.ts';

export const moveCatalogTask = 'move_catalog';

declare module '../tasks/task.ts' {
  interface StoredRequests {
    readonly move_catalog: MoveRequest;
  }
}

export interface MovesParts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly store: Store;
  readonly holder: LeaseHolder;
  readonly observe: Observe;
  readonly spoolDirectory: string;
  readonly metadataCategories: readonly MetadataCategory[];
  readonly definitionOf: (spec: TableSpec) => TableDefinition;
  readonly violationsOf: (spec: TableSpec, engine: Engine) => readonly Violation[];
}

type Run = Pick<TaskContext, 'signal' | 'progress'>;

/** How long statements that began in the old warehouse may still read it after the switch. */
const readsEndMsMax = 60_000;
const readsPollMs = 50;
/** So long nothing may read it before it is taken away. A statement that comes later is run in the new warehouse instead. */
const readsQuietMs = 100;
const settleMsMax = 120_000;
const backendsMax = 1000;

export class Moves {
  readonly #parts: MovesParts;
  /** By the task: the store could not be asked whether the move has switched. */
  readonly #unsure = new Map<string, WritesOfServers>();

  constructor(parts: MovesParts) {
    this.#parts = parts;
  }

  /** Throws MOVE_NOT_POSSIBLE. */
  async requirePossible(from: string, to: string): Promise<void> {
    const { warehouses } = this.#parts;
    const refuse = (why: string) => {
      throw new Failure('MOVE_NOT_POSSIBLE', why);
    };
    if (from === to) refuse('the catalog is in this warehouse already');
    if ((await warehouses.otherServerOf(to)) !== undefined)
      refuse('the data of both warehouses are in data directories, and those of different servers');
    await this.#requireOtherServers(from, to);
  }

  /** A server has one database of a name, whatever cluster it belongs to: the copy could not get the names of the catalog. */
  async #requireOtherServers(from: string, to: string): Promise<void> {
    const [used, wanted] = await Promise.all([this.#serversOf(from), this.#serversOf(to)]);
    if (used.isDisjointFrom(wanted)) return;
    const why =
      'both warehouses have the same server, which cannot have the tables of a catalog twice; move the catalog to a ' +
      'warehouse on other servers, and from there to this one';
    throw new Failure('MOVE_NOT_POSSIBLE', why);
  }

  /** The ids of the servers that may have tables of a warehouse. */
  async #serversOf(warehouse: string): Promise<Set<string>> {
    const { catalog } = this.#parts;
    const [found] = (await catalog.find([{ category: 'warehouses', name: warehouse }])) ?? [];
    const backends = found ? await catalog.list(found.id, 'backends', { limit: backendsMax }) : [];
    const specs = backends.map(({ spec }) => spec as BackendSpec);
    return new Set(
      specs.flatMap(({ server, decommission }) => (decommission?.phase === 'done' ? [] : (server?.id ?? []))),
    );
  }

  async run(task: TaskRecord<'move_catalog'>, run: Run): Promise<MoveResult> {
    const { catalog } = this.#parts;
    try {
      if (task.request.dryRun) return await this.#dryRun(task, run);
      const move = await catalog.findMove(task.taskId);
      if (!move) throw new Failure('TASK_INTERRUPTED', 'the move was given up after an interruption');
      if (!move.isSwitched) await this.#moveUnlessSwitched(task, move, run);
    } catch (error) {
      throw retryable(toFailure(error));
    }
    try {
      const switched = await catalog.findMove(task.taskId);
      if (!switched?.isSwitched) throw new RetryableError('the move was interrupted');
      return await this.#leave(switched, switched.progress as MoveResult, unlessCancelled(run.signal));
    } catch (error) {
      throw retryable(error);
    }
  }

  /** Resolves if the move has switched, even if the response of the store was lost, or the task was cancelled too late. */
  async #moveUnlessSwitched(task: TaskRecord<'move_catalog'>, move: CatalogMove, run: Run): Promise<void> {
    try {
      await this.#move(task, move, run);
    } catch (error) {
      const isSwitched = await this.#isSwitched(task.taskId, false);
      if (isSwitched !== true) throw error;
    }
  }

  async #dryRun(task: TaskRecord<'move_catalog'>, run: Run): Promise<MoveResult> {
    const root = await this.#authorizedRoot(task.request.objectId, task);
    return this.#admitted(task, root, run, async (sides, definitions) => {
      const plan = await this.#plan(definitions, task, sides, run.signal);
      const size = await sizeOf(plan, definitions.root, sides.source.engine);
      const staged = { id: task.taskId, name: `moving_${task.taskId}` };
      const spool = this.#spool(task.taskId);
      const work = { plan, sides, staged, spool, principal: task.principal, definitionOf: this.#parts.definitionOf };
      const measured = await measureSpeed({ ...work, source: refOf(definitions.root), request: task.request }, run);
      const { rowsPerSecond, problems } = measured;
      const estimatedSeconds = rowsPerSecond === null ? null : Math.round((10 * size.rows) / rowsPerSecond) / 10;
      const described = this.#resultOf(definitions, task.request, plan, size, [...plan.problems, ...problems]);
      return { ...described, dryRun: true, estimatedSeconds, rounds: null, pausedMs: null, retainedUntil: null };
    });
  }

  async #move(task: TaskRecord<'move_catalog'>, move: CatalogMove, run: Run): Promise<void> {
    const { catalog, trail } = this.#parts;
    const { taskId, principal, request } = task;
    const root = await this.#authorizedRoot(move.catalogId, task);
    await catalog.takeMove(taskId);
    const actor = actorOfTask(task);
    const details = { taskId, from: root.spec.warehouse, to: request.warehouse };
    await trail.begin(actor, { objectId: move.catalogId, details });
    const writes = await this.#writesOf(root.spec.warehouse, move);
    let isSwitched = false;
    try {
      await this.#admitted(task, root, run, async (sides, definitions) => {
        const plan = await this.#plan(definitions, task, sides, run.signal);
        requireUnblocked(plan.problems);
        const size = await sizeOf(plan, definitions.root, sides.source.engine);
        const copy = new MoveCopy(
          { ...this.#parts, writes, spool: this.#spool(taskId), principal },
          { move, plan, sides, source: refOf(definitions.root), request },
          run,
        );
        const purgeAt = () => Date.now() + 1000 * request.retainSeconds;
        await copy.run((outcome) => {
          const problems = [...plan.problems, ...outcome.problems];
          const { rounds, pausedMs } = outcome;
          const retainedUntil = new Date(purgeAt()).toISOString();
          const described = this.#resultOf(definitions, request, plan, size, problems);
          return { ...described, dryRun: false, estimatedSeconds: null, rounds, pausedMs: pausedMs(), retainedUntil };
        });
        isSwitched = true;
      });
    } catch (thrown) {
      const error = toFailure(thrown);
      const code = error instanceof Failure ? error.code : 'INTERNAL_ERROR';
      if (!isSwitched) trail.enqueue(actor, { outcome: code, objectId: move.catalogId, details });
      throw error;
    } finally {
      writes.unwatch();
      // After the switch, a write that was to go to the old copy is refused for good.
      const isHeldOn = await this.#isSwitched(taskId, isSwitched);
      if (isHeldOn === undefined) this.#unsure.set(taskId, writes);
      else if (!isHeldOn) await writes.release();
      await rm(this.#spool(taskId), { recursive: true, force: true });
    }
  }

  /** From then on the catalog is in the new warehouse. */
  async hasSwitched({ taskId }: Pick<TaskRecord, 'taskId'>): Promise<boolean> {
    return (await this.#parts.catalog.findMove(taskId))?.isSwitched === true;
  }

  /** Undefined if the store does not answer: the writes stay refused until the move is settled, because the switch may have been committed. */
  async #isSwitched(taskId: string, known: boolean): Promise<boolean | undefined> {
    if (known) return true;
    try {
      return (await this.#parts.catalog.findMove(taskId))?.isSwitched === true;
    } catch {
      return undefined;
    }
  }

  #writesOf(warehouse: string, { catalogId, taskId }: CatalogMove): Promise<WritesOfServers> {
    return writesTo(this.#parts, warehouse, { taskId, catalogId, kind: 'move' });
  }

  /** Takes the old copy out of the way of its name in the old warehouse, once nothing reads it any more. */
  async #leave(move: CatalogMove, result: MoveResult, signal: AbortSignal): Promise<MoveResult> {
    const { catalog: objects, warehouses } = this.#parts;
    if (!(await this.#exists(result.from))) {
      // It was lost with the old copy.
      await objects.endAsking(move.taskId);
      return result;
    }
    const writes = await this.#writesOf(result.from, move);
    writes.hold();
    await this.#readsEnded(writes, signal);
    // What read it may have saved its statistics.
    await this.#saveStatistics(move, result);
    const { capabilities } = await warehouses.engineOf(result.from);
    const catalog = { id: move.catalogId, name: result.catalog };
    const change = capabilities.undrop
      ? ({ kind: 'hideCatalog', catalog } as const)
      : ({ kind: 'renameCatalog', catalog, newName: leftName(catalog.id) } as const);
    await (await warehouses.use(result.from)).apply(change, { step: `${move.taskId}/left`, signal });
    await objects.recordHiddenCopy(catalog.id);
    await writes.close();
    return result;
  }

  async #exists(warehouse: string): Promise<boolean> {
    return (await this.#parts.catalog.find([{ category: 'warehouses', name: warehouse }])) !== undefined;
  }

  async #readsEnded(writes: WritesOfServers, signal: AbortSignal): Promise<void> {
    const deadline = performance.now() + readsEndMsMax;
    for (let quietSince = performance.now(); performance.now() < deadline; ) {
      if (await isReadBySome(writes, signal)) quietSince = performance.now();
      else if (performance.now() - quietSince >= readsQuietMs) return;
      await pause(readsPollMs, undefined, { signal });
    }
  }

  async #saveStatistics({ targetId }: CatalogMove, { to }: MoveResult): Promise<void> {
    const { catalog, warehouses, observe, metadataCategories } = this.#parts;
    try {
      const engine = await warehouses.use(to);
      const { root, databases } = await readDefinitions(catalog, targetId, metadataCategories);
      for (const { object, tables } of databases)
        for (const { id, name } of tables) {
          const statistics = await engine.tableStatistics({ catalog: refOf(root), database: object.name, table: name });
          await catalog.saveStatistics(id, { ...statistics, asOf: new Date().toISOString() });
        }
    } catch (error) {
      // The next write to a table refreshes its statistics.
      observe({ kind: 'backgroundError', what: 'table statistics', error });
    }
  }

  /** Rights are checked again each time, because the task may have waited. Throws FORBIDDEN, OBJECT_NOT_FOUND. */
  async #authorizedRoot(
    objectId: string,
    { principal, request }: TaskRecord<'move_catalog'>,
  ): Promise<SourceDefinitions['root']> {
    const { catalog, authorizer, directory } = this.#parts;
    directory.requireActive(principal);
    const [root] = (await catalog.findChain(objectId)) as [SourceDefinitions['root']?];
    if (!root) throw objectNotFound('catalogs', objectId, 'the catalog no longer exists');
    if (!authorizer.isAllowedOn(principal, 'alter', 'catalogs', [root]))
      throw new Failure('FORBIDDEN', 'the submitter may no longer change the catalog');
    for (const warehouse of [root.spec.warehouse, request.warehouse]) {
      await authorizer.requireUse(principal, warehouse);
      if (!(await catalog.find([{ category: 'warehouses', name: warehouse }])))
        throw objectNotFound('warehouses', warehouse, 'the warehouse no longer exists');
    }
    return root;
  }

  /** `work` gets the definitions of when both warehouses have admitted the task. */
  #admitted<T>(
    task: TaskRecord<'move_catalog'>,
    root: SourceDefinitions['root'],
    { signal }: Run,
    work: (sides: MoveSides, definitions: SourceDefinitions) => Promise<T>,
  ): Promise<T> {
    const { catalog, warehouses, metadataCategories } = this.#parts;
    const { principal, request } = task;
    const admission = { principal, signal, isTask: true } as const;
    const [from, to] = [root.spec.warehouse, request.warehouse];
    // In one order, whichever way it goes: two moves in opposite directions would wait for each other.
    const [first = from, second = to] = [from, to].toSorted();
    return warehouses.admit(first, admission, (one) =>
      warehouses.admit(second, admission, async (other) => {
        const { id } = await this.#authorizedRoot(root.id, task);
        if (id !== root.id)
          throw new RetryableError('the catalog was moved to another warehouse while the task waited');
        const definitions = await readDefinitions(catalog, id, metadataCategories);
        const source = { engine: first === from ? one : other, adapter: await warehouses.engineOf(from) };
        const target = { engine: first === from ? other : one, adapter: await warehouses.engineOf(to) };
        return work({ source, target }, definitions);
      }),
    );
  }

  async #plan(
    definitions: SourceDefinitions,
    { taskId, principal, request }: TaskRecord<'move_catalog'>,
    sides: MoveSides,
    signal: AbortSignal,
  ): Promise<MovePlan> {
    const { target } = sides;
    // Servers may have been registered since the task was submitted.
    await this.#requireOtherServers(definitions.root.spec.warehouse, request.warehouse);
    const layout = await this.#parts.warehouses.layoutOf(request.warehouse);
    const plan = await planMove(this.#parts, definitions, request, {
      ...target,
      replicaCount: layout?.replicaCount ?? 1,
    });
    const source = refOf(definitions.root);
    const values = { tables: plan.tables, sides, source, principal, spool: this.#spool(taskId) };
    return { ...plan, problems: [...plan.problems, ...(await refusedValues(values, signal))] };
  }

  #resultOf(
    { root }: SourceDefinitions,
    request: MoveRequest,
    { databases, tables, views }: MovePlan,
    size: Size,
    problems: readonly MoveProblem[],
  ) {
    return {
      catalog: root.name,
      from: root.spec.warehouse,
      to: request.warehouse,
      databases: databases.length,
      tables: tables.length,
      views: views.length,
      ...size,
      problems: [...problems],
    };
  }

  #spool(taskId: string): string {
    return join(this.#parts.spoolDirectory, 'moves', taskId);
  }

  /** In the transaction that deletes a warehouse. Throws IN_USE while moves to it, or dry runs of such moves, have not ended. */
  async requireNoMoveTo(tx: Transaction<Schema>, warehouse: string): Promise<void> {
    const unfinished = await tx
      .selectFrom('tasks')
      .select(['task_id', 'request'])
      .where('type', '=', moveCatalogTask)
      .where('state', 'not in', terminalStates)
      .execute();
    const tasks = unfinished.flatMap(({ task_id, request }) =>
      (JSON.parse(request) as MoveRequest).warehouse === warehouse ? task_id : [],
    );
    if (tasks.length === 0) return;
    throw new Failure('IN_USE', `moves of catalogs to the warehouse have not ended: ${tasks.join(', ')}`, { tasks });
  }

  /** Called when a task has ended: removes what a move that did not switch has left. Idempotent. */
  async settle(task: TaskRecord<'move_catalog'>): Promise<void> {
    const { catalog, warehouses } = this.#parts;
    const move = await catalog.findMove(task.taskId);
    if (!move?.isSwitched) await this.#unsure.get(task.taskId)?.release();
    this.#unsure.delete(task.taskId);
    await rm(this.#spool(task.taskId), { recursive: true, force: true });
    // Its server crashed after the switch.
    if (move?.isSwitched) await this.#leave(move, move.progress as MoveResult, AbortSignal.timeout(settleMsMax));
    if (!task.request.dryRun) return catalog.settleMove(task.taskId);
    // A dry run that was killed may have left its trial copy.
    if (task.startedAt === null || task.state === 'succeeded' || !(await this.#exists(task.request.warehouse))) return;
    const trial = { id: task.taskId, name: `moving_${task.taskId}` };
    const engine = await warehouses.use(task.request.warehouse);
    await engine.apply(
      { kind: 'dropCatalog', catalog: trial },
      { step: newId(), signal: AbortSignal.timeout(settleMsMax) },
    );
  }
}

/** A server that does not answer may read. */
async function isReadBySome(writes: WritesOfServers, signal: AbortSignal): Promise<boolean> {
  try {
    return await writes.isRead(signal);
  } catch (error) {
    if (error instanceof ServerNotAnswering) return true;
    throw error;
  }
}

const retryable = (error: unknown): Failure | RetryableError =>
  error instanceof Failure || error instanceof RetryableError
    ? error
    : new RetryableError('the move was interrupted', { cause: error });

/** A server that does not answer is of a release without moves: another attempt would not help. */
const toFailure = (error: unknown): unknown =>
  error instanceof ServerNotAnswering
    ? new Failure('MOVE_NOT_POSSIBLE', error.message, { server: error.serverId })
    : error;

/** Also aborted when the server stops, but not when the task is cancelled: after the switch it is too late for that. */
function unlessCancelled(signal: AbortSignal): AbortSignal {
  const stopped = new AbortController();
  const stop = () => signal.reason instanceof Cancelled || stopped.abort(signal.reason);
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  return stopped.signal;
}

const refOf = ({ id, name }: { readonly id: string; readonly name: string }): CatalogRef => ({ id, name });

interface Size {
  readonly rows: number;
  readonly bytes: number;
}

async function sizeOf(
  { tables }: MovePlan,
  root: { readonly id: string; readonly name: string },
  engine: EngineWarehouse,
): Promise<Size> {
  const size = { rows: 0, bytes: 0 };
  for (const { database, name } of tables) {
    const { rowCount, dataBytes } = await engine.tableStatistics({ catalog: refOf(root), database, table: name });
    size.rows += rowCount;
    size.bytes += dataBytes;
  }
  return size;
}
