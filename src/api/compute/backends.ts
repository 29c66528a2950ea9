// The declaration of `backends`: records, operations, bodies and results.

import { httpUrl } from '../../standard/documented_limits.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, get, list, remove, update } from '../declare.ts';
import { Comment, exampleFields, noFields, nullable, oneOf, recordFields, Timestamp } from '../fields.ts';
import { stateField } from '../states.ts';
import { taskFields } from '../task_fields.ts';
import { warehousesApi } from './warehouses.ts';

const Bytes = (description: string) => Type.Integer({ description });

/** Why a decommission cannot end yet. */
const drainBlockers = ['lastReplica', 'runningQueries', 'writtenByCluster', 'unreachable'] as const;

export const blockersShownMax = 100;

const Decommission = Type.Object(
  {
    taskUri: Type.String({ description: 'The task that carries it out, or did.' }),
    startedAt: Timestamp,
    remainingTablets: Type.Integer({
      description: 'The number of tablets of which the backend still has a replica.',
    }),
    runningQueries: Type.Integer({ description: 'The number of statements that still run on the backend.' }),
    blockerCount: Type.Integer(),
    blockers: Type.Array(
      Type.Object({
        reason: oneOf(drainBlockers, {
          description:
            '`lastReplica`: no other backend has a replica of the tablet that is available and has all rows; `runningQueries`: statements still run on it; `writtenByCluster`: the cluster definition of the other servers still contains it, and copies are written by these servers; `unreachable`: it does not respond, so its tables cannot be dropped.',
        }),
        table: nullable(
          Type.String({
            description: 'The full name; null if the blocker is not a table, or one that the caller may not read.',
          }),
        ),
        tabletId: nullable(Type.String()),
        message: Type.String(),
      }),
      { description: `What it waits for now, at most ${blockersShownMax}.` },
    ),
  },
  { title: 'Decommission' },
);

const Zone = Type.String({ minLength: 1, maxLength: 128, description: 'Where it is, such as a rack or a region.' });

const BackendRecord = Type.Object({
  backendId: Type.String(),
  engine: Type.String(),
  location: Type.String({ description: '`embedded`, or the URL of a server.' }),
  zone: nullable(Zone),
  shard: nullable(Type.Integer({ description: 'The number of its shard in the cluster; null: it is in no cluster.' })),
  replica: nullable(Type.String({ description: 'Its name among the replicas of its shard.' })),
  comment: nullable(Comment),
  state: stateField({
    enabled: 'it is in use',
    disabled: 'it is disabled',
    decommissioning: 'it receives no new work, and its tables are dropped when other backends have all of them',
    decommissioned: 'it has no tables any more and can be deleted, or enabled again',
  }),
  availability: stateField({
    available: 'it takes statements',
    catchingUp: 'it responds, but does not have all tables and rows yet',
    unavailable: 'it does not respond, or is not enabled',
  }),
  decommission: nullable(Decommission),
  alive: Type.Boolean({
    description: 'Whether its process responds; also false while the warehouse is suspended.',
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
  lastStartAt: nullable(Timestamp),
  lastHeartbeatAt: nullable(Timestamp),
  errorMessage: nullable(Type.String({ description: 'Why it is not healthy.' })),
  ...recordFields,
});

export const backendsApi = category({
  name: 'backends',
  singular: 'backend',
  title: 'Backends',
  doc: 'The processes or servers that do the work of a warehouse.',
  parameter: 'backendId',
  idField: 'backendId',
  parent: warehousesApi,
  securable: true,
  record: BackendRecord,
  example: {
    backendId: 'embedded',
    engine: 'embedded',
    location: 'embedded',
    zone: null,
    shard: null,
    replica: null,
    comment: null,
    state: 'enabled',
    availability: 'available',
    decommission: null,
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
  endpoints: {
    list: list({
      summary: 'Lists the backends of a warehouse.',
      permission: { privilege: 'read', on: 'parent' },
    }),
    get: get({
      summary: 'Shows a backend as it is now.',
      permission: { privilege: 'read', on: 'object' },
    }),
    create: create({
      summary: 'Adds a backend to a warehouse whose engine is a cluster.',
      permission: { privilege: 'operate', on: 'parent' },
      description:
        'The server is checked first: it must respond to the user of the warehouse within 10 s, have a version that the engine supports, know the cluster and be a member of it, and not be registered yet. It receives the definitions of all tables before it takes statements.',
      codes: [
        'CHANGE_NOT_SUPPORTED',
        'CHANGE_IN_PROGRESS',
        'HOST_NOT_ALLOWED',
        'BACKEND_UNSUITABLE',
        'REMOTE_UNAVAILABLE',
      ],
      body: strictObject({
        location: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 2048,
            description:
              'The URL of the HTTP interface of the server, on a host that the setting `clusterHosts` allows. Required for a cluster.',
            ...httpUrl,
          }),
        ),
        zone: Type.Optional(Zone),
        comment: Type.Optional(nullable(Comment)),
      }),
      example: { body: { name: 'node-4', location: 'https://node-4:8443', zone: 'eu-1a' } },
    }),
    update: update({
      summary: 'Changes the comment or the zone of a backend.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject({ comment: Type.Optional(nullable(Comment)), zone: Type.Optional(nullable(Zone)) }),
      example: { body: { comment: 'rack 4', zone: 'eu-1a' } },
    }),
    delete: remove({
      summary: 'Removes a backend from a warehouse whose engine is a cluster.',
      description: 'Refused while it may have rows: a backend with tables is decommissioned first.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_PROTECTED', 'BACKEND_HAS_TABLES', 'CHANGE_IN_PROGRESS'],
    }),
    disable: action('object', {
      summary: 'Takes a backend out of service: statements that need its replicas get 503 until it is enabled.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: noFields,
      result: BackendRecord,
    }),
    enable: action('object', {
      summary: 'Puts a backend back into service, as soon as it has all tables and rows that it missed.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_NOT_SUPPORTED', 'CHANGE_IN_PROGRESS'],
      body: noFields,
      result: BackendRecord,
    }),
    decommission: action('object', {
      summary:
        'Takes the server of a cluster out of service for good: its tables are dropped there when others have them.',
      description:
        'Always a task (202). From now on the backend receives no new statements. Running ones are waited for until `drainSeconds` have passed, then cancelled. Its tables are dropped when each of its tablets has another replica that is available and has all rows, which is checked again right before; `GET` of the backend shows what is still missing. If that takes longer than `timeoutSeconds`, the task fails with `DECOMMISSION_BLOCKED` and the backend is disabled.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_NOT_SUPPORTED', 'CHANGE_IN_PROGRESS'],
      body: strictObject({
        ...taskFields,
        drainSeconds: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: 86_400,
            default: 300,
            description: 'How long running statements are waited for.',
          }),
        ),
        timeoutSeconds: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: 604_800,
            default: 86_400,
            description: 'How long it waits until other backends have all tablets.',
          }),
        ),
      }),
      task: 'decommission_backend',
    }),
    cancel_decommission: action('object', {
      summary: 'Cancels a decommission and puts the backend back into service.',
      description: 'The backend takes statements again as soon as it has all tables and rows that it missed.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_NOT_SUPPORTED', 'CHANGE_IN_PROGRESS', 'TASK_NOT_CANCELLABLE'],
      body: noFields,
      result: BackendRecord,
    }),
  },
});
