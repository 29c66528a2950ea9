// The handlers of `catalogs`, the top level of the namespace. The data of a catalog is stored in one warehouse.

import { catalogsApi, defaultCatalogName, defaultWarehouseName } from '../../api/namespaces/catalogs.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { requireCapability } from '../../engines/required_capability.ts';
import type { CatalogSpec } from '../../model/records.ts';
import { Failure } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import { sqlHandlers } from '../queries/sql_actions.ts';
import { describe, shownDescription } from '../records/fields.ts';
import { implement } from '../records/handler_context.ts';
import { commonFields, page, type RenderOf, render, show } from '../records/object_records.ts';
import { created, done, found, updated } from '../records/outcomes.ts';
import { newOwner, ownerId, ownerName, requireUnreserved, requireWarehouse } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';
import { engineStateOf } from '../records/states.ts';
import { dropHandler, undropHandler } from '../records/undrop.ts';
import { backupHandlers, restoreCatalog } from '../transfer/backup_actions.ts';
import { exportQuery } from '../transfer/export_actions.ts';
import { browse } from './browse.ts';
import { checkCatalog } from './catalog_check.ts';
import { moveCatalog } from './catalog_move.ts';
import { retainedViews } from './view_definition.ts';

const toRecord: RenderOf<typeof catalogsApi> = async ([object], uri, context) => {
  const { id, name, spec } = object;
  const damaged = await context.warehouses.damageOf(spec.warehouse, id);
  return {
    name,
    ...shownDescription(spec),
    warehouse: spec.warehouse,
    ...engineStateOf(object),
    ...(damaged ? ({ state: 'damaged', stateReason: damaged.reason } as const) : {}),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

function requireNotDefault(object: CatalogObject, action: string): void {
  if (object.name !== defaultCatalogName) return;
  throw new Failure(
    'OBJECT_PROTECTED',
    `the catalog "${defaultCatalogName}" is the default of paths without a catalog; it cannot be ${action}`,
  );
}

const engineChange = (object: CatalogObject) => ({ id: object.id, name: object.name });

export const catalogs = implement(catalogsApi, {
  list: ({ segments, page: requestedPage }, context) => page(segments, 'catalogs', requestedPage, context, toRecord),
  get: async ({ segments }, context) => found(await show(segments, context, toRecord)),
  create: async ({ body, ifExists }, context) => {
    const { name, warehouse = defaultWarehouseName } = body;
    await requireWarehouse(warehouse, context);
    await requireUnreserved('catalogs', name, warehouse, context);
    const { object, created: isNew } = await context.catalog.create<CatalogSpec>({
      parent: null,
      category: 'catalogs',
      name,
      spec: describe<CatalogSpec>({ warehouse }, body),
      principal: context.call.actor,
      ifExists,
      warehouse,
      change: (id) => ({ kind: 'createCatalog', catalog: { id, name } }),
      undo: (id) => ({ kind: 'dropCatalog', catalog: { id, name } }),
      owner: ownerId(body.owner, context),
    });
    return created(await render([segment('catalogs', object.name)], [object], context, toRecord), isNew);
  },
  update: async ({ segments, body }, context) => {
    const [object] = await context.catalog.require(segments);
    const changed = await context.catalog.update(object, {
      spec: describe(object.spec, body),
      principal: context.call.actor,
      owner: await newOwner(body.owner, segments, context),
    });
    return updated(await render(segments, [changed.object ?? object], context, toRecord));
  },
  delete: dropHandler<typeof catalogsApi>(([object], context) => {
    requireNotDefault(object, 'deleted');
    const { warehouse } = object.spec;
    const catalog = engineChange(object);
    return {
      warehouse,
      isDamaged: async () => (await context.warehouses.damageOf(warehouse, object.id)) !== undefined,
      change: { kind: 'dropCatalog', catalog },
      keep: {
        change: () => ({ kind: 'hideCatalog', catalog }),
        // Another catalog may have its name by then.
        purge: { kind: 'dropCatalog', catalog: { id: object.id, name: `dropped ${object.id}` } },
      },
    };
  }),
  rename: async ({ segments, body: { newName } }, context) => {
    const [object] = await context.catalog.require(segments);
    requireNotDefault(object, 'renamed');
    const { warehouse } = object.spec;
    await requireUnreserved('catalogs', newName, warehouse, context);
    const changed = await context.catalog.update(object, {
      name: newName,
      principal: context.call.actor,
      warehouse,
      change: { kind: 'renameCatalog', catalog: engineChange(object), newName },
    });
    return done(await render([segment('catalogs', newName)], [changed.object ?? object], context, toRecord));
  },
  browse: browse('catalogs'),
  search: findByName(catalogsApi, toRecord),
  undrop: undropHandler(catalogsApi, {
    toRecord,
    check: async (name, _parents, context, { warehouse }) => {
      // The path does not name the catalog, whose engine decides.
      requireCapability(await context.warehouses.engineOf(warehouse), 'undrop');
      await requireUnreserved('catalogs', name, warehouse, context);
    },
    prepare: ({ object, name }) => ({
      change: (descendants) => {
        const names = new Map(descendants.map((object) => [object.id, object.name]));
        const views = retainedViews(descendants, ({ parentId }) => names.get(parentId ?? '') ?? '');
        return { kind: 'restoreCatalog', catalog: { id: object.id, name }, views };
      },
    }),
  }),
  ...sqlHandlers,
  ...exportQuery,
  ...backupHandlers,
  check: checkCatalog,
  move: moveCatalog,
  ...restoreCatalog(defaultWarehouseName),
});
