// The declaration of `warehouses`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, get, list, remove, update } from '../declare.ts';
import {
  Comment,
  describedBody,
  exampleFields,
  noFields,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
  Timestamp,
} from '../fields.ts';
import { searchByName } from '../search.ts';
import { stateField } from '../states.ts';

const mebibyte = 1024 * 1024;

export const blockedShownMax = 100;

const notOfCluster = 'Not for clusters, whose servers have settings of their own.';

const limitFields = {
  threads: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1024,
      description: `The number of threads that all statements share. ${notOfCluster}`,
    }),
  ),
  memoryLimitBytes: Type.Optional(
    Type.Integer({
      minimum: 64 * mebibyte,
      description: `The memory limit of all statements together. ${notOfCluster}`,
    }),
  ),
  spillLimitBytes: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: `The limit of temporary disk space of all statements together. ${notOfCluster}`,
    }),
  ),
  autoSuspendSeconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 31_536_000,
      description: `The idle time after which the warehouse stops its processes; 0: never. ${notOfCluster}`,
    }),
  ),
  autoResume: Type.Optional(
    Type.Boolean({ description: `Whether a statement resumes it after an auto-suspend. ${notOfCluster}` }),
  ),
  queriesMax: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 30,
      description: 'The maximum number of running statements.',
    }),
  ),
  queueMax: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 100_000, description: 'The maximum number of queued statements.' }),
  ),
  statementTimeoutSeconds: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 604_800, description: 'The time limit of a statement.' }),
  ),
};

/** The fields of limits that an engine on servers of its own does not have. */
export const limitsOfOwnProcesses = [
  'threads',
  'memoryLimitBytes',
  'spillLimitBytes',
  'autoSuspendSeconds',
  'autoResume',
] as const satisfies readonly (keyof typeof limitFields)[];

/** How the servers of a cluster are reached. */
const credentialFields = {
  user: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description: 'The user as whom the server connects to the servers of the cluster.',
    }),
  ),
  password: Type.Optional(
    Type.String({ maxLength: 1024, writeOnly: true, description: 'Its password. Stored encrypted, never returned.' }),
  ),
};

const clusterFields = {
  cluster: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description:
        'The name by which the servers know their cluster. Required for an engine that runs on a cluster; its servers are registered as backends.',
    }),
  ),
  ...credentialFields,
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
  cluster: nullable(
    Type.String({ description: 'The name by which the servers know their cluster; null: the engine has none.' }),
  ),
  user: nullable(Type.String({ description: 'The user of the connections to its servers; null: it has no cluster.' })),
  replicated: nullable(
    Type.Boolean({
      description:
        'Whether its servers replicate tables among themselves. If not, all copies of a row are written with the statement that writes it, and a server that missed writes cannot catch up. Null: it has no cluster, or no backend yet.',
    }),
  ),
  shardCount: nullable(
    Type.Integer({ description: 'The number of tablets of each table; null: it has no cluster, or no backend yet.' }),
  ),
  replicaCount: nullable(
    Type.Integer({
      description: 'The number of replicas of each tablet that the cluster is set up for; null as `shardCount`.',
    }),
  ),
  engineVersions: Type.Array(Type.String(), {
    description: 'The different versions of its backends that are known now, sorted.',
  }),
  threads: nullable(Type.Integer({ description: notOfCluster })),
  memoryLimitBytes: nullable(Type.Integer({ description: notOfCluster })),
  spillLimitBytes: nullable(Type.Integer({ description: notOfCluster })),
  autoSuspendSeconds: nullable(Type.Integer({ description: notOfCluster })),
  autoResume: nullable(Type.Boolean({ description: notOfCluster })),
  queriesMax: Type.Integer(),
  queueMax: Type.Integer(),
  statementTimeoutSeconds: Type.Integer(),
  runningQueries: Type.Integer(),
  queuedQueries: Type.Integer(),
  backendCount: Type.Integer(),
  availableBackendCount: Type.Integer({ description: 'The number of backends that take statements.' }),
  openChanges: Type.Integer({ description: 'The number of interrupted changes that have not been recovered.' }),
  blockedChanges: Type.Integer({
    description:
      'Interrupted changes that recovery no longer retries. Changing or deleting the object, or `release_blocked_changes`, retries them.',
  }),
  blocked: Type.Array(
    Type.Object({
      category: Type.String(),
      path: nullable(
        Type.Array(Type.String(), {
          description: 'The full name of the object; null if the caller may not read it.',
        }),
      ),
      change: Type.String({ description: '`create`, `update`, `drop`, `undrop` or `purge`.' }),
      reason: Type.String(),
      since: Timestamp,
    }),
    {
      description: `The objects of these changes, at most ${blockedShownMax}; includes objects without a record, such as one that is being purged.`,
    },
  ),
  quarantinedStatements: Type.Integer({
    description:
      'The number of statements that are refused because they crashed the engine process; `release_quarantine` allows them again.',
  }),
  confinement: Type.Array(
    Type.Object({
      measure: Type.String({ description: '`namespaces`, `landlock` or `seccomp`.' }),
      active: Type.Boolean(),
      reason: nullable(Type.String({ description: 'The reason why it is not active.' })),
    }),
    {
      description:
        'The restrictions that the operating system enforced at the last start of the engine; empty before the first start.',
    },
  ),
  owner: Owner,
  ...recordFields,
});

