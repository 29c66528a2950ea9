// The handlers of `backends`: the processes or servers of a warehouse. An embedded engine has exactly one backend, which can be
// disabled and enabled but not added or removed. The servers of a cluster are registered, after they were checked.

import { backendsApi } from '../../api/compute/backends.ts';
import type { ObjectOf } from '../../catalog/object.ts';
import { catalogsOf, droppedCatalogsOf, serversBesides } from '../../catalog/warehouse_objects.ts';
import type { ClusterEngine } from '../../engines/cluster/registered_servers.ts';
import { storeClusterShape } from '../../jobs/cluster_shape.ts';
import type { BackendSpec, ServerIdentity } from '../../model/records.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import { defined, describe } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { pageOf } from '../records/list_page.ts';
import { render } from '../records/object_records.ts';
import { created, deleted, found, updated } from '../records/outcomes.ts';
import { cancelDecommission, decommission, disable, enable } from './backend_actions.ts';
import { backendRecord } from './backend_record.ts';

const probeMsMax = 10_000;
const backendsMax = 1000;

/** The servers that are registered in a warehouse. */
async function registeredIn(warehouse: ObjectOf<'warehouses'>, context: Context): Promise<ServerIdentity[]> {
  const backends = await context.catalog.list(warehouse.id, 'backends', { limit: backendsMax });
  return backends.flatMap(({ spec }) => spec.server ?? []);
}

/** Checks a server as it would be registered. */
async function probe(
  warehouse: ObjectOf<'warehouses'>,
  engine: ClusterEngine,
  location: string | undefined,
  context: Context,
): Promise<Pick<BackendSpec, 'location' | 'server'>> {
  const { cluster } = warehouse.spec;
  if (!cluster) throw new Error(`the warehouse ${warehouse.name} has no cluster`);
  if (location === undefined)
    throw invalidParameter('/location', 'required', 'is required for the server of a cluster');
  await storeClusterShape(context, warehouse);
  const password = (await context.warehousePassword.of(warehouse.id)) ?? '';
  const server = await engine.probe(
    {
      location,
      cluster: cluster.name,
      credentials: { user: cluster.user, password },
      registered: await registeredIn(warehouse, context),
    },
    { signal: AbortSignal.timeout(probeMsMax) },
  );
  return { location, server };
}

/** Two requests that register the same server are checked at the same time; only one of them creates it. */
function requireUnregistered(others: readonly ServerIdentity[], { id }: ServerIdentity): void {
  if (others.some((other) => other.id === id))
    throw new Failure('BACKEND_UNSUITABLE', 'the server is registered already', { reason: 'registered' });
}

/** Throws BACKEND_HAS_TABLES if the server of a cluster may have tables. */
async function requireNoTables(
  warehouse: ObjectOf<'warehouses'>,
  backend: ObjectOf<'backends'>,
  context: Context,
): Promise<void> {
  if (backend.spec.decommission?.phase === 'done') return;
  const names = [
    ...(await catalogsOf(context.catalog, warehouse.name)),
    ...(await droppedCatalogsOf(context.catalog, warehouse.name)),
  ];
  if (names.length === 0) return;
  const signal = AbortSignal.timeout(probeMsMax);
  const servers = await context.warehouses.serversOf(warehouse.name);
  const count = await servers?.tableCount(backend.name, { signal }).catch((error: unknown) => {
    if (error instanceof Failure) return undefined;
    throw error;
  });
  if (count === 0) return;
  const message = count === undefined ? 'the backend does not respond and may have tables' : 'the backend has tables';
  throw new Failure('BACKEND_HAS_TABLES', `${message}; decommission it first`, { tableCount: count ?? null });
}

export const backends = implement(backendsApi, {
  list: async ({ segments, page }, context) => {
    const [warehouse] = await context.catalog.require(segments);
    const read = (after: string | undefined, limit: number) =>
      context.catalog.batch(warehouse.id, 'backends', { after, limit });
    return pageOf(page, 'name', read, (object) =>
      render([...segments, segment('backends', object.name)], [warehouse, object], context, backendRecord),
    );
  },
  get: async ({ segments }, context) =>
    found(await render(segments, await context.catalog.require(segments), context, backendRecord)),
  create: async ({ segments, body, ifExists }, context) => {
    const { name, location, zone, comment } = body;
    const [warehouse] = await context.catalog.require(segments);
    const path = [...segments, segment('backends', name)] as const;
    const existing = await context.catalog.find(path);
    if (existing && ifExists === 'return') return created(await render(path, existing, context, backendRecord), false);
    if (existing)
      throw new Failure('OBJECT_ALREADY_EXISTS', `the backend ${JSON.stringify(name)} already exists`, {
        category: 'backends',
        name,
      });
    const engine = await context.warehouses.engineOf(warehouse.name);
    if (!engine.cluster) throw noneCanBeAdded(warehouse, context);
    const probed = await probe(warehouse, engine.cluster, location, context);
    const spec = describe<BackendSpec>({ disabled: false, ...probed, ...defined({ zone }) }, defined({ comment }));
    const { object, created: isNew } = await context.catalog.create({
      parent: warehouse,
      category: 'backends',
      name,
      spec,
      principal: context.call.actor,
      ifExists,
      inTransaction: async (tx, backendId) => {
        const { server } = probed;
        if (server) requireUnregistered(await serversBesides(tx, { backendId, warehouseId: warehouse.id }), server);
      },
    });
    await context.warehouses.apply(warehouse.name);
    return created(await render(path, [warehouse, object], context, backendRecord), isNew);
  },
  update: async ({ segments, body }, context) => {
    const [warehouse, backend] = await context.catalog.require(segments);
    const { zone: before, ...rest } = backend.spec;
    const zone = body.zone === undefined ? before : (body.zone ?? undefined);
    const changed = await context.catalog.update(backend, {
      spec: describe<BackendSpec>({ ...rest, ...defined({ zone }) }, { comment: body.comment }),
      principal: context.call.actor,
    });
    return updated(await render(segments, [warehouse, changed.object ?? backend], context, backendRecord));
  },
  delete: async ({ segments }, context) => {
    const existing = await context.catalog.find(segments);
    if (!existing) return deleted(false);
    const [warehouse, backend] = existing;
    const { cluster } = await context.warehouses.engineOf(warehouse.name);
    if (!cluster) {
      const message = 'the backend of an embedded engine is deleted with its warehouse; disable it instead';
      throw new Failure('OBJECT_PROTECTED', message);
    }
    await requireNoTables(warehouse, backend, context);
    const was = await context.catalog.drop(backend, { principal: context.call.actor, cascade: true });
    await context.warehouses.apply(warehouse.name);
    return deleted(was);
  },
  disable,
  enable,
  decommission,
  cancel_decommission: cancelDecommission,
});

function noneCanBeAdded(warehouse: ObjectOf<'warehouses'>, context: Context): Failure {
  const { engine } = warehouse.spec;
  const { length } = context.warehouses.engine(engine)?.backends ?? [];
  const count = length === 1 ? 'one backend' : `${length} backends`;
  return new Failure('CHANGE_NOT_SUPPORTED', `the engine "${engine}" has exactly ${count}; none can be added`);
}
