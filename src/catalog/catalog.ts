// The catalog: the entry point to every change of objects (see changes/), with the look-ups of catalog_reader.ts. It knows no category
// and checks no permission: callers have been authorized before.
import assert from 'node:assert/strict';
import { noTrail, type Trail } from '../access/audit/audit_log.ts';
import type { WorkOptions } from '../engines/port/work.ts';
import type { Actor } from '../model/principal.ts';
import type { TableStatistics } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import { ObjectChanged } from '../standard/expected_version.ts';
import type { ChangeFeed } from '../store/changes/change_feed.ts';
import { LeaseHolder } from '../store/leases.ts';
import type { Batch } from '../store/row_batches.ts';
import type { Store } from '../store/store.ts';
import { CatalogReader, objectSource } from './catalog_reader.ts';
import { type CatalogContext, type CatalogEngine, retryMs, type Tx } from './changes/change_context.ts';
import { runCreation } from './changes/create_by_task.ts';
import { createObject } from './changes/create_object.ts';
import { dropObject } from './changes/drop_object.ts';
import { IntentLeases } from './changes/intent_leases.ts';
import {
  forgetSpentSteps,
  type OpenIntent,
  openIntents,
  recoverKeyed,
  recoverOne,
  releaseBlocked,
} from './changes/intent_recovery.ts';
import { dropLostWarehouse, type LostWarehouses, removeLostWarehouses } from './changes/lost_warehouses.ts';
import { NameLocks } from './changes/name_locks.ts';
import { appendChange } from './changes/object_changes.ts';
import { findSibling } from './changes/object_names.ts';
import { findDropped, purgeDue, searchDropped, undropObject } from './changes/undrop_object.ts';
import { intentOfTask, runIntent, updateObject } from './changes/update_object.ts';
import { recordHidden } from './moves/left_copies.ts';
import {
  beginMove,
  type CatalogMove,
  droppedWithin,
  findMove,
  type MoveRequest,
  type MoveSwitch,
  saveMoveProgress,
  settleMove,
  switchMove,
  takeMove,
} from './moves/move_catalog.ts';
import {
  askServers,
  beginSnapshotHold,
  confirmMove,
  endAsking,
  endHold,
  endSnapshotHold,
  requireSnapshotHold,
} from './moves/move_reports.ts';
import type {
  CatalogObject,
  Category,
  CreateRequest,
  CreationWork,
  DroppedObject,
  DroppedPosition,
  DroppedSearchOptions,
  DropRequest,
  UndropRequest,
  UpdateOutcome,
  UpdateRequest,
} from './object.ts';
import { isVisible } from './object_rows.ts';
import { RecoveryRounds } from './recovery_rounds.ts';
import type { SpecOf } from './specs.ts';
import { warehousesElsewhere } from './warehouses_elsewhere.ts';

export interface CatalogOptions {
  readonly store: Store;
  /** Gets every change of an object, and of its statistics. */
  readonly changes: Pick<ChangeFeed, 'append' | 'follow'>;
  readonly engineOf: (warehouse: string) => Promise<CatalogEngine>;
  /** By default every warehouse exists. */
  readonly warehouseExists?: CatalogContext['warehouseExists'] | undefined;
  readonly clock?: (() => number) | undefined;
  readonly observe?: Observe | undefined;
  /** Called when a task row was committed with a change; wakes the runner (`() => tasks.notify()`). */
  readonly onTask?: (() => void) | undefined;
  /** Throws if the principal has reached its limit of unfinished tasks. */
  readonly requireTaskQuota?: CatalogContext['requireTaskQuota'] | undefined;
  /** Stores the webhook of a submitted task, in the transaction of the submission. */
  readonly addWebhook?: CatalogContext['addWebhook'] | undefined;
  readonly trail?: Trail | undefined;
  /** This process; by default the only one that uses the store. */
  readonly holder?: LeaseHolder | undefined;
}

/** In one call, at least those of one database or catalog. */
const relocatedTablesMax = 1000;

export class Catalog extends CatalogReader {
  readonly #context: CatalogContext;
  readonly #recovery: RecoveryRounds;
  #purging: Promise<void> | undefined;
  #openIntents: Promise<OpenIntent[]> | undefined;

