// The handlers of `catalogs`, the top level of the namespace. The data of a catalog is stored in one warehouse.

import { catalogsApi, defaultCatalogName, defaultWarehouseName } from '../../api/namespaces/catalogs.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { CatalogSpec } from '../../model/records.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import { sqlHandlers } from '../queries/sql_actions.ts';
import { describe, shownDescription } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { commonFields, page, type RenderOf, render, show } from '../records/object_records.ts';
import { created, done, found, updated } from '../records/outcomes.ts';
import { newOwner, ownerId, ownerName, requirePrivilege } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';
import { engineStateOf } from '../records/states.ts';
import { dropHandler, undropHandler } from '../records/undrop.ts';
import { backupHandlers, restoreCatalog } from '../transfer/backup_actions.ts';
import { exportQuery } from '../transfer/export_actions.ts';
import { checkCatalog } from './catalog_check.ts';
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

async function requireUsableName(name: string, warehouse: string, context: Context): Promise<void> {
  const fault = (await context.warehouses.engineOf(warehouse)).reservedName('catalogs', name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', fault, { name });
}

const engineChange = (object: CatalogObject) => ({ id: object.id, name: object.name });

export const catalogs = implement(catalogsApi, {
  list: ({ segments, page: requestedPage }, context) => page(segments, 'catalogs', requestedPage, context, toRecord),
  get: async ({ segments }, context) => found(await show(segments, context, toRecord)),
  create: async ({ body, ifExists }, context) => {
    const { name, warehouse = defaultWarehouseName } = body;
    await requirePrivilege('use', [segment('warehouses', warehouse)], context);
    if (!(await context.catalog.find([segment('warehouses', warehouse)]))) {
      throw invalidParameter('/warehouse', 'exists', `names no warehouse: ${JSON.stringify(warehouse)}`);
    }
    await requireUsableName(name, warehouse, context);
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
    const record = await render([segment('catalogs', object.name)], [object], context, toRecord);
    return created(record, isNew, record.uri);
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
    await requireUsableName(newName, warehouse, context);
    const changed = await context.catalog.update(object, {
      name: newName,
      principal: context.call.actor,
      warehouse,
      change: { kind: 'renameCatalog', catalog: engineChange(object), newName },
    });
    return done(await render([segment('catalogs', newName)], [changed.object ?? object], context, toRecord));
  },
  search: findByName(catalogsApi, toRecord),
  undrop: undropHandler(catalogsApi, {
    toRecord,
    check: (name, _parents, context, { warehouse }) => requireUsableName(name, warehouse, context),
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
  ...restoreCatalog(defaultWarehouseName),
});
