// What the categories of objects that lie in no other have alike: how they are listed, shown, told when they are made, and renamed.

import { NewName } from '../../api/fields.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import type { TObject } from '../../standard/type.ts';
import {
  action,
  type Context,
  created,
  done,
  found,
  freshPage,
  get,
  list,
  type Render,
  render,
  segment,
} from './handler_context.ts';

interface RootObjects {
  readonly category: string;
  /** Of the path. */
  readonly parameter: string;
  readonly record: TObject;
  readonly toRecord: Render;
  /** Throws INVALID_NAME for what it cannot be called, besides what no object can. */
  readonly checkName?: (name: string) => void;
}

export function topLevelCategory({ category, parameter, record, toRecord, checkName }: RootObjects) {
  const show = (object: CatalogObject, context: Context) =>
    render([segment(category, object.name)], [object], context, toRecord);
  const pathOf = (path: PathParameters) => [segment(category, path[parameter] as string)];
  return {
    pathOf,
    show,
    async createdAs(object: CatalogObject, made: boolean, context: Context) {
      const shown = (await show(object, context)) as { uri: string };
      return created(shown, made, shown.uri);
    },
    list: (summary: string) =>
      list({
        summary,
        permission: { privilege: 'read', on: 'parent', orWithin: true },
        handle: ({ page }, context) => freshPage([], category, page, context, toRecord),
      }),
    get: (summary: string) =>
      get({
        summary,
        permission: { privilege: 'read', on: 'object' },
        handle: async ({ path }, context) =>
          found(await render(pathOf(path), await context.catalog.require(pathOf(path)), context, toRecord)),
      }),
    rename: (summary: string, newName: string) =>
      action('rename', {
        on: 'object',
        summary,
        permission: { privilege: 'alter', on: 'object' },
        codes: ['OBJECT_NOT_FOUND', 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS'],
        body: NewName,
        bodyRequired: true,
        result: record,
        example: { body: { newName } },
        handle: async ({ path, body }, context) => {
          const [object] = (await context.catalog.require(pathOf(path))) as [CatalogObject];
          const { newName: name } = body;
          checkName?.(name);
          const changed = await context.catalog.update(object, { name, principal: context.call.actor });
          return done(await render([segment(category, name)], [changed.object ?? object], context, toRecord));
        },
      }),
  };
}
