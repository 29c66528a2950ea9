// What every handler is given, and the small vocabulary in which categories are written. No category is named here.
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject, ObjectPath } from '../catalog/object.ts';
import { type RecordCache, rootId } from '../catalog/record_cache.ts';
import type { Warehouses } from '../engines/warehouses.ts';
import type { Call } from '../http/call.ts';
import type { QueryHistory } from '../query/history.ts';
import type { Queries } from '../query/queries.ts';
import type { Rows } from '../query/rows.ts';
import type { QuerySubmitter } from '../query/submit.ts';
import {
  type Accepted,
  type Created,
  type Deleted,
  type Done,
  endpointsFor,
  type Found,
  type Listed,
  type Updated,
} from '../standard/endpoint.ts';
import { JsonText, type RecordBody } from '../standard/envelope.ts';
import { type Segment, uriOf } from '../standard/paths.ts';
import type { TaskRecord } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';

/** What a new warehouse has where the request does not say. */
export interface WarehouseDefaults {
  readonly threads: number;
  readonly memoryLimitBytes: number;
  readonly spillLimitBytes: number;
  readonly autoSuspendSeconds: number;
  readonly queriesMax: number;
  readonly queueMax: number;
  readonly statementTimeoutSeconds: number;
}

export interface Services {
  readonly catalog: Catalog;
  readonly records: RecordCache;
  readonly tasks: Tasks;
  readonly warehouses: Warehouses;
  readonly queries: Queries;
  readonly submitter: QuerySubmitter;
  readonly history: QueryHistory;
  readonly rows: Rows;
  readonly warehouseDefaults: WarehouseDefaults;
}

export interface Context extends Services {
  readonly call: Call;
}

export const { list, get, create, update, remove, action } = endpointsFor<Context>();

export const found = (record: RecordBody): Found => ({ outcome: 'found', record });
export const listed = (items: readonly RecordBody[], next?: string): Listed => ({ outcome: 'listed', items, next });
export const created = (record: object, made: boolean, uri: string): Created => ({
  outcome: 'created',
  record,
  created: made,
  uri,
});
export const updated = (record: RecordBody): Updated => ({ outcome: 'updated', record });
export const deleted = (was: boolean): Deleted => ({ outcome: 'deleted', deleted: was });
export const done = (result: RecordBody): Done => ({ outcome: 'done', result });

export function accepted(task: TaskRecord, context: Context): Accepted {
  const record = taskRecord(task, context.call.version);
  return { outcome: 'accepted', task: record, uri: record.uri };
}

/** A task as callers see it (rest-standard B5). `firstPage`: where the rows of a query are. */
export function taskRecord(task: TaskRecord, version: string) {
  const uri = uriOf(version, [{ category: 'tasks', name: task.taskId }]);
  const { submittedAt, submittedBy, startedAt, endedAt, result } = task;
  const paged = typeof result === 'object' && result !== null && 'pageCount' in result;
  return {
    ...task,
    ...(paged ? { firstPage: `${uri}/pages/0` } : {}),
    createdAt: submittedAt,
    createdBy: submittedBy,
    updatedAt: endedAt ?? startedAt ?? submittedAt,
    updatedBy: submittedBy,
    version: endedAt ? 3 : startedAt ? 2 : 1,
    uri,
    cancelUri: `${uri}/cancel`,
  };
}

/** The fields that every record ends with (rest-standard B4). */
export function commonFields(object: CatalogObject, uri: string) {
  const { createdAt, createdBy, updatedAt, updatedBy, version } = object;
  return { createdAt, createdBy, updatedAt, updatedBy, version, uri };
}

/** How a category shows its objects. `chain` is the object and its parents, root first. */
export type Render = (chain: readonly CatalogObject[], uri: string, context: Context) => Promise<object>;

/** GET of one object: from the cache, or read, rendered and kept. */
export async function show(path: ObjectPath, context: Context, render: Render): Promise<JsonText> {
  const uri = uriOf(context.call.version, path);
  const cached = context.records.get(uri);
  if (cached !== undefined) return new JsonText(cached);
  return new JsonText(
    await context.records.through(uri, async () => {
      const chain = await context.catalog.require(path);
      const record = await render(chain, uri, context);
      return { text: JSON.stringify(record), dependsOn: chain.slice(-1).map((object) => object.id) };
    }),
  );
}

/** The record of an object just changed; not from the cache. */
export function render(
  path: ObjectPath,
  chain: readonly CatalogObject[],
  context: Context,
  as: Render,
): Promise<object> {
  return as(chain, uriOf(context.call.version, path), context);
}

/** GET of a collection: whole pages are kept. `parents` is the path of what holds it. */
export async function page(
  parents: ObjectPath,
  category: string,
  at: { readonly after?: string; readonly limit: number },
  context: Context,
  as: Render,
): Promise<Listed> {
  const base = uriOf(context.call.version, parents);
  const key = `${base}/${category}?${at.limit}&${at.after ?? ''}`;
  let next: string | undefined;
  const text = await context.records.through(key, async () => {
    const chain = parents.length === 0 ? [] : await context.catalog.require(parents);
    const parentId = chain.at(-1)?.id ?? null;
    const objects = await context.catalog.list(parentId, category, { ...at, limit: at.limit + 1 });
    const texts: string[] = [];
    for (const object of objects.slice(0, at.limit)) {
      const uri = `${base}/${category}/${encodeURIComponent(object.name)}`;
      const known = context.records.get(uri);
      texts.push(typeof known === 'string' ? known : JSON.stringify(await as([...chain, object], uri, context)));
    }
    if (objects.length > at.limit) next = objects[at.limit - 1]?.name;
    // The key of the next page goes in front, so that a page from the cache knows it too.
    const body = Buffer.from(`${JSON.stringify(next ?? null)}\n${texts.join(',')}`);
    return { text: body, dependsOn: [parentId ?? rootId, ...objects.map((object) => object.id)] };
  });
  return unpack(text as Uint8Array);
}

function unpack(text: Uint8Array): Listed {
  const newline = text.indexOf(10);
  const next = JSON.parse(Buffer.from(text.subarray(0, newline)).toString()) as string | null;
  const body = text.subarray(newline + 1);
  return listed(body.length === 0 ? [] : [new JsonText(body)], next ?? undefined);
}

export const segment = (category: string, name: string): Segment => ({ category, name });
