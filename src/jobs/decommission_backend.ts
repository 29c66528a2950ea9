// Decommissions a server of a cluster: waits for its running statements, then until other servers have all of its tablets, and drops its
// tables. The phase and what was done are stored with the backend, so that a task that runs again continues, and nothing is dropped after the
// decommission was cancelled.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { DrainBlocker, DrainState, RegisteredServers } from '../engines/cluster/registered_servers.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import { systemActor } from '../model/principal.ts';
import type { BackendSpec, Decommission } from '../model/records.ts';
import { Failure } from '../standard/failure.ts';
import { Cancelled, type TaskContext, type TaskKind, type TaskRecord } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { storeClusterShape } from './cluster_shape.ts';

export const decommissionTask = 'decommission_backend';

declare module '../tasks/task.ts' {
  interface StoredRequests {
    readonly decommission_backend: DecommissionRequest;
  }
}

export interface DecommissionRequest {
  /** Id of the backend. */
  readonly objectId: string;
  readonly drainSeconds: number;
  readonly timeoutSeconds: number;
}

interface Parts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
}

/** A backend that nothing keeps any more. */
interface Drained {
  readonly decommission: Decommission;
  readonly state: DrainState;
  readonly servers: RegisteredServers;
}

type Backend = CatalogObject<BackendSpec>;

/** Between two checks of what keeps the decommission from ending. */
const checkMs = 1000;
/** Of the blockers in an error. */
const blockersShownMax = 100;
/** Of the warehouses, and of the backends of each. */
const settledMax = 1000;
const actor = { ...systemActor, action: 'backends.decommission' };

export function decommissionKind(parts: Parts): TaskKind<'decommission_backend'> {
  return {
    type: decommissionTask,
    // A server that does not respond for a while must not end it; `timeoutSeconds` does.
    attemptsMax: 100_000,
    actsAsPrincipal: true,
    run: (task, context) => new DecommissionRun(parts, task, context).run(),
    isDecided: (task) => isDropping(parts, task),
    ended: (task) => settle(parts, task),
    abandoned: (task) => settle(parts, task),
  };
}

/** A cancelled backend is in use again; one whose decommission failed stays disabled. */
async function settle({ catalog, warehouses }: Parts, { taskId, state, request }: EndedTask): Promise<void> {
  if (state === 'succeeded') return;
  await catalog.retrying(async () => {
    const found = await find(catalog, request.objectId);
    if (found?.backend.spec.decommission?.taskId !== taskId) return;
    const { decommission, ...spec } = found.backend.spec;
    // Tables may be missing by now: it is caught up before it is available.
    if (decommission?.phase === 'done') return;
    const disabled = state === 'failed';
    await catalog.update(found.backend, { spec: { ...spec, disabled }, principal: actor });
    await warehouses.apply(found.warehouse);
  });
}

/** Settles the decommissions whose task has ended without it: the server died, or the store failed, in that moment. */
export async function settleDecommissions(parts: Parts & { readonly tasks: Pick<Tasks, 'get'> }): Promise<void> {
  const { catalog, tasks } = parts;
  const limit = settledMax;
  for (const warehouse of await catalog.list(null, 'warehouses', { limit }))
    for (const { id: objectId, spec } of await catalog.list(warehouse.id, 'backends', { limit })) {
      const { decommission } = spec;
      if (!decommission || decommission.phase === 'done') continue;
      const { taskId } = decommission;
      const task = await tasks.get(taskId);
      // One that was deleted had ended, nobody knows how: the backend stays disabled.
      const { state = 'failed', endedAt = '' } = task ?? {};
      if (endedAt !== null) await settle(parts, { taskId, state, request: { objectId } });
    }
}

type Task = Pick<TaskRecord<'decommission_backend'>, 'taskId' | 'state' | 'request'>;
type EndedTask = Pick<Task, 'taskId' | 'state'> & { readonly request: Pick<DecommissionRequest, 'objectId'> };

/** A backend that has dropped some of its tables must not be in use again as if nothing had happened. */
async function isDropping({ catalog }: Parts, { taskId, request }: Task): Promise<boolean> {
  const decommission = (await find(catalog, request.objectId))?.backend.spec.decommission;
  return decommission?.taskId === taskId && decommission.phase !== 'draining';
}

async function find(catalog: Catalog, objectId: string) {
  const [warehouse, backend] = await catalog.findChain(objectId);
  return warehouse && backend
    ? { warehouse: warehouse.name, warehouseId: warehouse.id, backend: backend as Backend }
    : undefined;
}

class DecommissionRun {
  readonly #parts: Parts;
  readonly #task: TaskRecord<'decommission_backend'>;
  readonly #context: TaskContext;
  /** Its name in the stored decommission. */
  readonly #id = randomUUID();
  #hasTakenOver = false;

  constructor(parts: Parts, task: TaskRecord<'decommission_backend'>, context: TaskContext) {
    this.#parts = parts;
    this.#task = task;
    this.#context = context;
  }

