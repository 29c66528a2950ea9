// Catalogs: the top of the namespace. A catalog's data lives in one warehouse.

import {
  Comment,
  describedBody,
  engineCodes,
  exampleFields,
  NewName,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
} from '../../api/fields.ts';
import { sqlActionsApi } from '../../api/queries/sql_actions.ts';
import { engineState, engineStateExample, engineStates, stateField } from '../../api/states.ts';
import { backupApi, restoreCatalogApi } from '../../api/transfer/backup_actions.ts';
import { exportQueryApi } from '../../api/transfer/export_actions.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { CatalogSpec } from '../../model/records.ts';
import type { Category } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { Type } from '../../standard/type.ts';
import { sqlHandlers } from '../queries/sql_actions.ts';
import { describe, invalid, last, shownDescription } from '../records/fields.ts';
import {
  action,
  type Context,
  commonFields,
  create,
  created,
  deleted,
  done,
  endpointsOf,
  found,
  get,
  list,
  newOwner,
  ownerId,
  ownerName,
  page,
  type Render,
  remove,
  render,
  requirePrivilege,
  segment,
  show,
  update,
  updated,
} from '../records/handler_context.ts';
import { searchOf } from '../records/search.ts';
import { engineStateOf } from '../records/states.ts';
import { Purge, retentionDoc, softDelete, undropAction } from '../records/undrop.ts';
import { backupHandlers, restoreCatalog } from '../transfer/backup_actions.ts';
import { exportQuery } from '../transfer/export_actions.ts';
import { checkCatalog } from './catalog_check.ts';
import { keptViews, renamedDoc } from './view_definition.ts';

/** The catalog that paths without one mean (rest-standard A1). */
export const defaultCatalogName = 'default';
export const defaultWarehouseName = 'default';

const CatalogRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  warehouse: Type.String({ description: 'The warehouse that keeps its data and runs its SQL.' }),
  ...engineState,
  state: stateField({ ...engineStates, damaged: 'its file is missing, damaged or older than acknowledged work' }),
  owner: Owner,
  ...recordFields,
});

const pathOf = (path: { readonly catalog?: string }) => [segment('catalogs', path.catalog as string)];

