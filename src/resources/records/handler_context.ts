// The context of every handler, and the functions from which handlers are built. Names no category.

import type { AssembledAccess, AssembledAudit } from '../../access/assemble_access.ts';
import type { VisibleChildren } from '../../access/authorization/authorizer.ts';
import { globalScope } from '../../access/authorization/grant_scopes.ts';
import type { DeclaredCategory } from '../../api/declare.ts';
import type { Handlers, RecordOf, SegmentsOf } from '../../api/handlers.ts';
import { implementWith } from '../../api/implement.ts';
import type { TaskType } from '../../api/tasks/task_types.ts';
import type { Backups } from '../../backups/backups.ts';
import type { Restores } from '../../backups/restores.ts';
import type { ServerBackups } from '../../backups/server/server_backups.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject, ChainOf, ObjectPath } from '../../catalog/object.ts';
import { type RecordCache, rootId } from '../../catalog/record_cache.ts';
import type { Warehouses } from '../../engines/warehouses.ts';
import type { FileStore } from '../../files/file_store.ts';
import type { Call } from '../../http/request_pipeline.ts';
import type { NewTableSubmit } from '../../jobs/load_database.ts';
import type { LoadSubmit } from '../../jobs/load_table.ts';
import type { ObjectVersion } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';
import type { Exports } from '../../query/exports/exports.ts';
import { rejectsLifetimeMs } from '../../query/loads/load_pipeline.ts';
import type { Loads } from '../../query/loads/loads.ts';
import type { NewTableLoads } from '../../query/loads/new_table_loads.ts';
import type { ResultAccess } from '../../query/results/result_access.ts';
import type { TableRows } from '../../query/rows/table_rows.ts';
import type { QueryHistory } from '../../query/statements/history.ts';
import type { Queries } from '../../query/statements/queries.ts';
import type { QuerySubmitter } from '../../query/statements/query_submission.ts';
import type { Accepted, Category, Created, Deleted, Done, Found, Listed, Updated } from '../../standard/endpoint.ts';
import { JsonText, ReadyRecord, type RecordBody } from '../../standard/envelope.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import { objectVersion } from '../../standard/record_version.ts';
import type { CheckCall } from '../../tasks/schedule.ts';
import type { Schedules } from '../../tasks/schedules.ts';
import { isOfType, type TaskRecord, versionOfTask } from '../../tasks/task.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import type { Webhooks } from '../../tasks/webhooks.ts';
import { last } from './fields.ts';
import { withInUseErrors } from './in_use_by_views.ts';
import { redactedRequest } from './request_redaction.ts';

/** The defaults of a new warehouse. */
export interface WarehouseDefaults {
  readonly threads: number;
  readonly memoryLimitBytes: number;
  readonly spillLimitBytes: number;
  readonly autoSuspendSeconds: number;
  readonly queriesMax: number;
  readonly queueMax: number;
  readonly statementTimeoutSeconds: number;
}

export interface Services extends AssembledAccess, AssembledAudit {
  readonly catalog: Catalog;
  readonly records: RecordCache;
  readonly tasks: Tasks;
  readonly schedules: Schedules;
  readonly checkCall: CheckCall;
  readonly webhooks: Webhooks;
  readonly warehouses: Warehouses;
  readonly queries: Queries;
  readonly submitter: QuerySubmitter;
  readonly resultAccess: ResultAccess;
  readonly history: QueryHistory;
  readonly rows: TableRows;
  readonly loads: Loads;
  readonly newTableLoads: NewTableLoads;
  readonly submitNewTable: NewTableSubmit;
  readonly submitLoad: LoadSubmit;
  readonly exports: Exports;
  readonly backups: Backups;
  readonly restores: Restores;
  readonly serverBackups: ServerBackups;
  readonly files: FileStore;
  readonly warehouseDefaults: WarehouseDefaults;
  /** How long a dropped object can be restored; 0: not at all. */
  readonly undropSeconds: number;
}

export interface Context extends Services {
  readonly call: Call;
}

/** Runs a handler that may change something; repeats it if an object that it read was changed by another request. */
function changing<T>(work: () => Promise<T>, context: Context): Promise<T> {
  const attempt = async () => {
    await context.call.checkPrecondition?.();
    return work();
  };
  return withInUseErrors(() => context.catalog.retrying(attempt), context);
}

