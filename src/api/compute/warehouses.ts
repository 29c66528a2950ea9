// The declaration of `warehouses`: records, operations, bodies and results.
import { Type } from '../../standard/type.ts';
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
  autoResume: Type.Optional(Type.Boolean({ description: 'Whether a statement resumes it after an auto-suspend.' })),
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
      'Interrupted changes that recovery no longer retries: a change or a deletion of their object, or `release_blocked_changes`, retries them.',
  }),
  blocked: Type.Array(
    Type.Object({
      category: Type.String(),
      path: nullable(
        Type.Array(Type.String(), {
          description: 'The name of the object after the names of its containers; null if the caller may not read it.',
        }),
      ),
      change: Type.String({ description: '`create`, `update`, `drop`, `undrop` or `purge`.' }),
      reason: Type.String(),
      since: Timestamp,
    }),
    {
      description: `What these changes are of, the first ${blockedShownMax}; also where no record shows the object, as while it is purged.`,
    },
  ),
  quarantinedStatements: Type.Integer({
    description:
      'Statements that are refused because they ended the process of the engine; `release_quarantine` lets them run.',
  }),
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
      summary: 'Shows a warehouse as it is now.',
      permission: { privilege: 'read', on: 'object' },
    }),
    create: create({
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
    }),
    update: update({
      summary: 'Changes the limits or the description of a warehouse.',
      description: 'Limits of memory, threads and spill take effect when no statement runs.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: Type.Object({ ...describedBody, ...limitFields }, { additionalProperties: false }),
      example: { body: { queriesMax: 8, statementTimeoutSeconds: 600 } },
    }),
    delete: remove({
      summary: 'Deletes a warehouse that no catalog lives in.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['IN_USE', 'CHANGE_IN_PROGRESS'],
    }),
    suspend: action('object', {
      freesSpace: true,
      summary: 'Stops a warehouse: running statements end, new ones get 503 until it is resumed.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: noFields,
      result: WarehouseRecord,
    }),
    resume: action('object', {
      freesSpace: true,
      summary: 'Starts a suspended warehouse; responds when it accepts statements.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', 'WAREHOUSE_FAILED'],
      body: noFields,
      result: WarehouseRecord,
    }),
    search: searchByName({ category: 'warehouses', record: WarehouseRecord, example: 'etl%' }),
    release_blocked_changes: action('object', {
      summary: 'Tries interrupted changes again that recovery has set aside because they ended the engine.',
      description: 'They are retried at once in the background; one that ends the engine twice more is blocked again.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND'],
      body: noFields,
      result: Type.Object({ released: Type.Integer({ description: 'How many changes were blocked.', minimum: 0 }) }),
    }),
    release_quarantine: action('object', {
      summary: 'Lets statements run again that are refused because they ended the process of the engine.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_NOT_FOUND'],
      body: noFields,
      result: Type.Object({
        released: Type.Integer({ description: 'How many statements were refused until now.', minimum: 0 }),
      }),
    }),
  },
});
