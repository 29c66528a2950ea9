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

const limitFields = {
  threads: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1024, description: 'The number of threads that all statements share.' }),
  ),
  memoryLimitBytes: Type.Optional(
    Type.Integer({ minimum: 64 * mebibyte, description: 'The memory limit of all statements together.' }),
  ),
  spillLimitBytes: Type.Optional(
    Type.Integer({ minimum: 0, description: 'The limit of temporary disk space of all statements together.' }),
  ),
  autoSuspendSeconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 31_536_000,
      description: 'The idle time after which the warehouse stops its processes; 0: never.',
    }),
  ),
  autoResume: Type.Optional(Type.Boolean({ description: 'Whether a statement resumes it after an auto-suspend.' })),
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
      permission: { privilege: 'create', on: 'parent' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject({
        ...describedBody,
        ...limitFields,
        engine: Type.Optional(Type.String({ description: 'The default is the embedded engine.' })),
      }),
      example: { body: { name: 'reports', memoryLimitBytes: 2147483648, autoSuspendSeconds: 60 } },
    }),
    update: update({
      summary: 'Changes the limits or the description of a warehouse.',
      description: 'Changed limits of memory, threads and temporary disk space take effect when no statement runs.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject({ ...describedBody, ...limitFields }),
      example: { body: { queriesMax: 8, statementTimeoutSeconds: 600 } },
    }),
    delete: remove({
      summary: 'Deletes a warehouse that no catalog uses.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['IN_USE', 'CHANGE_IN_PROGRESS'],
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
