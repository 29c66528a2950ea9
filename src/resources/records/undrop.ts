// The handlers that categories with restorable objects share: DELETE, `undrop`, and the search for restorable objects. The owner of
// an object may restore it, and so may whoever may drop objects in its parent; nobody else learns of it.
import assert from 'node:assert/strict';
import type { DeclaredCategory } from '../../api/declare.ts';
import type { ParentSegmentsOf, RecordOf, SegmentsOf } from '../../api/handlers.ts';
import type {
  CatalogObject,
  ChainOf,
  DroppedObject,
  DropRequest,
  ObjectOf,
  ObjectPath,
  SoftDelete,
  UndropRequest,
} from '../../catalog/object.ts';
import type { SpecOf } from '../../catalog/specs.ts';
import type { Accepted, Deleted, Done, Listed } from '../../standard/endpoint.ts';
import { invalidParameter, objectNotFound } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { last } from './fields.ts';
import type { Context } from './handler_context.ts';
import { type Page, pageOf } from './list_page.ts';
import type { Member, Render, RenderOf } from './object_records.ts';
import { deleted, done } from './outcomes.ts';
import { splitTaskOptions, type TaskBody } from './task_fields.ts';
import { acceptedTask } from './task_record.ts';

/** How the engine drops an object, and what it does instead if the object stays restorable (`keep`). */
interface Drop extends Pick<DropRequest, 'change' | 'isDamaged'> {
  readonly warehouse: string;
  readonly keep: Omit<SoftDelete, 'seconds'>;
}

interface DropInput<C extends DeclaredCategory> {
  readonly segments: SegmentsOf<C>;
  readonly query: { readonly cascade?: boolean; readonly purge?: boolean };
}

/** The handler of the DELETE of a restorable object. */
export const dropHandler =
  <C extends DeclaredCategory>(dropOf: (chain: ChainOf<SegmentsOf<C>>, context: Context) => Drop) =>
  async ({ segments, query }: DropInput<C>, context: Context): Promise<Deleted> => {
    const chain = await context.catalog.find(segments);
    if (!chain) return deleted(false);
    const { keep, ...request } = dropOf(chain, context);
    const { undropSeconds: seconds, call, warehouses } = context;
    const { capabilities } = await warehouses.engineOf(request.warehouse);
    return deleted(
      await context.catalog.drop(last(chain), {
        principal: call.actor,
        cascade: query.cascade ?? false,
        ...request,
        keep: query.purge === true || seconds === 0 || !capabilities.undrop ? undefined : { seconds, ...keep },
      }),
    );
  };

function mayUndrop(
  context: Context,
  category: string,
  parents: readonly CatalogObject[],
  object: { readonly id: string; readonly owner: string },
): boolean {
  const { principal } = context.call;
  return context.access.authorizer.isAllowedOn(principal, 'drop', parents[0]?.category ?? category, [
    ...parents,
    object,
  ]);
}

/** The separator of name and id in a page token: names have no control characters. */
const tokenSeparator = '\u007f';
const keyOf = ({ name, id }: { readonly name: string; readonly id: string }): string => `${name}${tokenSeparator}${id}`;

/** One page of the dropped objects of a collection. */
export async function searchDropped<T extends object, P extends ObjectPath, K extends string>(
  category: K,
  path: P,
  parents: ChainOf<P>,
  body: { readonly namePattern?: string; readonly comment?: string },
  page: Page,
  context: Context,
  toRecord: Render<T, Member<P, K>>,
): Promise<Listed<T>> {
  const { namePattern, comment } = body;
  const read = async (after: string | undefined, limit: number) => {
    const [name, id = ''] = after?.split(tokenSeparator) ?? [];
    const batch = await context.catalog.searchDropped(parents.at(-1)?.id ?? null, category, {
      after: name === undefined ? undefined : { name, id },
      limit,
      namePattern,
      comment,
      keep: (object) => mayUndrop(context, category, parents, object),
    });
    return { ...batch, examined: batch.examined && keyOf(batch.examined) };
  };
  return pageOf(
    page,
    ({ object }) => keyOf(object),
    read,
    async ({ object, droppedAt, droppedBy, undropUntil }) => {
      const uri = uriOf(context.call.version, [...path, segment(category, object.name)]);
      const record = await toRecord([...parents, object], uri, context);
      return { ...record, id: object.id, droppedAt, droppedBy, undropUntil };
    },
  );
}