export const warehousesApi = category({
  name: 'warehouses',
  singular: 'warehouse',
  title: 'Warehouses',
  doc: 'Engines that run SQL, with limits on memory, disk, time and concurrency.',
  parameter: 'warehouseName',
  securable: true,
  record: WarehouseRecord,
  example: {
    name: 'default',
    engine: 'embedded',
    comment: null,
    properties: {},
    state: 'running',
    health: { status: 'healthy', message: 'running' },
    cluster: null,
    user: null,
    replicated: null,
    shardCount: null,
    replicaCount: null,
    engineVersions: ['v1.5.5'],
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
    quarantinedStatements: 0,
    owner: 'root',
    confinement: [
      { measure: 'namespaces', active: true, reason: null },
      { measure: 'landlock', active: true, reason: null },
      { measure: 'seccomp', active: true, reason: null },
    ],
    ...exampleFields('/api/v2/warehouses/default'),
  },
  endpoints: {
    list: list({
      summary: 'Lists warehouses by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
    }),
    get: get({
      summary: 'Returns a warehouse with its current status.',
      permission: { privilege: 'read', on: 'object' },
    }),
    create: create({
      summary: 'Creates a warehouse. It starts with the first statement.',
      description:
        'A warehouse of an engine that runs on a cluster has no backend at first: register its servers with `POST /warehouses/{warehouseName}/backends`.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject({
        ...describedBody,
        ...limitFields,
        ...clusterFields,
        engine: Type.Optional(Type.String({ description: 'The default is the embedded engine.' })),
      }),
      example: { body: { name: 'reports', memoryLimitBytes: 2147483648, autoSuspendSeconds: 60 } },
    }),
    update: update({
      summary: 'Changes the limits, the description or the credentials of a warehouse.',
      description:
        'Changed limits of memory, threads and temporary disk space take effect when no statement runs. Changed credentials of a cluster take effect with the next connection.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject({ ...describedBody, ...limitFields, ...credentialFields }),
      example: { body: { queriesMax: 8, statementTimeoutSeconds: 600 } },
    }),
    delete: remove({
      summary:
        'Deletes a warehouse that no catalog and no move uses; with `cascade=true` one whose cluster is lost for good, with its catalogs.',
      description:
        '`cascade=true` requires that no server of the cluster responds, and `drop` on `catalogs`; nothing is deleted there.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['IN_USE', 'CHANGE_IN_PROGRESS'],
      query: strictObject({ cascade: Type.Optional(Type.Boolean({ default: false })) }),
    }),
    suspend: action('object', {
      freesSpace: true,
      summary:
        'Suspends a warehouse: running statements are stopped, and new ones are answered with 503 until it is resumed.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: noFields,
      result: WarehouseRecord,
    }),
    resume: action('object', {
      freesSpace: true,
      summary: 'Resumes a suspended warehouse; the response is sent when it accepts statements.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', 'WAREHOUSE_FAILED'],
      body: noFields,
      result: WarehouseRecord,
    }),
    search: searchByName({ category: 'warehouses', record: WarehouseRecord, example: 'etl%' }),
    release_blocked_changes: action('object', {
      summary: 'Retries blocked changes: those that recovery stopped retrying because they crashed the engine.',
      description:
        'They are retried immediately in the background; a change that crashes the engine twice more is blocked again.',
      permission: { privilege: 'operate', on: 'object' },
      body: noFields,
      result: Type.Object({
        released: Type.Integer({ description: 'The number of changes that were blocked.', minimum: 0 }),
      }),
    }),
    release_quarantine: action('object', {
      summary: 'Allows the statements again that are refused because they crashed the engine process.',
      permission: { privilege: 'operate', on: 'object' },
      body: noFields,
      result: Type.Object({
        released: Type.Integer({ description: 'The number of statements that were released.', minimum: 0 }),
      }),
    }),
  },
});
