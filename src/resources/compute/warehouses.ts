// Warehouses: what runs SQL. Their limits are kept here; their processes are engines/warehouses.ts.

import type { OpenIntent } from '../../catalog/changes/intent_recovery.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { type OpenChanges, openChanges } from '../../catalog/open_intents.ts';
import { catalogsOf, droppedCatalogsOf } from '../../catalog/warehouse_objects.ts';
import type { WarehouseCondition } from '../../engines/warehouses.ts';
import type { Actor } from '../../model/principal.ts';
import type { BackendSpec, WarehouseSpec } from '../../model/records.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { Type } from '../../standard/type.ts';
import {
  Comment,
  defined,
  describe,
  describedBody,
  dottedNames,
  exampleFields,
  invalid,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
  shownDescription,
} from '../records/fields.ts';
import {
  action,
  type Context,
  commonFields,
  create,
  created,
  deleted,
  done,
  found,
  get,
  list,
  listed,
  listing,
  newOwner,
  ownerId,
  ownerName,
  type Render,
  remove,
  render,
  segment,
  update,
  updated,
} from '../records/handler_context.ts';
import { searchOf } from '../records/search.ts';
import { stateField } from '../records/states.ts';
import { embeddedBackendName } from './backends.ts';

const mebibyte = 1024 * 1024;
const blockedShownMax = 100;

const limitFields = {
  threads: Type.Optional(Type.Integer({ minimum: 1, maximum: 1024, description: 'Threads that statements share.' })),
  memoryLimitBytes: Type.Optional(
    Type.Integer({ minimum: 64 * mebibyte, description: 'Memory that statements may use together.' }),
  ),
  spillLimitBytes: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Temporary disk that statements may use together.' }),
  ),
  autoSuspendSeconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 31_536_000,
      description: 'Idle time after which it stops its processes; 0: never.',
    }),
  ),
  autoResume: Type.Optional(Type.Boolean({ description: 'Whether a statement wakes it after an auto-suspend.' })),
  queriesMax: Type.Optional(Type.Integer({ minimum: 1, maximum: 30, description: 'Statements that run at a time.' })),
  queueMax: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000, description: 'Statements that may wait.' })),
  statementTimeoutSeconds: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 604_800, description: 'How long a statement may run.' }),
  ),
};

const WarehouseRecord = Type.Object({
  name: Type.String(),
  engine: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  state: stateField({
    running: 'its engine runs',
    starting: 'its engine is starting',
    suspended: 'its engine is stopped; `autoResume` says whether a statement starts it',
    failed: 'its engine does not start; `health` says why',
  }),
  health: Type.Object({
    status: Type.String({ description: '`healthy`, `degraded` or `unavailable`.' }),
    message: Type.String(),
  }),
  threads: Type.Integer(),
  memoryLimitBytes: Type.Integer(),
  spillLimitBytes: Type.Integer(),
  autoSuspendSeconds: Type.Integer(),
  autoResume: Type.Boolean(),
  queriesMax: Type.Integer(),
  queueMax: Type.Integer(),
  statementTimeoutSeconds: Type.Integer(),
  runningQueries: Type.Integer(),
  queuedQueries: Type.Integer(),
  backendCount: Type.Integer(),
  availableBackendCount: Type.Integer(),
  openChanges: Type.Integer({ description: 'Interrupted changes of its objects that have not been recovered.' }),
  blockedChanges: Type.Integer({
    description:
      'Those of them that recovery has set aside: a change or a deletion of their object, or `release_blocked_changes`, tries again.',
  }),
  blocked: Type.Array(
    Type.Object({
      category: Type.String(),
      path: nullable(
        Type.Array(Type.String(), {
          description:
            'The name of the object after the names of what it is in; null where the caller may not read it.',
        }),
      ),
      change: Type.String({ description: '`create`, `update`, `drop`, `undrop` or `purge`.' }),
      reason: Type.String(),
      since: Type.String({ format: 'date-time' }),
    }),
    {
      description: `What these changes are of, the first ${blockedShownMax}; also where no record shows the object, as while it is purged.`,
    },
  ),
  confinement: Type.Array(
    Type.Object({
      measure: Type.String({ description: '`namespaces`, `landlock` or `seccomp`.' }),
      active: Type.Boolean(),
      reason: nullable(Type.String({ description: 'Why it is not active.' })),
    }),
    {
      description:
        'Restrictions of the operating system under which its engine was last started; empty before the first start.',
    },
  ),
  owner: Owner,
  ...recordFields,
});

const pathOf = (path: PathParameters) => [segment('warehouses', path.warehouseName as string)];
type Warehouse = CatalogObject<WarehouseSpec>;