/** Joins a declared category and its handlers. */
export const implement = <C extends DeclaredCategory>(declared: C, handlers: HandlersOf<C>): Category<Context> =>
  implementWith(declared, handlers, changing);

export const found = <T extends object>(record: RecordBody<T>): Found<T> => ({ outcome: 'found', record });
export const listed = <T extends object>(items: readonly RecordBody<T>[], next?: string): Listed<T> => ({
  outcome: 'listed',
  items,
  next,
});
/** The list result of an action whose items are not objects of its own category. */
export const listedAs = <T extends object>(
  field: string,
  items: readonly RecordBody<T>[],
  next?: string,
): Listed<T> => ({
  outcome: 'listed',
  items,
  field,
  next,
});
export const created = <T extends object>(record: T, made: boolean, uri: string): Created<T> => ({
  outcome: 'created',
  record,
  created: made,
  uri,
});
export const updated = <T extends object>(record: RecordBody<T>): Updated<T> => ({ outcome: 'updated', record });
export const deleted = (was: boolean): Deleted => ({ outcome: 'deleted', deleted: was });
/** `stored`: as in the outcome (standard/endpoint.ts). */
export const done = <T extends object>(result: RecordBody<T>, stored?: RecordBody | null): Done<T> => ({
  outcome: 'done',
  result,
  ...(stored === undefined ? {} : { stored }),
});

export function accepted<T extends TaskType>(task: TaskRecord<T>, context: Context): Accepted<T> {
  const record = taskRecord(task, context);
  return { outcome: 'accepted', task: record, uri: record.uri };
}

/** The record of a task of that type that has just been submitted. */
export async function requireTask<T extends TaskType>(
  taskId: string,
  type: T,
  context: Context,
): Promise<TaskRecord<T>> {
  const task = await context.tasks.get(taskId);
  if (!task || !isOfType(task, type))
    throw new Failure('OBJECT_NOT_FOUND', `there is no task "${taskId}"`, { category: 'tasks', name: taskId });
  return task;
}

/**
 * The record of a task (rest-standard B5). `firstPage`: the URI of the rows of a query; `rejectsLink`: of the rows that a load
 * rejected.
 */
export function taskRecord<T extends TaskType>(task: TaskRecord<T>, { call, files }: Pick<Context, 'call' | 'files'>) {
  const uri = uriOf(call.version, [{ category: 'tasks', name: task.taskId }]);
  const { principal: _principal, ...shown } = task;
  const request = redactedRequest(task);
  const version = versionOfTask(task);
  const { submittedAt, submittedBy, startedAt, endedAt, result } = shown;
  const fileId =
    typeof result === 'object' && result !== null && 'rejectsFileId' in result ? result.rejectsFileId : undefined;
  const rejects =
    typeof fileId === 'string' && endedAt ? { fileId, expiresAt: Date.parse(endedAt) + rejectsLifetimeMs } : undefined;
  const paged = typeof result === 'object' && result !== null && 'pageCount' in result;
  return {
    ...shown,
    request,
    ...(paged ? { firstPage: `${uri}/pages/0` } : {}),
    ...(rejects ? { rejectsLink: files.link(rejects, 'read') } : {}),
    createdAt: submittedAt,
    createdBy: submittedBy,
    updatedAt: endedAt ?? startedAt ?? submittedAt,
    updatedBy: submittedBy,
    version: version.version,
    uri,
    cancelUri: `${uri}/cancel`,
    [objectVersion]: version,
  };
}

export const versionOfObject = ({ id: objectId, category, name, version }: CatalogObject): ObjectVersion => ({
  objectId,
  category,
  name,
  version,
});

/** The fields that every record ends with (rest-standard B4). */
export function commonFields(object: CatalogObject, uri: string) {
  const { createdAt, createdBy, updatedAt, updatedBy, version } = object;
  return { createdAt, createdBy, updatedAt, updatedBy, version, uri, [objectVersion]: versionOfObject(object) };
}

