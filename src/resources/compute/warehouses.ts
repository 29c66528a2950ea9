// The handlers of `warehouses`, which run SQL. Their limits are stored here; engines/warehouses/warehouses.ts runs their processes.

import { blockedShownMax, limitsOfOwnProcesses, warehousesApi } from '../../api/compute/warehouses.ts';
import type { SegmentsOf } from '../../api/handlers.ts';
import type { ObjectOf } from '../../catalog/object.ts';
import { type BlockedIntent, type OpenChanges, openChanges } from '../../catalog/open_intents.ts';
import { catalogsOf, droppedCatalogsOf, requireNothingLeft } from '../../catalog/warehouse_objects.ts';
import type { Engine } from '../../engines/port/engine.ts';
import type { WarehouseCondition } from '../../engines/warehouses/warehouse_condition.ts';
import type { Actor } from '../../model/principal.ts';
import type { BackendSpec, WarehouseSpec } from '../../model/records.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import { defined, describe, dottedNames, shownDescription } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { commonFields, freshPage, type RenderOf, render } from '../records/object_records.ts';
import { created, deleted, done, found, updated } from '../records/outcomes.ts';
import { newOwner, ownerId, ownerName, requireOnCollection } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';

type Path = SegmentsOf<typeof warehousesApi>;

const backendsMax = 1000;