const as: Render = async (chain, uri, context) => {
  const [object] = chain as [Warehouse];
  const { suspended: _asked, comment: _comment, properties: _properties, engine, ...limits } = object.spec;
  const { backend, availableBackendCount, runningQueries, queuedQueries, state, health } =
    await context.warehouses.condition(object.name);
  const changes = await openChanges(context.catalog, object.name);
  return {
    name: object.name,
    engine,
    ...shownDescription(object.spec),
    state,
    health: healthWith(health, changes),
    ...limits,
    runningQueries,
    queuedQueries,
    backendCount: await context.catalog.count(object.id, 'backends'),
    availableBackendCount,
    openChanges: changes.open,
    blockedChanges: changes.blocked.length,
    blocked: await Promise.all(changes.blocked.slice(0, blockedShownMax).map((one) => blockedChange(one, context))),
    confinement: backend.confinement,
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

async function blockedChange({ intent, reason, path }: OpenIntent, context: Context) {
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

/** A warehouse with blocked changes is not healthy, however well its engine runs. */
function healthWith(
  health: WarehouseCondition['health'],
  { blocked: { length } }: OpenChanges,
): WarehouseCondition['health'] {
  if (length === 0 || health.status === 'unavailable') return health;
  const changes = length === 1 ? '1 change is blocked' : `${length} changes are blocked`;
  const before = health.status === 'healthy' ? '' : `${health.message}; `;
  return { status: 'degraded', message: `${before}${changes}: see blocked, and release_blocked_changes` };
}

/** The spec of a warehouse of which only the engine is said. */
export function warehouseSpec(engine: string, context: Pick<Context, 'warehouseDefaults'>): WarehouseSpec {
  return { engine, suspended: false, autoResume: true, ...context.warehouseDefaults };
}

/** An embedded engine's one backend, made with its warehouse; made again at a start if a crash came between the two. */
export async function ensureBackend(
  warehouse: CatalogObject,
  context: Pick<Context, 'catalog'>,
  principal: Actor,
): Promise<void> {
  const spec: BackendSpec = { disabled: false, location: 'embedded' };
  await context.catalog.create({
    parent: warehouse,
    category: 'backends',
    name: embeddedBackendName,
    spec,
    principal,
    ifExists: 'return',
  });
}

async function setSuspended(path: PathParameters, suspended: boolean, context: Context) {
  const [object] = (await context.catalog.require(pathOf(path))) as [Warehouse];
  const changed = await context.catalog.update(object, {
    spec: { ...object.spec, suspended },
    principal: context.call.actor,
  });
  await context.warehouses.changed(object.name);
  if (!suspended) await context.warehouses.resume(object.name);
  return done(await render(pathOf(path), [changed.object ?? object], context, as));
}

const none = Type.Object({}, { additionalProperties: false });

export const warehouses: Category<Context> = {
  name: 'warehouses',
  singular: 'warehouse',
  title: 'Warehouses',
  doc: 'What runs SQL: an engine with limits on memory, disk, time and concurrency.',
  parameter: 'warehouseName',
  record: WarehouseRecord,
  example: {
    name: 'default',
    engine: 'embedded',
    comment: null,
    properties: {},
    state: 'running',
    health: { status: 'healthy', message: 'running' },
    threads: 2,
    memoryLimitBytes: 4294967296,
    spillLimitBytes: 10737418240,
    autoSuspendSeconds: 600,
    autoResume: true,
    queriesMax: 16,
    queueMax: 100,
    statementTimeoutSeconds: 3600,
    runningQueries: 0,
    queuedQueries: 0,
    backendCount: 1,
    availableBackendCount: 1,
    openChanges: 0,
    blockedChanges: 0,
    blocked: [],
    owner: 'root',
    confinement: [
      { measure: 'namespaces', active: true, reason: null },
      { measure: 'landlock', active: true, reason: null },
      { measure: 'seccomp', active: true, reason: null },
    ],
    ...exampleFields('/api/v2/warehouses/default'),
  },
  endpoints: [
    list({
      summary: 'Lists warehouses by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      handle: async ({ page }, context) => {
        const objects = await context.catalog.list(null, 'warehouses', {
          limit: page.limit + 1,
          restrictTo: listing('warehouses', [], context),
          ...defined({ after: page.after }),
        });
        const records = [];
        for (const object of objects.slice(0, page.limit))
          records.push(await render([segment('warehouses', object.name)], [object], context, as));
        return listed(records, objects.length > page.limit ? objects[page.limit - 1]?.name : undefined);
      },
    }),
    get({
      summary: 'Shows a warehouse as it is now.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) =>
        found(await render(pathOf(path), await context.catalog.require(pathOf(path)), context, as)),
    }),
    create({
      summary: 'Creates a warehouse. It starts with the first statement.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS'],
      body: Type.Object(
        {
          ...describedBody,
          ...limitFields,
          engine: Type.Optional(Type.String({ description: 'By default the embedded one.' })),
        },
        { additionalProperties: false },
      ),
      example: { body: { name: 'reports', memoryLimitBytes: 2147483648, autoSuspendSeconds: 60 } },
      handle: async ({ body, ifExists }, context) => {
        const { name, owner, comment, properties, engine: asked, ...limits } = body as typeof body & { name: string };
        const names = context.warehouses.engineNames();
        const engine = asked ?? (names[0] as string);
        if (!names.includes(engine)) throw invalid('/engine', 'engine', `is not one of ${dottedNames(names)}`);
        const spec = describe(
          { ...warehouseSpec(engine, context), ...defined(limits) },
          defined({ comment, properties }),
        );
        const { actor: principal } = context.call;
        const { object, created: made } = await context.catalog.create({
          parent: null,
          category: 'warehouses',
          name,
          spec,
          principal,
          owner: ownerId(owner, context),
          ifExists,
        });
        await ensureBackend(object, context, principal);
        await context.warehouses.changed(object.name);
        const record = (await render([segment('warehouses', object.name)], [object], context, as)) as { uri: string };
        return created(record, made, record.uri);
      },
    }),
    update({
      summary: 'Changes the limits or the description of a warehouse.',
      description: 'Limits of memory, threads and spill take effect when no statement runs.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: Type.Object({ ...describedBody, ...limitFields }, { additionalProperties: false }),
      example: { body: { queriesMax: 8, statementTimeoutSeconds: 600 } },
      handle: async ({ path, body }, context) => {
        const [object] = (await context.catalog.require(pathOf(path))) as [Warehouse];
        const { owner, comment, properties, ...limits } = body;
        const spec = describe({ ...object.spec, ...defined(limits) }, defined({ comment, properties }));
        const changed = await context.catalog.update(object, {
          spec,
          principal: context.call.actor,
          owner: await newOwner(owner, pathOf(path), context),
        });
        await context.warehouses.changed(object.name);
        return updated(await render(pathOf(path), [changed.object ?? object], context, as));
      },
    }),
    remove({
      summary: 'Deletes a warehouse that no catalog lives in.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['IN_USE', 'CHANGE_IN_PROGRESS'],
      handle: async ({ path }, context) => {
        const chain = (await context.catalog.find(pathOf(path))) as [Warehouse] | undefined;
        if (!chain) return deleted(false);
        const [object] = chain;
        const living = (await catalogsOf(context.catalog, object.name)).map(({ name }) => name);
        if (living.length > 0)
          throw new Failure('IN_USE', `catalogs live in the warehouse: ${dottedNames(living)}`, { catalogs: living });
        const dropped = await droppedCatalogsOf(context.catalog, object.name);
        if (dropped.length > 0) {
          const message = `catalogs that were dropped and can come back live in the warehouse: ${dottedNames(dropped)}`;
          throw new Failure('IN_USE', message, { droppedCatalogs: dropped });
        }
        const was = await context.catalog.drop(object, {
          principal: context.call.actor,
          cascade: true,
          childCategories: [],
        });
        await context.warehouses.removed(object.name, object.id);
        return deleted(was);
      },
    }),
    action('suspend', {
      freesSpace: true,
      on: 'object',
      summary: 'Stops a warehouse: running statements end, new ones get 503 until it is resumed.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: none,
      result: WarehouseRecord,
      handle: ({ path }, context) => setSuspended(path, true, context),
    }),
    action('resume', {
      freesSpace: true,
      on: 'object',
      summary: 'Starts a suspended warehouse; answers when it takes statements.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', 'WAREHOUSE_FAILED'],
      body: none,
      result: WarehouseRecord,
      handle: ({ path }, context) => setSuspended(path, false, context),
    }),
    searchOf({ category: 'warehouses', record: WarehouseRecord, as, example: 'etl%' }),
    action('release_blocked_changes', {
      on: 'object',
      summary: 'Tries interrupted changes again that recovery has set aside because they ended the engine.',
      description: 'Tried at once, in the background: one that ends the engine twice more is blocked again.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND'],
      body: none,
      result: Type.Object({ released: Type.Integer({ description: 'How many changes were blocked.', minimum: 0 }) }),
      handle: async ({ path }, context) => {
        const [object] = (await context.catalog.require(pathOf(path))) as [Warehouse];
        const { actor } = context.call;
        actor.writing = true;
        const released = await context.catalog.releaseBlocked(object.name);
        actor.audited = true;
        context.audit.enqueue(actor, { outcome: '0', objectId: object.id, details: { released } });
        return done({ released });
      },
    }),
    action('release_quarantine', {
      on: 'object',
      summary: 'Lets statements run again that are refused because they ended the process of the engine.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND'],
      body: none,
      result: Type.Object({
        released: Type.Integer({ description: 'How many statements were refused until now.', minimum: 0 }),
      }),
      handle: async ({ path }, context) => {
        const [object] = (await context.catalog.require(pathOf(path))) as [Warehouse];
        const released = context.warehouses.quarantine.release(object.name);
        const { actor } = context.call;
        actor.audited = true;
        context.audit.enqueue(actor, { outcome: '0', objectId: object.id, details: { released } });
        return done({ released });
      },
    }),
  ],
};
