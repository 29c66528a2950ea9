// The handlers of `backends`: the processes or servers of a warehouse. An embedded engine has exactly one backend, which can be
// disabled and enabled but not added or removed.

import { backendsApi } from '../../api/compute/backends.ts';
import type { SegmentsOf } from '../../api/handlers.ts';
import { Failure } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import { defined, describe } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { commonFields, type RenderOf, render } from '../records/object_records.ts';
import { deleted, done, found, pageOf, updated } from '../records/outcomes.ts';
import { enabledStateOf } from '../records/states.ts';

type Path = SegmentsOf<typeof backendsApi>;

/** The number of tables in all catalogs of a warehouse. */
async function tableCount(warehouse: string, context: Context): Promise<number> {
  let count = 0;
  for (const root of await context.catalog.list(null, 'catalogs', { limit: 1000 })) {
    if (root.spec.warehouse !== warehouse) continue;
    for (const database of await context.catalog.list(root.id, 'databases', { limit: 1000 }))
      count += await context.catalog.count(database.id, 'tables');
  }
  return count;
}

const toRecord: RenderOf<typeof backendsApi> = async ([warehouse, backend], uri, context) => {
  const { warehouses } = context;
  const status = await warehouses.backendStatus(warehouse.name, backend.name);
  const { version: engineVersion, confinement: _confinement, ...measured } = status;
  return {
    backendId: backend.name,
    engine: warehouse.spec.engine,
    location: backend.spec.location,
    comment: backend.spec.comment ?? null,
    ...enabledStateOf(backend.spec.disabled),
    engineVersion,
    ...measured,
    tabletCount: await warehouses.tabletCount(warehouse.name, backend.name, () => tableCount(warehouse.name, context)),
    ...commonFields(backend, uri),
  };
};

async function setDisabled(path: Path, disabled: boolean, context: Context) {
  const [warehouse, backend] = await context.catalog.require(path);
  const changed = await context.catalog.update(backend, {
    spec: { ...backend.spec, disabled },
    principal: context.call.actor,
  });
  await context.warehouses.apply(warehouse.name);
  return done(await render(path, [warehouse, changed.object ?? backend], context, toRecord));
}

export const backends = implement(backendsApi, {
  list: async ({ segments, page }, context) => {
    const [warehouse] = await context.catalog.require(segments);
    const objects = await context.catalog.list(warehouse.id, 'backends', {
      limit: page.limit + 1,
      ...defined({ after: page.after }),
    });
    return pageOf(objects, page, 'name', (object) =>
      render([...segments, segment('backends', object.name)], [warehouse, object], context, toRecord),
    );
  },
  get: async ({ segments }, context) =>
    found(await render(segments, await context.catalog.require(segments), context, toRecord)),
  create: async ({ segments, body, ifExists }, context) => {
    const { name } = body;
    const [warehouse] = await context.catalog.require(segments);
    const path = [...segments, segment('backends', name)] as const;
    const existing = await context.catalog.find(path);
    if (existing && ifExists === 'return') {
      const record = await render(path, existing, context, toRecord);
      return { outcome: 'created', record, created: false, uri: record.uri };
    }
    if (existing)
      throw new Failure('OBJECT_ALREADY_EXISTS', `the backend ${JSON.stringify(name)} already exists`, {
        category: 'backends',
        name,
      });
    const { engine } = warehouse.spec;
    const { length } = context.warehouses.engine(engine)?.backends ?? [];
    const count = length === 1 ? 'one backend' : `${length} backends`;
    throw new Failure('CHANGE_NOT_SUPPORTED', `the engine "${engine}" has exactly ${count}; none can be added`);
  },
  update: async ({ segments, body }, context) => {
    const [warehouse, backend] = await context.catalog.require(segments);
    const changed = await context.catalog.update(backend, {
      spec: describe(backend.spec, { comment: body.comment }),
      principal: context.call.actor,
    });
    return updated(await render(segments, [warehouse, changed.object ?? backend], context, toRecord));
  },
  delete: async ({ segments }, context) => {
    if (!(await context.catalog.find(segments))) return deleted(false);
    throw new Failure(
      'OBJECT_PROTECTED',
      'the backend of an embedded engine is deleted with its warehouse; disable it instead',
    );
  },
  disable: ({ segments }, context) => setDisabled(segments, true, context),
  enable: ({ segments }, context) => setDisabled(segments, false, context),
});
