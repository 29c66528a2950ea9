// Handlers that the top-level categories share: list, get, delete and rename.
import type { Tx } from '../../catalog/changes/change_context.ts';
import type { ObjectOf } from '../../catalog/object.ts';
import type { Input, Segment } from '../../standard/endpoint.ts';
import { segment } from '../../standard/paths.ts';
import type { Context } from './handler_context.ts';
import { freshPage, type Render, render } from './object_records.ts';
import { created, deleted, done, found } from './outcomes.ts';

type Top<K extends string> = readonly [Segment<K>];

interface Named<K extends string> {
  readonly segments: Top<K>;
}

/** `checkName` throws INVALID_NAME for names that this category does not allow. */
export function handlersAtTop<T extends { readonly uri: string }, const K extends string>(
  category: K,
  toRecord: Render<T, Top<K>>,
  checkName?: (name: string) => void,
) {
  const show = (object: ObjectOf<K>, context: Context) =>
    render([segment(category, object.name)], [object], context, toRecord);
  return {
    createdAs: async (object: ObjectOf<K>, isNew: boolean, context: Context) =>
      created(await show(object, context), isNew),
    list: ({ page }: Pick<Input<undefined, undefined>, 'page'>, context: Context) =>
      freshPage([], category, page, context, toRecord),
    get: async ({ segments }: Named<K>, context: Context) =>
      found(await render(segments, await context.catalog.require(segments), context, toRecord)),
    /** Deletes an object that has no children. `inTransaction`: further changes in the same transaction. */
    async delete(
      { segments }: Named<K>,
      context: Context,
      inTransaction?: (tx: Tx, objectId: string) => Promise<unknown>,
    ) {
      const [object] = (await context.catalog.find(segments)) ?? [];
      if (!object) return deleted(false);
      const also = async (tx: Tx) => void (await inTransaction?.(tx, object.id));
      const request = { principal: context.call.actor, cascade: true, inTransaction: also };
      return deleted(await context.catalog.drop(object, request));
    },
    async rename({ segments, body }: Named<K> & { readonly body: { readonly newName: string } }, context: Context) {
      const [object] = await context.catalog.require(segments);
      const { newName: name } = body;
      checkName?.(name);
      const changed = await context.catalog.update(object, { name, principal: context.call.actor });
      return done(await show(changed.object ?? object, context));
    },
  };
}