  constructor(options: CatalogOptions) {
    const source = objectSource(options.store);
    super(source);
    const { store, clock = Date.now, observe = () => {}, holder = new LeaseHolder() } = options;
    this.#context = {
      ...source,
      locks: new NameLocks(),
      leases: new IntentLeases({ store, holder, clock, observe }),
      engineOf: options.engineOf,
      warehouseExists: options.warehouseExists ?? (async () => true),
      warehousesElsewhere: () => warehousesElsewhere(this, holder.serverId),
      clock,
      observe,
      changes: options.changes,
      onTask: options.onTask ?? (() => {}),
      scheduleRecovery: () => this.#recovery.schedule(),
      requireTaskQuota: options.requireTaskQuota ?? (async () => {}),
      addWebhook: options.addWebhook ?? (() => Promise.reject(new Error('no webhook sender is configured'))),
      trail: options.trail ?? noTrail,
      applying: new Set(),
      relocated: new Set(),
    };
    this.#recovery = new RecoveryRounds(this.#context);
    options.changes.follow(this.#recovery);
  }

  /** The tables below the catalogs and databases that this server restored or renamed since the last call: chains, root first. */
  async takeRelocatedTables(): Promise<(readonly CatalogObject[])[]> {
    const { relocated } = this.#context;
    const tables: (readonly CatalogObject[])[] = [];
    for (const id of relocated) {
      if (tables.length >= relocatedTablesMax) break;
      // It may be relocated again meanwhile.
      relocated.delete(id);
      try {
        tables.push(...(await this.#tablesBelow(id)));
      } catch (error) {
        relocated.add(id);
        if (tables.length === 0) throw error;
        break;
      }
    }
    return tables;
  }

  /** Chains, root first; none if the catalog or database no longer exists. */
  async #tablesBelow(id: string): Promise<(readonly CatalogObject[])[]> {
    const tables: (readonly CatalogObject[])[] = [];
    const [root, database] = await this.findChain(id);
    if (!root) return tables;
    const databases = database ? [database] : await this.list(id, 'databases', { limit: Number.MAX_SAFE_INTEGER });
    for (const parent of databases)
      for (const table of await this.list(parent.id, 'tables', { limit: Number.MAX_SAFE_INTEGER }))
        tables.push([root, parent, table]);
    return tables;
  }

  /** Does nothing if the object no longer exists. */
  async saveStatistics(objectId: string, statistics: TableStatistics): Promise<void> {
    const { store, statements } = this.#context;
    const values = {
      row_count: statistics.rowCount,
      data_bytes: statistics.dataBytes,
      as_of: Date.parse(statistics.asOf),
    };
    await store.transaction(async (tx) => {
      const object = await statements.byId.first(tx, { id: objectId });
      if (!object || !isVisible(object)) return;
      await tx
        .insertInto('table_statistics')
        .values({ object_id: objectId, ...values })
        .onConflict((c) => c.column('object_id').doUpdateSet(values))
        .execute();
      appendChange(this.#context, tx, object, { deep: false });
    });
  }

  /**
   * Throws INVALID_NAME, OBJECT_ALREADY_EXISTS, OBJECT_NOT_FOUND (the parent), CHANGE_IN_PROGRESS, and what the engine throws.
   * If the outcome in the engine is unknown, recovery undoes the creation.
   */
  async create<S>(
    request: CreateRequest<S> & { readonly task?: undefined },
  ): Promise<{ object: CatalogObject<S>; created: boolean }> {
    return (await createObject(this.#context, request)) as { object: CatalogObject<S>; created: boolean };
  }

  /** Like `create`, but `request.task` does the work: the object is invisible until that task has completed `runCreation`. */
  async createLater<S>(
    request: CreateRequest<S>,
  ): Promise<{ object: CatalogObject<S>; taskId?: undefined } | { taskId: string; object?: undefined }> {
    assert(request.task && request.change, 'a deferred creation needs a task and a change in an engine');
    return (await createObject(this.#context, request)) as { object: CatalogObject<S> } | { taskId: string };
  }

  /** The body of the task of `createLater`. */
  async runCreation(
    taskId: string,
    { signal, ...work }: CreationWork & { readonly signal: AbortSignal },
  ): Promise<CatalogObject> {
    return runCreation(this.#context, taskId, signal, work);
  }

  /** The id of the task that is creating a still invisible object with this name (case-insensitive). */
  async findCreationTask(parentId: string, category: Category, name: string): Promise<string | undefined> {
    const { store, statements } = this.#context;
    const row = await findSibling(statements, store.db, parentId, category, name);
    if (row?.state !== 'creating') return undefined;
    return (await statements.intentOf.first(store.db, { objectId: row.id }))?.task_id ?? undefined;
  }

  /**
   * Writes the fields that differ; without a difference and without a `change` the object is not touched. Throws like `create`, and
   * VERSION_CONFLICT {version}. If the outcome in the engine is unknown, recovery retries the change.
   */
  async update<S>(object: CatalogObject<S>, request: UpdateRequest<NoInfer<S>>): Promise<UpdateOutcome<S>> {
    return (await updateObject(this.#context, object, request)) as UpdateOutcome<S>;
  }

  /** @returns false if the object no longer existed. Throws NOT_EMPTY, CHANGE_IN_PROGRESS, and what the engine throws. */
  async drop(object: CatalogObject, request: DropRequest): Promise<boolean> {
    return dropObject(this.#context, object, request);
  }

  /** Removes the warehouses of a server that is lost for good, in the transaction that removes the server. */
  removeLostWarehouses(tx: Tx, serverId: string): Promise<LostWarehouses> {
    return removeLostWarehouses(this.#context, tx, serverId);
  }

  /** Deletes a warehouse whose servers are lost for good, with its catalogs. @returns false if it no longer exists. */
  dropLostWarehouse(
    warehouse: CatalogObject,
    request: { readonly principal: Actor; readonly inTransaction: (tx: Tx) => Promise<void> },
  ): Promise<boolean> {
    return dropLostWarehouse(this.#context, warehouse, request);
  }

  /** Dropped objects that can be restored, ordered by name; as `search`. */
  async searchDropped<K extends Category>(
    parentId: string | null,
    category: K,
    options: DroppedSearchOptions,
  ): Promise<Batch<DroppedObject<SpecOf<K>>, DroppedPosition>> {
    const found = await searchDropped(this.#context, parentId, category, options);
    return found as Batch<DroppedObject<SpecOf<K>>, DroppedPosition>;
  }

  /** The dropped objects with this id or name, most recently dropped first. */
  async findDropped<K extends Category>(
    parentId: string | null,
    category: K,
    by: { readonly id: string } | { readonly name: string },
  ): Promise<DroppedObject<SpecOf<K>>[]> {
    return (await findDropped(this.#context, parentId, category, by)) as DroppedObject<SpecOf<K>>[];
  }

  /** Throws like `create`, and OBJECT_NOT_FOUND if the object has been restored or purged meanwhile. */
  async undrop<S>(dropped: DroppedObject<S>, request: UndropRequest): Promise<UpdateOutcome<S>> {
    return (await undropObject(this.#context, dropped, request)) as UpdateOutcome<S>;
  }

  /** Purges dropped objects whose retention has expired. Runs every minute. */
  async purge(): Promise<void> {
    this.#purging ??= purgeDue(this.#context).finally(() => {
      this.#purging = undefined;
    });
    await this.#purging;
  }

  /**
   * Retries `attempt` when it fails because the object changed between its look-up and its change. A handler that reads an object,
   * computes a new spec from it and calls `update` wraps all three. Retries on the same object are serialized, so that each of many
   * concurrent requests succeeds. Throws CHANGE_IN_PROGRESS if the turn does not come before the deadline.
   */
  async retrying<T>(attempt: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + retryMs;
    const run = async (lockKey: string | undefined): Promise<T> => {
      for (;;) {
        try {
          return await attempt();
        } catch (error) {
          if (!(error instanceof ObjectChanged) || performance.now() >= deadline) throw error;
          const retryKey = `changed ${error.objectId ?? ''}`;
          if (lockKey === undefined)
            return this.#context.locks.hold([retryKey], deadline - performance.now(), () => run(retryKey));
        }
      }
    };
    return run(undefined);
  }

  /** The body of the task of a change that rewrites data. */
  async runIntent(taskId: string, options: WorkOptions): Promise<CatalogObject> {
    return runIntent(this.#context, taskId, options);
  }

  /** Ends the intent of a task that ended without running (cancelled while pending) now, not at the next `recover`. */
  async settleTask(taskId: string): Promise<void> {
    const intent = await intentOfTask(this.#context, taskId);
    const row = intent && (await this.#context.statements.byId.first(this.#context.store.db, { id: intent.object_id }));
    if (!row || (await this.#context.warehousesElsewhere()).has(intent.warehouse)) return;
    await recoverOne(this.#context, row);
  }

  /** Submits the task of a move of a catalog. Throws CHANGE_IN_PROGRESS. @returns its id. */
  beginMove(object: CatalogObject, request: MoveRequest): Promise<string> {
    return beginMove(this.#context, object, request);
  }

  /** Undefined if the task is no move, or if the move was given up. */
  findMove(taskId: string): Promise<CatalogMove | undefined> {
    return findMove(this.#context, taskId);
  }

  takeMove(taskId: string): Promise<void> {
    return takeMove(this.#context, taskId);
  }

  saveMoveProgress(taskId: string, progress: unknown): Promise<void> {
    return saveMoveProgress(this.#context, taskId, progress);
  }

  /** Throws TASK_INTERRUPTED if the move has switched, was given up, or another process has it. */
  confirmMove(taskId: string): Promise<void> {
    return confirmMove(this.#context, taskId);
  }

  switchMove(move: CatalogMove, change: MoveSwitch): Promise<void> {
    return switchMove(this.#context, move, change);
  }

  /** From now on the other servers can be asked to hold their writes for a snapshot. Idempotent. */
  beginSnapshotHold(hold: { readonly taskId: string; readonly catalogId: string; readonly warehouse: string }) {
    return beginSnapshotHold(this.#context, hold);
  }

  /** Throws CHANGE_IN_PROGRESS if writes have continued since the hold of this question was reported. */
  requireSnapshotHold(taskId: string, asks: number): Promise<void> {
    return requireSnapshotHold(this.#context, taskId, asks);
  }

  /** `isOwn`: unless another process has the task now. */
  endSnapshotHold(taskId: string, isOwn: boolean): Promise<void> {
    return endSnapshotHold(this.#context, taskId, isOwn);
  }

  /** Asks the other servers that write to the catalog of a move or snapshot for a report. @returns the number of the question. */
  askServers(taskId: string, isHeld: boolean): Promise<number> {
    return askServers(this.#context, taskId, isHeld);
  }

  /** Lets other servers write to the catalog of a move or snapshot again. `asks`: only if that was the last question. @returns whether it did. */
  endHold(taskId: string, asks?: number): Promise<boolean> {
    return endHold(this.#context, taskId, asks);
  }

  /** The engine no longer knows the copy that a move has left by the name of the catalog, which had this id. */
  recordHiddenCopy(catalogId: string): Promise<void> {
    return recordHidden(this.#context.store, catalogId);
  }

  endAsking(taskId: string): Promise<void> {
    return endAsking(this.#context, taskId);
  }

  settleMove(taskId: string): Promise<void> {
    return settleMove(this.#context, taskId);
  }

  /** The number of objects in a catalog that were dropped on their own and can be restored. */
  async countDroppedWithin(catalogId: string): Promise<number> {
    return (await droppedWithin(this.#context.store.db, catalogId)).length;
  }

  /** Begins to recover the changes of servers that have ended. Called every second if the store is shared. */
  async takeOver(): Promise<void> {
    if (await this.#context.leases.haveExpired()) this.#recovery.schedule();
  }

  /** Finishes or undoes open intents that no task owns, then lets the engines forget spent steps. Runs at start and every minute. */
  async recover(): Promise<void> {
    await this.#recovery.run();
    await forgetSpentSteps(this.#context);
  }

  /** Called before a statement of the warehouse runs; undefined if there is nothing to wait for. */
  waitForRecovery(warehouse: string): Promise<void> | undefined {
    return this.#recovery.waitForRecovery(warehouse);
  }

  /** Throws CHANGE_IN_PROGRESS if one of the names refers to an object whose interrupted change is still open. */
  requireNoOpenChange(...parameters: Parameters<RecoveryRounds['requireNoOpenChange']>): void {
    this.#recovery.requireNoOpenChange(...parameters);
  }

  /** Throws CHANGE_IN_PROGRESS if one of the names refers to an object that is being renamed. */
  async requireNotBeingRenamed(...parameters: Parameters<RecoveryRounds['requireNotBeingRenamed']>): Promise<void> {
    await this.#recovery.requireNotBeingRenamed(...parameters);
  }

  /** Changes that were interrupted and have not been recovered. Requests of the same turn of the event loop share a read, which begins after it. */
  openIntents(): Promise<OpenIntent[]> {
    this.#openIntents ??= Promise.resolve().then(() => {
      this.#openIntents = undefined;
      return openIntents(this.#context);
    });
    return this.#openIntents;
  }

  /** Lets recovery retry the blocked changes of a warehouse. @returns their number. */
  releaseBlocked(warehouse: string): Promise<number> {
    return releaseBlocked(this.#context, warehouse);
  }

  /** From now on a change that is left open is recovered as soon as possible. */
  start(): void {
    this.#recovery.start();
  }

  async stop(): Promise<void> {
    await this.#recovery.stop();
  }

  /** Like `recover`, for the changes that earlier attempts of a keyed request left open; throws if that is not possible now. */
  async recoverKeyed(keyId: string): Promise<void> {
    await recoverKeyed(this.#context, keyId);
  }
}
