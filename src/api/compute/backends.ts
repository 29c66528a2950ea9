// The declaration of `backends`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, get, list, remove, update } from '../declare.ts';
import { Comment, exampleFields, noFields, nullable, recordFields, Timestamp } from '../fields.ts';
import { enabledState } from '../states.ts';
import { warehousesApi } from './warehouses.ts';

const Bytes = (description: string) => Type.Integer({ description });

const BackendRecord = Type.Object({
  backendId: Type.String(),
  engine: Type.String(),
  location: Type.String({ description: '`embedded`, or the URL of a server.' }),
  comment: nullable(Comment),
  ...enabledState,
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
      codes: ['CHANGE_NOT_SUPPORTED'],
      body: strictObject({
        location: Type.Optional(Type.String({ maxLength: 2048 })),
        comment: Type.Optional(nullable(Comment)),
      }),
      example: { body: { name: 'node-4', location: 'https://node-4:8443' } },
    }),
    update: update({
      summary: 'Changes the comment of a backend.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject({ comment: Type.Optional(nullable(Comment)) }),
      example: { body: { comment: 'rack 4' } },
    }),
    delete: remove({
      summary: 'Removes a backend from a warehouse whose engine is a cluster.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['OBJECT_PROTECTED'],
    }),
    disable: action('object', {
      summary: 'Takes a backend out of service: statements that need its replicas get 503 until it is enabled.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: noFields,
      result: BackendRecord,
    }),
    enable: action('object', {
      summary: 'Puts a backend back into service.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: noFields,
      result: BackendRecord,
    }),
  },
});
