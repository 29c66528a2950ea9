// What the categories whose objects can come back after they were dropped share: the action `undrop`, the search of what can come
// back, and the fields of both. Who owns an object, or may drop what
// is in its parent, may bring it back; nobody else learns of it.

import { engineCodes } from '../../api/fields.ts';
import { taskCodes, taskFields } from '../../api/task_fields.ts';
import type {
  CatalogObject,
  ChainOf,
  DroppedObject,
  ObjectPath,
  SoftDelete,
  UndropRequest,
} from '../../catalog/object.ts';
import type { Change } from '../../engines/engine.ts';
import type { Code } from '../../standard/codes.ts';
import type { Listed, PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { type TObject, Type } from '../../standard/type.ts';
import { invalid } from './fields.ts';
import {
  accepted,
  action,
  type Context,
  done,
  listed,
  type Member,
  type Render,
  render,
  requireTask,
  segment,
  unique,
} from './handler_context.ts';
import { splitTaskOptions, type TaskBody } from './task_fields.ts';

export const retentionDoc =
  'It can come back by `undrop` for as long as the setting `undropSeconds` says; with `purge=true` it is gone for good.';
export const Purge = Type.Optional(
  Type.Boolean({ default: false, description: 'It cannot come back; its data goes at once.' }),
);

const Timestamp = Type.String({ format: 'date-time' });

/** The record as a search shows it. */
export const searchResultOf = (record: TObject) =>
  Type.Object({
    ...record.properties,
    id: Type.Optional(Type.String({ description: 'Of one that was dropped: what tells those of one name apart.' })),
    droppedAt: Type.Optional(Timestamp),
    droppedBy: Type.Optional(Type.String()),
    undropUntil: Type.Optional(Timestamp),
  });

/** How a DELETE is made; undefined: for good. */
export function softDelete(
  query: { readonly purge?: boolean },
  { undropSeconds: seconds }: Context,
  changes: Omit<SoftDelete, 'seconds'>,
): SoftDelete | undefined {
  return query.purge === true || seconds === 0 ? undefined : { seconds, ...changes };
}

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

/** Between a name, which has no control characters, and an id in a page token. */
const tokenSeparator = '\u007f';

/** One page of what was dropped in a collection. */
export async function searchDropped<T extends object, P extends ObjectPath, K extends string>(
  category: K,
  path: P,
  parents: ChainOf<P>,
  body: { readonly namePattern?: string; readonly comment?: string },
  at: { readonly after?: string; readonly limit: number },
  context: Context,
  toRecord: Render<T, Member<P, K>>,
): Promise<Listed<T>> {
  const { namePattern, comment } = body;
  const { after, limit } = at;
  const [name, id = ''] = after?.split(tokenSeparator) ?? [];
  const found = await context.catalog.listDropped(parents.at(-1)?.id ?? null, category, {
    after: name === undefined ? undefined : { name, id },
    limit: limit + 1,
    namePattern,
    comment,
    keep: (object) => mayUndrop(context, category, parents, object),
  });
  const records: T[] = [];
  for (const { object, droppedAt, droppedBy, undropUntil } of found.slice(0, limit)) {
    const uri = uriOf(context.call.version, [...path, segment(category, object.name)]);
    const record = await toRecord([...parents, object], uri, context);
    records.push({ ...record, id: object.id, droppedAt, droppedBy, undropUntil });
  }
  const last = found.length > limit ? found[limit - 1]?.object : undefined;
  return listed(records, last && `${last.name}${tokenSeparator}${last.id}`);
}

/** What comes back, and where. */
export interface Restored<O extends CatalogObject> {
  readonly object: O;
  /** That it gets. */
  readonly name: string;
  readonly parents: readonly CatalogObject[];
  /** What was in it, all levels down. */
  readonly within: readonly CatalogObject[];
  /** What its parent was called when it was dropped, where the engine keeps it there. */
  readonly originalDatabase: string | undefined;
}

interface UndropOptions<O extends CatalogObject> {
  readonly category: string;
  readonly title: string;
  readonly record: TObject;
  readonly toRecord: Render;
  readonly parentOf: (path: PathParameters) => ObjectPath;
  /** The type of the task that it may take. */
  readonly task?: string;
  /** Throws where nothing can be called so. */
  readonly check: (
    name: string,
    parents: readonly CatalogObject[],
    context: Context,
    dropped: DroppedObject,
  ) => Promise<void>;
  /** Categories beside it in which nothing may have the name. */
  readonly sharesNames?: readonly string[];
  /** Of `prepare`. */
  readonly codes?: readonly Code[];
  readonly change: ((restored: Restored<O>) => Change) | { readonly prepare: Prepare<O> };
}

type Prepared = Pick<UndropRequest, 'sources' | 'spec'> & { readonly change: Change };
/** For what has to be looked at as it would be now. */
type Prepare<O extends CatalogObject> = (restored: Omit<Restored<O>, 'within'>, context: Context) => Promise<Prepared>;

export function undropAction<O extends CatalogObject>({
  category,
  title,
  record,
  toRecord,
  parentOf,
  ...of
}: UndropOptions<O>) {
  return action('undrop', {
    on: 'collection',
    summary: `Brings back ${title} that was dropped, with its data, its owner and what was granted on it.`,
    description: `By \`name\` it is the one that was dropped last; \`search\` with \`dropped\` shows what can come back. Where data has to be written again a task does it (202). The caller must own it, or have the privilege \`drop\` on what holds it.`,
    permission: { privilege: 'create', on: 'parent' },
    codes: unique([
      'OBJECT_NOT_FOUND',
      'INVALID_NAME',
      'OBJECT_ALREADY_EXISTS',
      'CHANGE_IN_PROGRESS',
      ...engineCodes,
      ...(of.task === undefined ? [] : taskCodes),
      ...(of.codes ?? []),
    ]),
    body: Type.Object(
      {
        name: Type.Optional(Type.String({ description: 'What it was called.' })),
        id: Type.Optional(Type.String({ description: 'Instead of the name.' })),
        newName: Type.Optional(Type.String({ description: 'The name that it gets, where not the one that it had.' })),
        ...(of.task === undefined ? {} : taskFields),
      },
      { additionalProperties: false },
    ),
    bodyRequired: true,
    result: record,
    ...(of.task === undefined ? {} : { mayAccept: true }),
    example: { body: { name: 'orders', newName: 'orders_restored' } },
    handle: async ({ path, body }, context) => {
      const { asked, options } = await splitTaskOptions(body as TaskBody, context);
      const at = parentOf(path);
      const parents = await context.catalog.require(at);
      const dropped = await requireDropped(category, parents, body, context);
      const object = dropped.object as O;
      const name = body.newName ?? object.name;
      await of.check(name, parents, context, dropped);
      const target = [...at, segment(category, name)];
      const restored = { object, name, parents, originalDatabase: dropped.originalDatabase };
      const { change } = of;
      const prepared = 'prepare' in change ? await change.prepare(restored, context) : undefined;
      const outcome = await context.catalog.undrop(dropped, {
        newName: name,
        sharesNames: of.sharesNames,
        sources: prepared?.sources,
        spec: prepared?.spec,
        principal: context.call.actor,
        change: (within) => ('prepare' in change ? (prepared as Prepared).change : change({ ...restored, within })),
        task:
          of.task === undefined
            ? undefined
            : { type: of.task, target: uriOf(context.call.version, target), request: asked, ...options },
      });
      if (outcome.taskId !== undefined) return accepted(await requireTask(outcome.taskId, context), context);
      return done(await render(target, [...parents, outcome.object], context, toRecord));
    },
  });
}

/** What is not to be brought back by the caller is not there. */
async function requireDropped(
  category: string,
  parents: readonly CatalogObject[],
  { id, name }: { readonly id?: string; readonly name?: string },
  context: Context,
): Promise<DroppedObject> {
  if ((id === undefined) === (name === undefined)) {
    throw invalid('/name', 'either', 'or /id says what is to come back, and not both');
  }
  const by = id === undefined ? { name: name as string } : { id };
  const found = await context.catalog.findDropped(parents.at(-1)?.id ?? null, category, by);
  const dropped = found.find(({ object }) => mayUndrop(context, category, parents, object));
  if (dropped) return dropped;
  const asked = id ?? (name as string);
  const message = `There is no dropped "${asked}" in ${category} that can come back.`;
  throw new Failure('OBJECT_NOT_FOUND', message, { category, name: asked });
}