const toRecord: Render = async (chain, uri, context) => {
  const object = last(chain) as CatalogObject<CatalogSpec>;
  const { id, name, spec } = object;
  const damaged = await context.warehouses.damageOf(spec.warehouse, id);
  return {
    name,
    ...shownDescription(spec),
    warehouse: spec.warehouse,
    ...engineStateOf(object),
    ...(damaged ? { state: 'damaged', stateReason: damaged.reason } : {}),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

function protect(object: CatalogObject, what: string): void {
  if (object.name !== defaultCatalogName) return;
  throw new Failure(
    'OBJECT_PROTECTED',
    `the catalog "${defaultCatalogName}" is what paths without a catalog mean; it cannot be ${what}`,
  );
}

async function requireUsableName(name: string, warehouse: string, context: Context): Promise<void> {
  const fault = (await context.warehouses.engineOf(warehouse)).reservedName('catalogs', name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', fault, { name });
}

const engineChange = (object: CatalogObject) => ({ id: object.id, name: object.name });

export const catalogs: Category<Context> = {
  name: 'catalogs',
  singular: 'catalog',
  title: 'Catalogs',
  doc: 'The top of the namespace: a catalog holds databases, and its data lives in one warehouse.',
  parameter: 'catalog',
  record: CatalogRecord,
  example: {
    name: 'default',
    comment: null,
    properties: {},
    warehouse: 'default',
    ...engineStateExample,
    owner: 'root',
    ...exampleFields('/api/v2/catalogs/default'),
  },
  endpoints: [
    list({
      summary: 'Lists catalogs by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      handle: ({ page: at }, context) => page([], 'catalogs', at, context, toRecord),
    }),
    get({
      summary: 'Shows a catalog.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) => found(await show(pathOf(path), context, toRecord)),
    }),
    create({
      summary: 'Creates a catalog.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS', ...engineCodes],
      body: Type.Object(
        {
          ...describedBody,
          warehouse: Type.Optional(
            Type.String({ default: defaultWarehouseName, description: 'The warehouse that will keep its data.' }),
          ),
        },
        { additionalProperties: false },
      ),
      example: { body: { name: 'lake', comment: 'Raw data' } },
      handle: async ({ body, ifExists }, context) => {
        const { name } = body as typeof body & { name: string };
        const warehouse = body.warehouse ?? defaultWarehouseName;
        await requirePrivilege('use', [segment('warehouses', warehouse)], context);
        if (!(await context.catalog.find([segment('warehouses', warehouse)]))) {
          throw invalid('/warehouse', 'exists', `names no warehouse: ${JSON.stringify(warehouse)}`);
        }
        await requireUsableName(name, warehouse, context);
        const spec: CatalogSpec = describe({ warehouse }, body);
        const { object, created: made } = await context.catalog.create({
          parent: null,
          category: 'catalogs',
          name,
          spec,
          principal: context.call.actor,
          ifExists,
          warehouse,
          change: (id) => ({ kind: 'createCatalog', catalog: { id, name } }),
          undo: (id) => ({ kind: 'dropCatalog', catalog: { id, name } }),
          owner: ownerId(body.owner, context),
        });
        const path = [segment('catalogs', object.name)];
        const record = (await render(path, [object], context, toRecord)) as { uri: string };
        return created(record, made, record.uri);
      },
    }),
    update({
      summary: 'Changes comment, properties or owner of a catalog.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: Type.Object({ ...describedBody }, { additionalProperties: false }),
      example: { body: { comment: 'Raw data of 2026', expectedVersion: 1 } },
      handle: ({ path, body }, context) =>
        context.catalog.retrying(async () => {
          const [object] = (await context.catalog.require(pathOf(path))) as [CatalogObject<CatalogSpec>];
          const changed = await context.catalog.update(object, {
            spec: describe(object.spec, body),
            principal: context.call.actor,
            owner: await newOwner(body.owner, pathOf(path), context),
          });
          return updated(await render(pathOf(path), [changed.object ?? object], context, toRecord));
        }),
    }),
    remove({
      summary: 'Deletes a catalog; with `cascade=true` all that is in it.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['NOT_EMPTY', 'IN_USE', 'OBJECT_PROTECTED', 'CHANGE_IN_PROGRESS', ...engineCodes],
      description: retentionDoc,
      query: Type.Object(
        { cascade: Type.Optional(Type.Boolean({ default: false })), purge: Purge },
        { additionalProperties: false },
      ),
      handle: ({ path, query }, context) =>
        context.catalog.retrying(async () => {
          const chain = await context.catalog.find(pathOf(path));
          if (!chain) return deleted(false);
          const object = last(chain) as CatalogObject<CatalogSpec>;
          protect(object, 'deleted');
          return deleted(
            await context.catalog.drop(object, {
              isDamaged: async () =>
                (await context.warehouses.damageOf(object.spec.warehouse, object.id)) !== undefined,
              principal: context.call.actor,
              cascade: query.cascade ?? false,
              childCategories: ['databases'],
              warehouse: object.spec.warehouse,
              change: { kind: 'dropCatalog', catalog: engineChange(object) },
              keep: softDelete(query, context, {
                change: () => ({ kind: 'hideCatalog', catalog: engineChange(object) }),
                // By then its name may be another's.
                purge: { kind: 'dropCatalog', catalog: { id: object.id, name: `dropped ${object.id}` } },
              }),
            }),
          );
        }),
    }),
    action('rename', {
      on: 'object',
      summary: 'Renames a catalog.',
      description: renamedDoc('A catalog'),
      permission: { privilege: 'alter', on: 'object' },
      codes: [
        'OBJECT_NOT_FOUND',
        'INVALID_NAME',
        'OBJECT_ALREADY_EXISTS',
        'OBJECT_PROTECTED',
        'CHANGE_IN_PROGRESS',
        'IN_USE',
        ...engineCodes,
      ],
      body: NewName,
      bodyRequired: true,
      result: CatalogRecord,
      example: { body: { newName: 'archive' } },
      handle: ({ path, body }, context) =>
        context.catalog.retrying(async () => {
          const [object] = (await context.catalog.require(pathOf(path))) as [CatalogObject<CatalogSpec>];
          protect(object, 'renamed');
          await requireUsableName(body.newName, object.spec.warehouse, context);
          const changed = await context.catalog.update(object, {
            name: body.newName,
            principal: context.call.actor,
            warehouse: object.spec.warehouse,
            change: { kind: 'renameCatalog', catalog: engineChange(object), newName: body.newName },
          });
          return done(await render([segment('catalogs', body.newName)], [changed.object ?? object], context, toRecord));
        }),
    }),
    searchOf({ category: 'catalogs', record: CatalogRecord, toRecord, retained: true, example: 'ar%' }),
    undropAction<CatalogObject<CatalogSpec>>({
      category: 'catalogs',
      title: 'a catalog',
      record: CatalogRecord,
      toRecord,
      parentOf: () => [],
      check: (name, _parents, context, { warehouse }) => requireUsableName(name, warehouse, context),
      change: ({ object, name, within }) => {
        const names = new Map(within.map((one) => [one.id, one.name]));
        const views = keptViews(within, ({ parentId }) => names.get(parentId ?? '') ?? '');
        return { kind: 'restoreCatalog', catalog: { id: object.id, name }, views };
      },
    }),
    ...endpointsOf(sqlActionsApi('catalog'), sqlHandlers),
    ...endpointsOf(exportQueryApi('catalog'), exportQuery),
    ...endpointsOf(backupApi('catalog'), backupHandlers),
    checkCatalog(pathOf),
    ...endpointsOf(restoreCatalogApi, restoreCatalog(defaultWarehouseName)),
  ],
};
