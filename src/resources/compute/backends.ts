// Backends: the processes or servers of a warehouse. An embedded engine brings its one backend along; it can be taken out of
// service and put back, not added or removed.
import type { CatalogObject } from '../../catalog/object.ts';
import type { BackendSpec, WarehouseSpec } from '../../model/records.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { Type } from '../../standard/type.ts';
import { Comment, defined, exampleFields, last, nullable, patched, recordFields } from '../records/fields.ts';
import {
  action,
  type Context,
  commonFields,
  create,
  deleted,
  done,
  found,
  get,
  list,
  listed,
  type Render,
  remove,
  render,
  segment,
  update,
  updated,
} from '../records/handler_context.ts';
import { enabledState, enabledStateOf } from '../records/states.ts';

export const embeddedBackendName = 'embedded';

const Bytes = (description: string) => Type.Integer({ description });
const BackendRecord = Type.Object({
  backendId: Type.String(),
  engine: Type.String(),
  location: Type.String({ description: '`embedded`, or the URL of a server.' }),
  comment: nullable(Comment),
  ...enabledState,
  alive: Type.Boolean({
    description: 'Whether its process runs and answers; false also while the warehouse is suspended.',
  }),
  engineVersion: nullable(Type.String({ description: "The engine's version; `version` is that of this record." })),
  cpuCores: Type.Integer(),
  memoryUsedBytes: Bytes('Resident memory of the process.'),
  memoryLimitBytes: Bytes('What statements may use together.'),
  dataUsedBytes: Bytes('Bytes of tables on disk.'),
  spilledBytes: Bytes('What statements that run keep on disk.'),
  diskAvailableBytes: Bytes('Free on the disk that holds the data.'),
  diskTotalBytes: Bytes('Size of that disk.'),
  tabletCount: Type.Integer(),
  runningQueries: Type.Integer(),
  lastStartAt: nullable(Type.String({ format: 'date-time' })),
  lastHeartbeatAt: nullable(Type.String({ format: 'date-time' })),
  errorMessage: nullable(Type.String({ description: 'Why it is not well.' })),
  ...recordFields,
});

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

const as: Render = async (chain, uri, context) => {
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
  return done(await render(pathOf(path), [warehouse, changed.object ?? backend], context, as));
}

const none = Type.Object({}, { additionalProperties: false });

export const backends: Category<Context> = {
  name: 'backends',
  singular: 'backend',
  title: 'Backends',
  doc: 'The processes or servers that do the work of a warehouse.',
  parameter: 'backendId',
  idField: 'backendId',
  parent: 'warehouses',
  record: BackendRecord,
  example: {
    backendId: 'embedded',
    engine: 'embedded',
    location: 'embedded',
    comment: null,
    state: 'enabled',
    alive: true,
    engineVersion: 'v1.5.5',
    cpuCores: 2,
    memoryUsedBytes: 104857600,
    memoryLimitBytes: 4294967296,
    dataUsedBytes: 8388608,
    spilledBytes: 0,
    diskAvailableBytes: 85899345920,
    diskTotalBytes: 274877906944,
    tabletCount: 5,
    runningQueries: 0,
    lastStartAt: '2026-01-31T10:00:00.000Z',
    lastHeartbeatAt: '2026-01-31T10:00:01.000Z',
    errorMessage: null,
    ...exampleFields('/api/v2/warehouses/default/backends/embedded'),
  },
  endpoints: [
    list({
      summary: 'Lists the backends of a warehouse.',
      permission: { privilege: 'read', on: 'parent' },
      codes: ['OBJECT_NOT_FOUND'],
      handle: async ({ path, page }, context) => {
        const chain = await context.catalog.require(parentOf(path));
        const objects = await context.catalog.list(last(chain).id, 'backends', {
          limit: page.limit + 1,
          ...defined({ after: page.after }),
        });
        const records = [];
        for (const object of objects.slice(0, page.limit)) {
          records.push(
            await render([...parentOf(path), segment('backends', object.name)], [...chain, object], context, as),
          );
        }
        return listed(records, objects.length > page.limit ? objects[page.limit - 1]?.name : undefined);
      },
    }),
    get({
      summary: 'Shows a backend as it is now.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) =>
        found(await render(pathOf(path), await context.catalog.require(pathOf(path)), context, as)),
    }),
    create({
      summary: 'Adds a backend to a warehouse whose engine is a cluster.',
      permission: { privilege: 'operate', on: 'parent' },
      codes: ['OBJECT_NOT_FOUND', 'OBJECT_ALREADY_EXISTS', 'CHANGE_NOT_SUPPORTED'],
      body: Type.Object(
        { location: Type.Optional(Type.String({ maxLength: 2048 })), comment: Type.Optional(nullable(Comment)) },
        { additionalProperties: false },
      ),
      example: { body: { name: 'node-4', location: 'https://node-4:8443' } },
      handle: async ({ path, body, ifExists }, context) => {
        const { name } = body as typeof body & { name: string };
        const chain = (await context.catalog.require(parentOf(path))) as [CatalogObject<WarehouseSpec>];
        const at = [...parentOf(path), segment('backends', name)];
        const existing = await context.catalog.find(at);
        if (existing && ifExists === 'return') {
          const record = (await render(at, existing, context, as)) as { uri: string };
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
    }),
    update({
      summary: 'Changes the comment of a backend.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: Type.Object({ comment: Type.Optional(nullable(Comment)) }, { additionalProperties: false }),
      example: { body: { comment: 'rack 4' } },
      handle: async ({ path, body }, context) => {
        const [warehouse, backend] = (await context.catalog.require(pathOf(path))) as [
          CatalogObject,
          CatalogObject<BackendSpec>,
        ];
        const { comment, ...rest } = backend.spec;
        const changed = await context.catalog.update(backend, {
          spec: { ...rest, ...defined({ comment: patched(comment, body.comment) }) },
          principal: context.call.actor,
        });
        return updated(await render(pathOf(path), [warehouse, changed.object ?? backend], context, as));
      },
    }),
    remove({
      summary: 'Removes a backend from a warehouse whose engine is a cluster.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_PROTECTED'],
      handle: async ({ path }, context) => {
        if (!(await context.catalog.find(pathOf(path)))) return deleted(false);
        throw new Failure(
          'OBJECT_PROTECTED',
          'the backend of an embedded engine goes with its warehouse; disable it instead',
        );
      },
    }),
    action('disable', {
      on: 'object',
      summary: 'Takes a backend out of service: statements that need its replicas get 503 until it is enabled.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: none,
      result: BackendRecord,
      handle: ({ path }, context) => setDisabled(path, true, context),
    }),
    action('enable', {
      on: 'object',
      summary: 'Puts a backend back into service.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: none,
      result: BackendRecord,
      handle: ({ path }, context) => setDisabled(path, false, context),
    }),
  ],
};