/** The object to restore, and its new parent. */
export interface Restored<C extends DeclaredCategory> {
  readonly object: ObjectOf<C['name']>;
  /** The restored object's properties. */
  readonly name: string;
  readonly parents: ChainOf<ParentSegmentsOf<C>>;
  /** The name of its parent at the time of the drop, if the engine stores the object there. */
  readonly originalDatabase: string | undefined;
}

interface Undrop<C extends DeclaredCategory> {
  readonly toRecord: RenderOf<C>;
  /** Throws if the name is invalid. */
  readonly check: (
    name: string,
    parents: ChainOf<ParentSegmentsOf<C>>,
    context: Context,
    dropped: DroppedObject,
  ) => Promise<void>;
  /** Other categories that share one namespace with this one. */
  readonly sharesNames?: readonly string[];
  readonly prepare: (restored: Restored<C>, context: Context) => Prepared | Promise<Prepared>;
}

/** The request to the catalog. `change` gets the former contents of the object, on all levels. */
type Prepared = Pick<UndropRequest, 'sources' | 'spec' | 'change'>;

interface UndropInput<C extends DeclaredCategory> {
  readonly segments: ParentSegmentsOf<C>;
  readonly body: TaskBody & { readonly id?: string; readonly name?: string; readonly newName?: string };
}

type UndropTask = 'undrop_table' | 'undrop_database';

/** The handler of `undrop`. */
export const undropHandler =
  <C extends DeclaredCategory>(declared: C, undrop: Undrop<C>) =>
  async (input: UndropInput<C>, context: Context): Promise<Done<RecordOf<C>>> => {
    const restored = await restoreDropped(declared, undrop, undefined, input, context);
    if (restored.outcome === 'accepted') throw new Error('the change was not to become a task');
    return restored;
  };

/** The same, possibly done by a task. `task`: its type. */
export const undropHandlerByTask =
  <C extends DeclaredCategory, T extends UndropTask>(declared: C, task: T, undrop: Undrop<C>) =>
  (input: UndropInput<C>, context: Context): Promise<Done<RecordOf<C>> | Accepted<T>> =>
    restoreDropped(declared, undrop, task, input, context);

async function restoreDropped<C extends DeclaredCategory, T extends UndropTask>(
  declared: C,
  { toRecord, check, sharesNames, prepare }: Undrop<C>,
  taskType: T | undefined,
  { segments, body }: UndropInput<C>,
  context: Context,
): Promise<Done<RecordOf<C>> | Accepted<T>> {
  const category: C['name'] = declared.name;
  const { request, options } = await splitTaskOptions(body, context);
  const parents = await context.catalog.require(segments);
  const dropped = await requireDropped(category, parents, request, context);
  const { object, originalDatabase } = dropped;
  const name = body.newName ?? object.name;
  await check(name, parents, context, dropped);
  const target = [...segments, segment(category, name)];
  const uri = uriOf(context.call.version, target);
  const outcome = await context.catalog.undrop(dropped, {
    ...(await prepare({ object, name, parents, originalDatabase }, context)),
    newName: name,
    sharesNames,
    principal: context.call.actor,
    task: taskType === undefined ? undefined : { type: taskType, target: uri, request, ...options },
  });
  if (outcome.taskId !== undefined) {
    assert(taskType !== undefined, 'the category has no undrop by task');
    return acceptedTask(outcome.taskId, taskType, context);
  }
  return done(await toRecord([...parents, outcome.object], uri, context));
}

/** An object that the caller may not restore is treated as missing. */
async function requireDropped<K extends string>(
  category: K,
  parents: readonly CatalogObject[],
  { id, name }: { readonly id?: string; readonly name?: string },
  context: Context,
): Promise<DroppedObject<SpecOf<K>>> {
  const requested = id ?? name;
  if (requested === undefined || (id !== undefined && name !== undefined))
    throw invalidParameter('/name', 'either', 'or /id is required, and not both');
  const by = id === undefined ? { name: requested } : { id };
  const found = await context.catalog.findDropped(parents.at(-1)?.id ?? null, category, by);
  const dropped = found.find(({ object }) => mayUndrop(context, category, parents, object));
  if (dropped) return dropped;
  const message = `there is no dropped "${requested}" in ${category} that can be restored`;
  throw objectNotFound(category, requested, message);
}