/** How a category converts its objects to records. `chain`: the object and its ancestors, root first. */
export type Render<T extends object = object, P extends ObjectPath = ObjectPath> = (
  chain: ChainOf<P>,
  uri: string,
  context: Context,
) => Promise<T>;

/** The handlers of a declared category. */
export type HandlersOf<C extends DeclaredCategory> = Handlers<C, Context>;

/** How the objects of a declared category are shown. */
export type RenderOf<C extends DeclaredCategory> = Render<RecordOf<C>, SegmentsOf<C>>;

/** GET of an object: from the cache, or read, serialized and cached. */
export async function show<T extends object, P extends ObjectPath>(
  path: P,
  context: Context,
  render: Render<T, P>,
): Promise<ReadyRecord<T>> {
  const uri = uriOf(context.call.version, path);
  const cached = context.records.get(uri);
  if (cached instanceof ReadyRecord) return cached as ReadyRecord<T>;
  return context.records.loadAndCache(uri, async () => {
    const chain = await context.catalog.require(path);
    const { id } = last(chain);
    return { value: new ReadyRecord(await render(chain, uri, context), id), dependsOn: [id] };
  });
}

/** The record of an object that was just changed; bypasses the cache. */
export function render<T extends object, const P extends ObjectPath>(
  path: P,
  chain: ChainOf<NoInfer<P>>,
  context: Context,
  toRecord: Render<T, NoInfer<P>>,
): Promise<T> {
  return toRecord(chain, uriOf(context.call.version, path), context);
}

/** The serialized records of one page of a collection, and the key of the next page. */
class ReadyPage<T extends object = object> {
  readonly items: readonly JsonText<T>[];
  readonly bodyBytes: number;
  readonly next: string | undefined;

  constructor(records: readonly string[], next: string | undefined) {
    const bytes = Buffer.from(records.join(','));
    this.items = records.length === 0 ? [] : [new JsonText(bytes)];
    this.bodyBytes = bytes.length;
    this.next = next;
  }
}

/** The path of an object in a collection. `P`: the path of the collection's parent. */
export type Member<P extends ObjectPath, K extends string> = readonly [...P, Segment<K>];

/** GET of a collection: whole pages are cached. `parents`: the path of the collection's parent. */
export async function page<T extends object, P extends ObjectPath, K extends string>(
  parents: P,
  category: K,
  at: { readonly after?: string; readonly limit: number },
  context: Context,
  toRecord: Render<T, Member<P, K>>,
): Promise<Listed<T>> {
  const base = uriOf(context.call.version, parents);
  if (context.call.reach === 'within') return partOfPage(parents, category, at, context, toRecord);
  const key = `${base}/${category}?${at.limit}&${at.after ?? ''}`;
  const cached = context.records.get(key);
  if (cached instanceof ReadyPage) return listed((cached as ReadyPage<T>).items, cached.next);
  const loaded = await context.records.loadAndCache(key, async () => {
    const chain = await context.catalog.require(parents);
    const parentId = chain.at(-1)?.id ?? null;
    const objects = await context.catalog.list(parentId, category, { ...at, limit: at.limit + 1 });
    const texts: string[] = [];
    for (const object of objects.slice(0, at.limit)) {
      const uri = `${base}/${category}/${encodeURIComponent(object.name)}`;
      const known = context.records.get(uri);
      if (known instanceof ReadyRecord) texts.push(known.recordText);
      else texts.push(JSON.stringify(await toRecord([...chain, object], uri, context)));
    }
    const value = new ReadyPage<T>(texts, objects.length > at.limit ? objects[at.limit - 1]?.name : undefined);
    return { value, dependsOn: [parentId ?? rootId, ...objects.map((object) => object.id)] };
  });
  return listed(loaded.items, loaded.next);
}