  async run() {
    const { signal, progress } = this.#context;
    const { drainSeconds, timeoutSeconds } = this.#task.request;
    for (;;) {
      const { warehouse, backend, decommission, found } = await this.#current();
      if (decommission.phase === 'done') {
        await storeClusterShape(this.#parts, found);
        const { tablets = 0, cancelled = [] } = decommission;
        return { backendId: backend.name, tabletsDropped: tablets, queriesCancelled: cancelled.length };
      }
      const servers = await this.#servers(warehouse);
      const elapsedSeconds = (Date.now() - Date.parse(decommission.startedAt)) / 1000;
      const hasTakenOver = await this.#takeOver(backend.name, decommission, servers);
      const state = await servers.drainState(backend.name, { signal });
      // Also where an earlier attempt has dropped some of its tables: another replica of the others may have been lost since.
      if (hasTakenOver && state.blockers.length === 0) {
        await this.#drop(backend.name, { decommission, state, servers }, elapsedSeconds >= timeoutSeconds);
        continue;
      }
      if (elapsedSeconds >= timeoutSeconds) throw blocked(state.blockers);
      // Also if it did not say what runs on it: its statements may be why it does not respond.
      if (elapsedSeconds >= drainSeconds) {
        const cancelled = await servers.cancelStatements(backend.name, { signal });
        await this.#record((before) => ({ cancelled: [...new Set([...(before.cancelled ?? []), ...cancelled])] }));
      }
      progress(null, progressText(state));
      await pause(checkMs, undefined, { signal });
    }
  }

  async #servers(warehouse: string): Promise<RegisteredServers> {
    const servers = await this.#parts.warehouses.serversOf(warehouse);
    if (!servers) throw new Failure('CHANGE_NOT_SUPPORTED', 'the engine of the warehouse has no cluster');
    return servers;
  }

  async #current() {
    const { objectId } = this.#task.request;
    const found = await find(this.#parts.catalog, objectId);
    if (!found) throw new Failure('OBJECT_NOT_FOUND', 'the backend no longer exists', { category: 'backends' });
    const { decommission } = found.backend.spec;
    // The server that cancelled it may have died before it could cancel the task.
    if (decommission?.taskId !== this.#task.taskId) throw new Cancelled();
    const { warehouse, backend } = found;
    return { warehouse, backend, decommission, found: { id: found.warehouseId, name: warehouse } };
  }

  /**
   * An earlier run whose server only stands still drops nothing any more: what is found from now on about other replicas is true of all that is
   * dropped. @returns false if the backend does not respond.
   */
  async #takeOver(backend: string, { phase }: Decommission, servers: RegisteredServers): Promise<boolean> {
    if (this.#hasTakenOver) return true;
    if (phase === 'dropping') await this.#record(() => ({ run: this.#id }));
    try {
      await servers.endDrops(backend);
      this.#hasTakenOver = true;
    } catch (error) {
      if (!(error instanceof Failure) || error.code === 'CHANGE_IN_PROGRESS') throw error;
    }
    return this.#hasTakenOver;
  }

  /** From its first transaction on, the decommission can no longer be cancelled. `isLate`: it is not tried again. */
  async #drop(backend: string, { decommission, state, servers }: Drained, isLate: boolean): Promise<void> {
    const signal = unlessCancelled(this.#context.signal);
    const tablets = state.remainingTablets;
    await this.#record((before) =>
      before.phase === 'draining' ? { phase: 'dropping', run: this.#id, tablets } : this.#owned(before),
    );
    if (decommission.phase === 'draining') {
      // No statement uses it any more, but another replica may have been lost meanwhile.
      const { blockers } = await servers.drainState(backend, { signal });
      if (blockers.length > 0) {
        await this.#record((before) => ({ ...this.#owned(before), phase: 'draining' }));
        throw new Failure('CHANGE_IN_PROGRESS', 'another replica was lost meanwhile');
      }
    }
    const confirm = async () => void this.#owned((await this.#current()).decommission);
    await servers.dropTables(backend, { signal, confirm }).catch((error: unknown) => {
      const isRefused = error instanceof Failure && error.code !== 'CHANGE_IN_PROGRESS' && !signal.aborted;
      throw isLate && isRefused ? blocked([undropped]) : error;
    });
    await this.#record((before) => ({ ...this.#owned(before), phase: 'done' }));
  }

  /** Throws if another run drops the tables, or has dropped them. */
  #owned(decommission: Decommission): Decommission {
    if (decommission.phase !== 'draining' && decommission.run === this.#id) return decommission;
    throw new Failure('CHANGE_IN_PROGRESS', 'another run drops the tables of the backend');
  }

  /** Throws Cancelled if the decommission was cancelled. */
  #record(change: (before: Decommission) => Partial<Decommission>): Promise<void> {
    const { catalog } = this.#parts;
    return catalog.retrying(async () => {
      const { backend, decommission } = await this.#current();
      const changed = { ...decommission, ...change(decommission) };
      if (isDeepStrictEqual(changed, decommission)) return;
      await catalog.update(backend, { spec: { ...backend.spec, decommission: changed }, principal: actor });
    });
  }
}

function progressText({ remainingTablets, blockers: [first] }: DrainState): string {
  const remaining = remainingTablets === 1 ? '1 tablet remains' : `${remainingTablets} tablets remain`;
  return first ? `${remaining}; ${first.message}` : remaining;
}

/** It is too late to cancel it. */
function unlessCancelled(signal: AbortSignal): AbortSignal {
  const ending = new AbortController();
  const end = () => {
    if (!(signal.reason instanceof Cancelled)) ending.abort(signal.reason);
  };
  if (signal.aborted) end();
  else signal.addEventListener('abort', end, { once: true });
  return ending.signal;
}

const undropped: DrainBlocker = {
  reason: 'unreachable',
  table: null,
  tabletId: null,
  message: 'the backend does not drop its tables',
};

function blocked(blockers: readonly DrainBlocker[]): Failure {
  const [first] = blockers;
  return new Failure('DECOMMISSION_BLOCKED', first?.message ?? 'other backends do not have all tablets', {
    blockers: blockers.slice(0, blockersShownMax).map(({ reason, tabletId }) => ({ reason, tabletId })),
  });
}