const toRecord: RenderOf<typeof warehousesApi> = async ([object], uri, context) => {
  const {
    engine,
    cluster,
    serverId: _server,
    suspended: _asked,
    comment: _comment,
    properties: _shown,
    ...limits
  } = object.spec;
  // Together, so that the records of a page share their reads of the store.
  const [condition, changes, backendCount, layout] = await Promise.all([
    context.warehouses.condition(object.name),
    openChanges(context.catalog, object.name),
    context.catalog.count(object.id, 'backends'),
    context.warehouses.layoutOf(object.name),
  ]);
  const { backends, availableBackendCount, runningQueries, queuedQueries, state, health } = condition;
  return {
    name: object.name,
    engine,
    ...shownDescription(object.spec),
    state,
    health: healthWith(health, changes),
    cluster: cluster?.name ?? null,
    user: cluster?.user ?? null,
    replicated: layout?.replicates ?? null,
    shardCount: layout?.shardCount ?? null,
    replicaCount: layout?.replicaCount ?? null,
    engineVersions: [...new Set(backends.flatMap(({ version }) => version ?? []))].sort(),
    ...limits,
    ...(cluster ? withoutOwnProcesses : {}),
    runningQueries,
    queuedQueries,
    backendCount,
    availableBackendCount,
    openChanges: changes.open,
    blockedChanges: changes.blocked.length,
    blocked: await Promise.all(
      changes.blocked.slice(0, blockedShownMax).map((change) => blockedChange(change, context)),
    ),
    quarantinedStatements: context.warehouses.quarantine.count(object.name),
    confinement: backends.flatMap(({ confinement }) => confinement),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

const withoutOwnProcesses = {
  threads: null,
  memoryLimitBytes: null,
  spillLimitBytes: null,
  autoSuspendSeconds: null,
  autoResume: null,
} as const satisfies Record<(typeof limitsOfOwnProcesses)[number], null>;

/** Throws INVALID_PARAMETER for the first field of a request that does not apply to the engine. */
function requireApplicable(engine: Engine, requested: Readonly<Record<string, unknown>>): void {
  const fields = engine.cluster ? limitsOfOwnProcesses : (['cluster', 'user', 'password'] as const);
  for (const field of fields)
    if (requested[field] !== undefined)
      throw invalidParameter(`/${field}`, 'engine', `does not apply to the engine ${JSON.stringify(engine.name)}`);
}

/** The cluster in the spec of a new warehouse. */
function clusterSpec(
  engine: Engine,
  { cluster: name, user }: { readonly cluster?: string | undefined; readonly user?: string | undefined },
): Pick<WarehouseSpec, 'cluster'> {
  if (!engine.cluster) return {};
  if (name === undefined)
    throw invalidParameter('/cluster', 'required', `is required for the engine ${JSON.stringify(engine.name)}`);
  if (user === undefined)
    throw invalidParameter('/user', 'required', `is required for the engine ${JSON.stringify(engine.name)}`);
  return { cluster: { name, user, passwordVersion: 1 } };
}

async function blockedChange({ intent, reason, path }: BlockedIntent, context: Context) {
  const chain = await context.catalog.findByIdsWithDropped(path);
  const { category = '' } = chain.at(-1) ?? {};
  const mayRead = context.access.authorizer.isVisible(context.call.principal, 'read', category, chain);
  return {
    category,
    path: mayRead ? chain.map(({ name }) => name) : null,
    change: intent.verb,
    reason,
    since: new Date(intent.created_at).toISOString(),
  };
}

/** A warehouse with blocked changes is unhealthy even if its engine runs. */
function healthWith(
  health: WarehouseCondition['health'],
  { blocked: { length } }: OpenChanges,
): WarehouseCondition['health'] {
  if (length === 0 || health.status === 'unavailable') return health;
  const changes = length === 1 ? '1 change is blocked' : `${length} changes are blocked`;
  const before = health.status === 'healthy' ? '' : `${health.message}; `;
  return { status: 'degraded', message: `${before}${changes}: see blocked, and release_blocked_changes` };
}

/** The spec of a warehouse for which the request gives only the engine. */
export function warehouseSpec(
  engine: string,
  { warehouses, warehouseDefaults }: Pick<Context, 'warehouses' | 'warehouseDefaults'>,
): WarehouseSpec {
  // Without processes of its own there is nothing to stop when it is idle.
  const idle = warehouses.engine(engine)?.cluster ? { autoSuspendSeconds: 0 } : {};
  return { engine, ...warehouses.placeOf(engine), suspended: false, autoResume: true, ...warehouseDefaults, ...idle };
}

/** Creates the backends that the engine has from the beginning together with the warehouse, or at a start if a crash happened between. */
export async function ensureBackends(
  warehouse: ObjectOf<'warehouses'>,
  { catalog, warehouses }: Pick<Context, 'catalog' | 'warehouses'>,
  principal: Actor,
): Promise<void> {
  for (const { name, location } of warehouses.engine(warehouse.spec.engine)?.backends ?? []) {
    const spec: BackendSpec = { disabled: false, location };
    await catalog.create({ parent: warehouse, category: 'backends', name, spec, principal, ifExists: 'return' });
  }
}

/** Throws IN_USE while something of the warehouse is left that only its engine can complete or delete. */
async function dropUnused(object: ObjectOf<'warehouses'>, context: Context): Promise<boolean> {
  const { name } = object;
  const living = (await catalogsOf(context.catalog, name)).map(({ name }) => name);
  if (living.length > 0)
    throw new Failure('IN_USE', `the warehouse contains catalogs: ${dottedNames(living)}`, { catalogs: living });
  const dropped = await droppedCatalogsOf(context.catalog, name);
  if (dropped.length > 0) {
    const message = `the warehouse contains dropped catalogs that can be restored: ${dottedNames(dropped)}`;
    throw new Failure('IN_USE', message, { droppedCatalogs: dropped });
  }
  const was = await context.catalog.drop(object, {
    principal: context.call.actor,
    cascade: true,
    inTransaction: async (tx) => {
      await context.moves.requireNoMoveTo(tx, name);
      await requireNothingLeft(tx, name);
      await context.warehousePassword.remove(tx, object.id);
    },
  });
  await context.warehouses.removed(object.id);
  return was;
}

/** Throws IN_USE if a server of the cluster responds: its catalogs can be dropped one by one then. */
async function dropWithLostCluster(warehouse: ObjectOf<'warehouses'>, context: Context): Promise<boolean> {
  await requireOnCollection('drop', 'catalogs', context);
  const { cluster } = await context.warehouses.engineOf(warehouse.name);
  const backends = await context.catalog.list(warehouse.id, 'backends', { limit: backendsMax });
  const answers = await Promise.all(
    backends.map(async ({ name, spec: { location } }) =>
      location !== undefined && (await cluster?.responds(location)) ? name : [],
    ),
  );
  const responding = answers.flat();
  if (responding.length > 0) {
    const message = `servers of the warehouse respond: ${dottedNames(responding)}; delete its catalogs first`;
    throw new Failure('IN_USE', message, { backends: responding });
  }
  const was = await context.catalog.dropLostWarehouse(warehouse, {
    principal: context.call.actor,
    inTransaction: (tx) => context.warehousePassword.remove(tx, warehouse.id),
  });
  await context.warehouses.removed(warehouse.id);
  return was;
}

async function setSuspended(path: Path, suspended: boolean, context: Context) {
  const [object] = await context.catalog.require(path);
  const changed = await context.catalog.update(object, {
    spec: { ...object.spec, suspended },
    principal: context.call.actor,
  });
  await context.warehouses.apply(object.name);
  if (!suspended) await context.warehouses.resume(object.name);
  return done(await render(path, [changed.object ?? object], context, toRecord));
}

export const warehouses = implement(warehousesApi, {
  list: ({ segments, page }, context) => freshPage(segments, 'warehouses', page, context, toRecord),
  get: async ({ segments }, context) =>
    found(await render(segments, await context.catalog.require(segments), context, toRecord)),
  create: async ({ body, ifExists }, context) => {
    const { name, owner, comment, properties, engine: requestedEngine, cluster, user, password, ...limits } = body;
    const names = context.warehouses.engineNames();
    const [engineName = ''] = requestedEngine === undefined ? names : [requestedEngine];
    const engine = context.warehouses.engine(engineName);
    if (!engine) throw invalidParameter('/engine', 'engine', `is not one of ${dottedNames(names)}`);
    requireApplicable(engine, body);
    const spec = describe(
      { ...warehouseSpec(engineName, context), ...defined(limits), ...clusterSpec(engine, { cluster, user }) },
      defined({ comment, properties }),
    );
    const { actor: principal } = context.call;
    const { object, created: isNew } = await context.catalog.create({
      parent: null,
      category: 'warehouses',
      name,
      spec,
      principal,
      owner: ownerId(owner, context),
      ifExists,
      inTransaction: async (tx, id) => {
        if (spec.cluster) await context.warehousePassword.put(tx, id, password ?? '');
      },
    });
    await ensureBackends(object, context, principal);
    await context.warehouses.apply(object.name);
    return created(await render([segment('warehouses', object.name)], [object], context, toRecord), isNew);
  },
  update: async ({ segments, body }, context) => {
    const [object] = await context.catalog.require(segments);
    const { owner, comment, properties, user, password, ...limits } = body;
    const { cluster } = object.spec;
    requireApplicable(await context.warehouses.engineOf(object.name), body);
    const passwordVersion = (cluster?.passwordVersion ?? 0) + (password === undefined ? 0 : 1);
    const credentials = cluster ? { cluster: { ...cluster, ...defined({ user }), passwordVersion } } : {};
    const spec = describe({ ...object.spec, ...defined(limits), ...credentials }, defined({ comment, properties }));
    const changed = await context.catalog.update(object, {
      spec,
      principal: context.call.actor,
      owner: await newOwner(owner, segments, context),
      inTransaction: async (tx) => {
        if (password !== undefined) await context.warehousePassword.put(tx, object.id, password);
      },
    });
    await context.warehouses.apply(object.name);
    return updated(await render(segments, [changed.object ?? object], context, toRecord));
  },
  delete: async ({ segments, query: { cascade = false } }, context) => {
    const [object] = (await context.catalog.find(segments)) ?? [];
    if (!object) return deleted(false);
    try {
      return deleted(await dropUnused(object, context));
    } catch (error) {
      const isInUse = error instanceof Failure && error.code === 'IN_USE';
      if (!isInUse || !cascade || !object.spec.cluster) throw error;
      return deleted(await dropWithLostCluster(object, context));
    }
  },
  suspend: ({ segments }, context) => setSuspended(segments, true, context),
  resume: ({ segments }, context) => setSuspended(segments, false, context),
  search: findByName(warehousesApi, toRecord),
  release_blocked_changes: async ({ segments }, context) => {
    const [object] = await context.catalog.require(segments);
    const { actor } = context.call;
    actor.writing = true;
    const released = await context.catalog.releaseBlocked(object.name);
    actor.audited = true;
    context.audit.enqueue(actor, { outcome: '0', objectId: object.id, details: { released } });
    return done({ released });
  },
  release_quarantine: async ({ segments }, context) => {
    const [object] = await context.catalog.require(segments);
    const released = context.warehouses.quarantine.release(object.name);
    const { actor } = context.call;
    actor.audited = true;
    context.audit.enqueue(actor, { outcome: '0', objectId: object.id, details: { released } });
    return done({ released });
  },
});