/** For a caller who may read only some of the objects: the page is not cached, its records are. */
async function partOfPage<T extends object, P extends ObjectPath, K extends string>(
  parents: P,
  category: K,
  at: { readonly after?: string; readonly limit: number },
  context: Context,
  toRecord: Render<T, Member<P, K>>,
): Promise<Listed<T>> {
  const base = uriOf(context.call.version, parents);
  const { records } = context;
  const since = records.generation;
  const { chain, objects, next } = await listShown(parents, category, at, context);
  const texts: string[] = [];
  for (const object of objects) {
    const uri = `${base}/${category}/${encodeURIComponent(object.name)}`;
    const known = records.get(uri);
    // The name may belong to another object by now, which the caller may not see.
    if (known instanceof ReadyRecord && known.objectId === object.id) texts.push(known.recordText);
    else {
      const record = new ReadyRecord(await toRecord([...chain, object], uri, context), object.id);
      records.add(uri, record, [object.id], since);
      texts.push(record.recordText);
    }
  }
  return listed(new ReadyPage<T>(texts, next).items, next);
}

/** The part of a page that the caller may see. `next`: the key of the next page. */
async function listShown<P extends ObjectPath, K extends string>(
  parents: P,
  category: K,
  at: { readonly after?: string; readonly limit: number },
  context: Context,
) {
  const chain = await context.catalog.require(parents);
  const only = listing(category, chain, context);
  const objects = await context.catalog.list(chain.at(-1)?.id ?? null, category, {
    ...at,
    limit: at.limit + 1,
    restrictTo: only,
  });
  const next = objects.length > at.limit ? objects[at.limit - 1]?.name : undefined;
  return { chain, objects: objects.slice(0, at.limit), next };
}

/**
 * The same without caching: for a caller who may read only some of the objects, and for records that change together with other
 * objects.
 */
export async function freshPage<T extends object, P extends ObjectPath, K extends string>(
  parents: P,
  category: K,
  at: { readonly after?: string; readonly limit: number },
  context: Context,
  toRecord: Render<T, Member<P, K>>,
): Promise<Listed<T>> {
  const { chain, objects, next } = await listShown(parents, category, at, context);
  const records: T[] = [];
  for (const object of objects) {
    const uri = uriOf(context.call.version, [...parents, segment(category, object.name)]);
    records.push(await toRecord([...chain, object], uri, context));
  }
  return listed(records, next);
}

/** The current name of the user that owns an object. */
export function ownerName(object: CatalogObject, context: Context): string {
  return context.access.directory.nameOf(object.owner);
}

/** The user that a body names. A user that the caller may not see is treated like one that does not exist. */
export function userNamed(name: string, pointer: string, context: Context): string {
  const { principal } = context.call;
  const user = context.directory.userNamed(name);
  const seen =
    user &&
    (user.id === principal.id ||
      context.access.authorizer.isAllowedOn(principal, 'read', 'users', [{ id: user.id, owner: '' }]));
  if (!seen)
    throw invalidParameter(pointer, 'exists', `names no user that the caller may see: ${JSON.stringify(name)}`);
  return user.id;
}

/** The id of the user that will own a new object. Throws INVALID_PARAMETER. */
export function ownerId(name: string | undefined, context: Context): string | undefined {
  return name === undefined ? undefined : userNamed(name, '/owner', context);
}

/** As `ownerId`, for an existing object: only its owner may give it away. */
export async function newOwner(
  name: string | undefined,
  path: ObjectPath,
  context: Context,
): Promise<string | undefined> {
  if (name !== undefined) await requirePrivilege('own', path, context);
  return ownerId(name, context);
}

/** Requires a privilege beyond the permission of the endpoint. Throws FORBIDDEN. */
export async function requirePrivilege(privilege: Privilege, path: ObjectPath, context: Context): Promise<void> {
  const category = path[0]?.category ?? globalScope;
  await context.access.authorizer.require(context.call.principal, privilege, { category, path });
}

/** The same for a whole top-level collection. */
export async function requireOnCollection(privilege: Privilege, category: string, context: Context): Promise<void> {
  await context.access.authorizer.require(context.call.principal, privilege, { category, path: [] });
}

/** The part of a collection that the caller may see; undefined: everything. `chain`: the collection's parents. */
export function listing(
  category: string,
  chain: readonly CatalogObject[],
  context: Context,
): VisibleChildren | undefined {
  const { reach, principal } = context.call;
  if (reach === 'all') return undefined;
  return context.access.authorizer.visibleChildren(principal, chain[0]?.category ?? category, chain);
}

export const segment = <const K extends string>(category: K, name: string): Segment<K> => ({ category, name });
