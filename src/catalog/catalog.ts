// The catalog: objects in the store, how they are found, and the entrance to every change of them (creation.ts,
// alteration.ts, removal.ts, recovery.ts). Knows no category, and no permission: callers were authorised before.
import assert from 'node:assert/strict';
import { sql } from 'kysely';
import { noTrail, type Trail } from '../access/audit/audit_log.ts';
import type { PathObject } from '../access/authorization/authorizer.ts';
import type { WorkOptions } from '../engines/engine.ts';
import { compareNames, foldName } from '../model/names.ts';
import type { TableStatistics } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import { ObjectChanged } from '../standard/basis.ts';
import { visible } from '../store/migrations/migrate.ts';
import type { Store } from '../store/store.ts';
import {
  type CatalogContext,
  type CatalogEngine,
  findSibling,
  isVisible,
  notFound,
  retryMs,
} from './changes/change_context.ts';
import { runCreation } from './changes/create_by_task.ts';
import { createObject } from './changes/create_object.ts';
import { dropObject } from './changes/drop_object.ts';
import {
  forgetSpentSteps,
  type OpenIntent,
  openIntents,
  recoverKeyed,
  recoverOne,
  releaseBlocked,
} from './changes/intent_recovery.ts';
import { notifyChanged } from './changes/intents.ts';
import { NameLocks } from './changes/name_locks.ts';
import { countRetained } from './changes/soft_delete.ts';
import { findDropped, listDropped, purgeDue, undropObject } from './changes/undrop_object.ts';
import { intentOfTask, runIntent, updateObject } from './changes/update_object.ts';
import { sourcesOf } from './changes/view_dependencies.ts';
import type {
  CatalogObject,
  Category,
  ChangeEvent,
  CreateRequest,
  CreationWork,
  DroppedListOptions,
  DroppedObject,
  DropRequest,
  ListOptions,
  ObjectPath,
  UndropRequest,
  UpdateOutcome,
  UpdateRequest,
} from './object.ts';
import { objectColumns, SpecCache, toRfc3339 } from './object_rows.ts';
import { RecoveryRounds } from './recovery_rounds.ts';
import { catalogStatements, pathRow, pathStatement, prefixStatement } from './statements.ts';

/** Values in one `in (...)` of the store. */
const idsPerQueryMax = 1000;

export interface CatalogOptions {
  readonly store: Store;
  readonly engineOf: (warehouse: string) => Promise<CatalogEngine>;
  readonly clock?: (() => number) | undefined;
  readonly observe?: Observe | undefined;
  /** A task row was committed with a change: wakes the runner (`() => tasks.notify()`). */
  readonly onTask?: (() => void) | undefined;
  /** Throws where the principal may have no further unfinished task. */
  readonly requireTaskQuota?: CatalogContext['requireTaskQuota'] | undefined;
  /** Part of the submission of a task whose end is to be told. */
  readonly addWebhook?: CatalogContext['addWebhook'] | undefined;
  readonly trail?: Trail | undefined;
}

export class Catalog {
  readonly #context: CatalogContext;
  readonly #listeners: ((event: ChangeEvent) => void)[] = [];
  readonly #paths: ReturnType<typeof pathStatement>[] = [];
  readonly #steps: ReturnType<typeof prefixStatement>[] = [];
  readonly #recovery: RecoveryRounds;
  #purging: Promise<void> | undefined;

  constructor(options: CatalogOptions) {
    const { store } = options;
    this.#context = {
      store,
      statements: catalogStatements(store.db),
      specs: new SpecCache(),
      locks: new NameLocks(),
      engineOf: options.engineOf,
      clock: options.clock ?? Date.now,
      observe: options.observe ?? (() => {}),
      emit: (event) => {
        for (const listener of this.#listeners) listener(event);
      },
      onTask: options.onTask ?? (() => {}),
      scheduleRecovery: () => this.#recovery.schedule(),
      intentEnded: (intentId) => this.#recovery.forgetEnded(intentId),
      requireTaskQuota: options.requireTaskQuota ?? (async () => {}),
      addWebhook: options.addWebhook ?? (() => Promise.reject(new Error('no webhook sender is configured'))),
      trail: options.trail ?? noTrail,
      applying: new Set(),
    };
    this.#recovery = new RecoveryRounds(this.#context);
  }

