// Objects of the catalog as records: one, or a page of a collection, from the cache where possible.
import type { VisibleChildren } from '../../access/authorization/authorizer.ts';
import type { DeclaredCategory } from '../../api/declare.ts';
import type { RecordOf, SegmentsOf } from '../../api/handlers.ts';
import type { CatalogObject, ChainOf, ObjectOf, ObjectPath } from '../../catalog/object.ts';
import { rootId } from '../../catalog/record_cache.ts';
import type { ObjectVersion } from '../../model/principal.ts';
import type { Listed } from '../../standard/endpoint.ts';
import { type Segment, segment, uriOf } from '../../standard/paths.ts';
import { JsonText, ReadyRecord } from '../../standard/record_body.ts';
import { objectVersion } from '../../standard/record_version.ts';
import { last } from './fields.ts';
import type { Context } from './handler_context.ts';
import { type Page, pageOf, type Read, type Shown, textsOf } from './list_page.ts';
import { listed } from './outcomes.ts';

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

  constructor({ texts, next }: Awaited<ReturnType<typeof textsOf>>) {
    const bytes = Buffer.from(texts.join(','));
    this.items = texts.length === 0 ? [] : [new JsonText(bytes)];
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
  requested: Page,
  context: Context,
  toRecord: Render<T, Member<P, K>>,
): Promise<Listed<T>> {
  const base = uriOf(context.call.version, parents);
  if (context.call.reach === 'within') return partOfPage(parents, category, requested, context, toRecord);
  const key = `${base}/${category}?${requested.limit}&${requested.after ?? ''}`;
  const cached = context.records.get(key);
  if (cached instanceof ReadyPage) return listed((cached as ReadyPage<T>).items, cached.next);
  const loaded = await context.records.loadAndCache(key, async () => {
    const chain = await context.catalog.require(parents);
    const parentId = chain.at(-1)?.id ?? null;
    const ids: string[] = [];
    const show = async (object: ObjectOf<K>): Promise<Shown<T>> => {
      ids.push(object.id);
      const uri = `${base}/${category}/${encodeURIComponent(object.name)}`;
      const known = context.records.get(uri);
      if (known instanceof ReadyRecord) return known;
      return toRecord([...chain, object], uri, context);
    };
    const read = (after: string | undefined, limit: number) =>
      context.catalog.batch(parentId, category, { after, limit });
    const value = new ReadyPage<T>(await textsOf(requested, 'name', read, show));
    return { value, dependsOn: [parentId ?? rootId, ...ids] };
  });
  return listed(loaded.items, loaded.next);
}

/** For a caller who may read only some of the objects: the page is not cached, its records are. */
async function partOfPage<T extends object, P extends ObjectPath, K extends string>(
  parents: P,
  category: K,
  requested: Page,
  context: Context,
  toRecord: Render<T, Member<P, K>>,
): Promise<Listed<T>> {
  const base = uriOf(context.call.version, parents);
  const { records } = context;
  const since = records.generation;
  const { chain, read } = await shownObjects(parents, category, context);
  return pageOf(requested, 'name', read, async (object): Promise<Shown<T>> => {
    const uri = `${base}/${category}/${encodeURIComponent(object.name)}`;
    const known = records.get(uri);
    // The name may belong to another object by now, which the caller may not see.
    if (known instanceof ReadyRecord && known.objectId === object.id) return known;
    const record = new ReadyRecord(await toRecord([...chain, object], uri, context), object.id);
    records.add(uri, record, [object.id], since);
    return record;
  });
}

/** The parents of a collection, and how those of its objects are read that the caller may see. */
async function shownObjects<P extends ObjectPath, K extends string>(parents: P, category: K, context: Context) {
  const chain = await context.catalog.require(parents);
  const restrictTo = listing(category, chain, context);
  const parentId = chain.at(-1)?.id ?? null;
  const read: Read<ObjectOf<K>> = (after, limit) =>
    context.catalog.search(parentId, category, { after, limit, restrictTo });
  return { chain, read };
}

/**
 * The same without caching: for a caller who may read only some of the objects, and for records that change together with other
 * objects.
 */
export async function freshPage<T extends object, P extends ObjectPath, K extends string>(
  parents: P,
  category: K,
  requested: Page,
  context: Context,
  toRecord: Render<T, Member<P, K>>,
): Promise<Listed<T>> {
  const { chain, read } = await shownObjects(parents, category, context);
  return pageOf(requested, 'name', read, (object) =>
    toRecord([...chain, object], uriOf(context.call.version, [...parents, segment(category, object.name)]), context),
  );
}

/** The part of a collection that the caller may see; undefined: everything. `chain`: the collection's parents. */
export function listing(
  category: string,
  chain: readonly CatalogObject[],
  { access, call: { reach, principal } }: Pick<Context, 'access' | 'call'>,
): VisibleChildren | undefined {
  if (reach === 'all') return undefined;
  return access.authorizer.visibleChildren(principal, chain[0]?.category ?? category, chain);
}
