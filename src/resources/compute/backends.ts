// Backends: the processes or servers of a warehouse. An embedded engine brings its one backend along; it can be taken out of
// service and put back, not added or removed.

import { backendsApi } from '../../api/compute/backends.ts';
import type { RecordOf } from '../../api/handlers.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { BackendSpec, WarehouseSpec } from '../../model/records.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { defined, last, patched } from '../records/fields.ts';
import {
  type Context,
  commonFields,
  deleted,
  done,
  found,
  implement,
  listed,
  type Render,
  render,
  segment,
  updated,
} from '../records/handler_context.ts';
import { enabledStateOf } from '../records/states.ts';

export const embeddedBackendName = 'embedded';

const parentOf = (path: PathParameters) => [segment('warehouses', path.warehouseName as string)];

const pathOf = (path: PathParameters) => [...parentOf(path), segment('backends', path.backendId as string)];

/** All backends of a warehouse: there are few. */
export function backendsOf(warehouse: CatalogObject, context: Context): Promise<CatalogObject[]> {
  return context.catalog.list(warehouse.id, 'backends', { limit: 1000 });
}

/** Each table is one tablet here; those of every catalog that lives in the warehouse. */
async function tabletCount(warehouse: string, context: Context): Promise<number> {
  let count = 0;
  for (const root of await context.catalog.list(null, 'catalogs', { limit: 1000 })) {
    if ((root.spec as { warehouse: string }).warehouse !== warehouse) continue;
    for (const database of await context.catalog.list(root.id, 'databases', { limit: 1000 }))
      count += await context.catalog.count(database.id, 'tables');
  }
  return count;
}

const toRecord: Render<RecordOf<typeof backendsApi>> = async (chain, uri, context) => {
  const [warehouse, backend] = chain as [CatalogObject<WarehouseSpec>, CatalogObject<BackendSpec>];
  const { backend: status } = await context.warehouses.condition(warehouse.name);
  const { version: engineVersion, confinement: _confinement, ...measured } = status;
  return {
    backendId: backend.name,
    engine: warehouse.spec.engine,
    location: backend.spec.location,
    comment: backend.spec.comment ?? null,
    ...enabledStateOf(backend.spec.disabled),
    engineVersion,
    ...measured,
    tabletCount: await tabletCount(warehouse.name, context),
    ...commonFields(backend, uri),
  };
};

async function setDisabled(path: PathParameters, disabled: boolean, context: Context) {
  const [warehouse, backend] = (await context.catalog.require(pathOf(path))) as [
    CatalogObject,
    CatalogObject<BackendSpec>,
  ];
  const changed = await context.catalog.update(backend, {
    spec: { ...backend.spec, disabled },
    principal: context.call.actor,
  });
  await context.warehouses.changed(warehouse.name);
  return done(await render(pathOf(path), [warehouse, changed.object ?? backend], context, toRecord));
}

export const backends = implement(backendsApi, {
  list: async ({ path, page }, context) => {
    const chain = await context.catalog.require(parentOf(path));
    const objects = await context.catalog.list(last(chain).id, 'backends', {
      limit: page.limit + 1,
      ...defined({ after: page.after }),
    });
    const records = [];
    for (const object of objects.slice(0, page.limit)) {
      records.push(
        await render([...parentOf(path), segment('backends', object.name)], [...chain, object], context, toRecord),
      );
    }
    return listed(records, objects.length > page.limit ? objects[page.limit - 1]?.name : undefined);
  },
  get: async ({ path }, context) =>
    found(await render(pathOf(path), await context.catalog.require(pathOf(path)), context, toRecord)),
  create: async ({ path, body, ifExists }, context) => {
    const { name } = body;
    const chain = (await context.catalog.require(parentOf(path))) as [CatalogObject<WarehouseSpec>];
    const at = [...parentOf(path), segment('backends', name)];
    const existing = await context.catalog.find(at);
    if (existing && ifExists === 'return') {
      const record = await render(at, existing, context, toRecord);
      return { outcome: 'created', record, created: false, uri: record.uri };
    }
    if (existing)
      throw new Failure('OBJECT_ALREADY_EXISTS', `the backend ${JSON.stringify(name)} exists`, {
        category: 'backends',
        name,
      });
    throw new Failure(
      'CHANGE_NOT_SUPPORTED',
      `the engine "${chain[0].spec.engine}" runs in one backend of its own; none can be added`,
    );
  },
  update: async ({ path, body }, context) => {
    const [warehouse, backend] = (await context.catalog.require(pathOf(path))) as [
      CatalogObject,
      CatalogObject<BackendSpec>,
    ];
    const { comment, ...rest } = backend.spec;
    const changed = await context.catalog.update(backend, {
      spec: { ...rest, ...defined({ comment: patched(comment, body.comment) }) },
      principal: context.call.actor,
    });
    return updated(await render(pathOf(path), [warehouse, changed.object ?? backend], context, toRecord));
  },
  delete: async ({ path }, context) => {
    if (!(await context.catalog.find(pathOf(path)))) return deleted(false);
    throw new Failure(
      'OBJECT_PROTECTED',
      'the backend of an embedded engine goes with its warehouse; disable it instead',
    );
  },
  disable: ({ path }, context) => setDisabled(path, true, context),
  enable: ({ path }, context) => setDisabled(path, false, context),
});