  /** The whole chain, root first; undefined where any of it is missing. */
  async find(path: ObjectPath): Promise<CatalogObject[] | undefined> {
    if (path.length === 0) return [];
    const { store, specs } = this.#context;
    this.#paths[path.length] ??= pathStatement(store.db, path.length);
    const values: Record<string, string> = {};
    for (const [n, { category, name }] of path.entries()) {
      values[`category${n}`] = category;
      values[`name${n}`] = name;
    }
    const row = await this.#paths[path.length]?.first(store.db, values);
    return row && path.map((_, n) => specs.toObject(pathRow(row, n)));
  }

  /**
   * As `find`, but case does not count: how SQL names things, and how an engine may hold the name of a database that was
   * renamed in case only. Siblings never differ in case alone, so there is one at most.
   */
  async findFolded(path: ObjectPath): Promise<CatalogObject[] | undefined> {
    const { store, specs } = this.#context;
    const chain: CatalogObject[] = [];
    for (const { category, name } of path) {
      const row = await findSibling(this.#context, store.db, chain.at(-1)?.id ?? null, category, name);
      if (!row || !isVisible(row)) return undefined;
      chain.push(specs.toObject(row));
    }
    return chain;
  }

  /** As `find`; throws OBJECT_NOT_FOUND {category, name} of the first missing one. */
  async require(path: ObjectPath): Promise<CatalogObject[]> {
    const found = await this.find(path);
    if (found) return found;
    for (const [n, { category, name }] of path.entries()) {
      if (!(await this.find(path.slice(0, n + 1)))) throw notFound(category, name);
    }
    throw new ObjectChanged();
  }

  /** As much of a path as there is, root first: one query, whatever of it is missing. */
  async findPrefix(path: ObjectPath): Promise<PathObject[]> {
    if (path.length === 0) return [];
    const { store } = this.#context;
    this.#steps[path.length] ??= prefixStatement(store.db, path.length);
    const values: Record<string, string> = {};
    for (const [n, { category, name }] of path.entries()) {
      values[`category${n}`] = category;
      values[`name${n}`] = name;
    }
    const row = await this.#steps[path.length]?.first(store.db, values);
    const steps: PathObject[] = [];
    for (let n = 0; row && n < path.length; n++) {
      const id = row[`id${n}`];
      if (typeof id !== 'string') break;
      steps.push({ id, owner: row[`owner${n}`] as string });
    }
    return steps;
  }

  /** The objects of a path of ids, root first; those that are gone are left out. */
  async findByIds(ids: readonly string[]): Promise<CatalogObject[]> {
    const found = await Promise.all(ids.map((id) => this.byId(id)));
    return found.filter((one) => one !== undefined);
  }

  /** The same with those that were dropped and can come back: grants hang on them still. */
  async findByIdsWithDropped(ids: readonly string[]): Promise<CatalogObject[]> {
    const { store, statements, specs } = this.#context;
    const rows = await Promise.all(ids.map((id) => statements.byId.first(store.db, { id })));
    return rows.filter((row) => row !== undefined).map((row) => specs.toObject(row));
  }

  /** An object with what it is in, root first; empty where it is gone. */
  async findChain(id: string): Promise<CatalogObject[]> {
    const { store, statements } = this.#context;
    const chain = await statements.ancestors.all(store.db, { id });
    if (chain.some((row) => !isVisible(row))) return [];
    return this.findByIds(chain.map((row) => row.id).reverse());
  }

  /** Whether a user owns something in an object, two levels down at most: a catalog has no more. */
  async ownsDescendant(owner: string, objectId: string): Promise<boolean> {
    const { store, statements } = this.#context;
    return (await statements.ownedDescendant.first(store.db, { owner, objectId })) !== undefined;
  }

  /** What a view that is there names: ids, in no order. */
  async sourcesOf(viewId: string): Promise<string[]> {
    return (await sourcesOf(this.#context.store.db, viewId)).map((row) => row.source_id);
  }

  async byId(id: string): Promise<CatalogObject | undefined> {
    const { store, statements, specs } = this.#context;
    const row = await statements.byId.first(store.db, { id });
    return row && isVisible(row) ? specs.toObject(row) : undefined;
  }

  /** Ordered by name, by code points. */
  async list(parentId: string | null, category: Category, options: ListOptions): Promise<CatalogObject[]> {
    const { store, specs } = this.#context;
    let query = store.db
      .selectFrom('objects')
      .select(objectColumns)
      .where('parent_id', parentId === null ? 'is' : '=', parentId)
      .where('category', '=', category)
      .where(visible)
      .orderBy('name')
      .limit(options.limit);
    if (options.after !== undefined) query = query.where('name', '>', options.after);
    const { namePattern, comment, restrictTo: only } = options;
    // Both sides are folded here: the dialects' own ideas of case differ.
    if (namePattern !== undefined) {
      query = query.where(sql<boolean>`folded_name like ${foldName(namePattern)} escape '\\'`);
    }
    if (comment !== undefined && comment !== '') {
      const pattern = `%${comment.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`;
      query = query.where(sql<boolean>`folded_comment like ${pattern} escape '\\'`);
    }
    if (!only) return (await query.execute()).map((row) => specs.toObject(row));
    const { owner, ids, filter = () => true } = only;
    // Asked for in parts, then put in order; where something is left out afterwards, each part is asked for whole.
    const part = only.filter ? query.clearLimit() : query;
    const rows = owner === undefined ? [] : await part.where('owner', '=', owner).execute();
    const known = new Set(rows.map((row) => row.id));
    for (let at = 0; at < ids.length; at += idsPerQueryMax) {
      for (const row of await part.where('id', 'in', ids.slice(at, at + idsPerQueryMax)).execute())
        if (!known.has(row.id)) rows.push(row);
    }
    rows.sort((a, b) => compareNames(a.name, b.name));
    return rows
      .filter(filter)
      .slice(0, options.limit)
      .map((row) => specs.toObject(row));
  }

  async count(parentId: string | null, category: Category): Promise<number> {
    const { store, statements } = this.#context;
    const row =
      parentId === null
        ? await statements.countRoot.first(store.db, { category })
        : await statements.countChild.first(store.db, { parentId, category });
    return Number(row?.count ?? 0);
  }

  async statistics(objectId: string): Promise<TableStatistics | undefined> {
    const { store, statements } = this.#context;
    const row = await statements.statistics.first(store.db, { id: objectId });
    return row && { rowCount: row.row_count, dataBytes: row.data_bytes, asOf: toRfc3339(row.as_of) };
  }

  /** The same for many objects at once, by id; objects without statistics are absent. */
  async statisticsOf(objectIds: readonly string[]): Promise<Map<string, TableStatistics>> {
    const found = new Map<string, TableStatistics>();
    for (let at = 0; at < objectIds.length; at += idsPerQueryMax) {
      const rows = await this.#context.store.db
        .selectFrom('table_statistics')
        .selectAll()
        .where('object_id', 'in', objectIds.slice(at, at + idsPerQueryMax))
        .execute();
      for (const row of rows) {
        found.set(row.object_id, { rowCount: row.row_count, dataBytes: row.data_bytes, asOf: toRfc3339(row.as_of) });
      }
    }
    return found;
  }

  /** Does nothing for an object that is gone. */
  async saveStatistics(objectId: string, statistics: TableStatistics): Promise<void> {
    const { store, statements } = this.#context;
    const values = {
      row_count: statistics.rowCount,
      data_bytes: statistics.dataBytes,
      as_of: Date.parse(statistics.asOf),
    };
    const row = await store.transaction(async (tx) => {
      const object = await statements.byId.first(tx, { id: objectId });
      if (object && isVisible(object)) {
        await tx
          .insertInto('table_statistics')
          .values({ object_id: objectId, ...values })
          .onConflict((c) => c.column('object_id').doUpdateSet(values))
          .execute();
      }
      return object;
    });
    if (row && isVisible(row)) notifyChanged(this.#context, row, false);
  }

  /**
   * Throws INVALID_NAME, OBJECT_ALREADY_EXISTS, OBJECT_NOT_FOUND (the parent), CHANGE_IN_PROGRESS, and what the engine throws.
   * Where the engine's outcome stays unknown, the object is undone.
   */
  async create<S>(
    request: CreateRequest<S> & { readonly task?: undefined },
  ): Promise<{ object: CatalogObject<S>; created: boolean }> {
    return (await createObject(this.#context, request)) as { object: CatalogObject<S>; created: boolean };
  }

  /** As `create`, by `request.task`: nobody sees the object before that has run `runCreation` to its end. */
  async createLater<S>(
    request: CreateRequest<S>,
  ): Promise<{ object: CatalogObject<S>; taskId?: undefined } | { taskId: string; object?: undefined }> {
    assert(request.task && request.change, 'what is made later is made by a task, in an engine');
    return (await createObject(this.#context, request)) as { object: CatalogObject<S> } | { taskId: string };
  }

  /** The body of the task of `createLater`. */
  async runCreation(
    taskId: string,
    { signal, ...work }: CreationWork & { readonly signal: AbortSignal },
  ): Promise<CatalogObject> {
    return runCreation(this.#context, taskId, signal, work);
  }

  /** The task that makes what nobody sees yet under a name; case does not count. */
  async findCreationTask(parentId: string, category: Category, name: string): Promise<string | undefined> {
    const { store, statements } = this.#context;
    const row = await findSibling(this.#context, store.db, parentId, category, name);
    if (row?.state !== 'creating') return undefined;
    return (await statements.intentOf.first(store.db, { objectId: row.id }))?.task_id ?? undefined;
  }

  /**
   * Changes what differs; where nothing does, and there is no `change`, the object stays as it is. Throws as `create` does,
   * and VERSION_CONFLICT {version}. Where the engine's outcome stays unknown, the change is tried again later.
   */
  async update<S>(object: CatalogObject, request: UpdateRequest<S>): Promise<UpdateOutcome<S>> {
    return (await updateObject(this.#context, object, request)) as UpdateOutcome<S>;
  }

  /** False where it was gone already. Throws NOT_EMPTY, CHANGE_IN_PROGRESS, and what the engine throws. */
  async drop(object: CatalogObject, request: DropRequest): Promise<boolean> {
    return dropObject(this.#context, object, request);
  }

  /** Objects that were dropped and can come back, ordered by name. */
  async listDropped(
    parentId: string | null,
    category: Category,
    options: DroppedListOptions,
  ): Promise<DroppedObject[]> {
    return listDropped(this.#context, parentId, category, options);
  }

  /** Those that an id or a name can mean; the one that was dropped last comes first. */
  async findDropped(
    parentId: string | null,
    category: Category,
    by: { readonly id: string } | { readonly name: string },
  ): Promise<DroppedObject[]> {
    return findDropped(this.#context, parentId, category, by);
  }

  /** How many objects of a category were in one that was dropped. */
  async countDropped(parentId: string, category: Category): Promise<number> {
    return countRetained(this.#context, parentId, category);
  }

  /** Throws as `create` does, and OBJECT_NOT_FOUND where it came back, or went for good, meanwhile. */
  async undrop(dropped: DroppedObject, request: UndropRequest): Promise<UpdateOutcome> {
    return undropObject(this.#context, dropped, request);
  }

  /** Every minute: what was dropped and whose time is over goes for good. */
  async purge(): Promise<void> {
    this.#purging ??= purgeDue(this.#context).finally(() => {
      this.#purging = undefined;
    });
    await this.#purging;
  }

  /**
   * Runs `attempt` again when it failed because the object changed between its look-up and its change. A handler that reads
   * an object, computes a new spec from it and calls `update` wraps all three. Further attempts at one object take turns, so that each
   * of many requests succeeds. Throws CHANGE_IN_PROGRESS where that takes long.
   */
  async retrying<T>(attempt: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + retryMs;
    const again = async (key: string | undefined): Promise<T> => {
      for (;;) {
        try {
          return await attempt();
        } catch (error) {
          if (!(error instanceof ObjectChanged) || performance.now() >= deadline) throw error;
          const changed = `changed ${error.objectId ?? ''}`;
          if (key === undefined)
            return this.#context.locks.hold([changed], deadline - performance.now(), () => again(changed));
        }
      }
    };
    return again(undefined);
  }

  /** The body of a rewriting change's task. */
  async runIntent(taskId: string, options: WorkOptions): Promise<CatalogObject> {
    return runIntent(this.#context, taskId, options);
  }

  /** For a task that ended without running (cancelled while pending): ends its intent now, not at the next `recover`. */
  async settleTask(taskId: string): Promise<void> {
    const intent = await intentOfTask(this.#context, taskId);
    const row = intent && (await this.#context.statements.byId.first(this.#context.store.db, { id: intent.object_id }));
    if (row) await recoverOne(this.#context, row);
  }

  /** At start and every minute: finishes or undoes open intents that no task owns; then lets the engines forget. */
  async recover(): Promise<void> {
    await this.#recovery.run();
    await forgetSpentSteps(this.#context);
  }

  /** Before statements of a warehouse run; undefined where there is nothing to wait for. */
  waitForRecovery(warehouse: string): Promise<void> | undefined {
    return this.#recovery.waitForRecovery(warehouse);
  }

  /** Throws CHANGE_IN_PROGRESS where one of the names is of an object whose interrupted change is still open. */
  requireNoOpenChange(...given: Parameters<RecoveryRounds['requireNoOpenChange']>): void {
    this.#recovery.requireNoOpenChange(...given);
  }

  /** Throws CHANGE_IN_PROGRESS where one of the names is of an object that is being renamed. */
  async requireNotBeingRenamed(...given: Parameters<RecoveryRounds['requireNotBeingRenamed']>): Promise<void> {
    await this.#recovery.requireNotBeingRenamed(...given);
  }

  /** Changes that were interrupted and have not been recovered. */
  openIntents(): Promise<OpenIntent[]> {
    return openIntents(this.#context);
  }

  /** Changes of a warehouse that recovery has set aside are tried again. @returns how many they are. */
  releaseBlocked(warehouse: string): Promise<number> {
    return releaseBlocked(this.#context, warehouse);
  }

  /** From here on, a change that is left open is recovered as soon as that can be. */
  start(): void {
    this.#recovery.start();
  }

  async stop(): Promise<void> {
    await this.#recovery.stop();
  }

  /** As `recover`, for what earlier attempts of a keyed request left open; throws where that cannot be done now. */
  async recoverKeyed(keyId: string): Promise<void> {
    await recoverKeyed(this.#context, keyId);
  }

  /** Listeners are called in the same turn as the commit is known, and do not throw. */
  onChange(listener: (event: ChangeEvent) => void): void {
    assert(!this.#listeners.includes(listener), 'a listener is told once');
    this.#listeners.push(listener);
  }
}
