// The declaration of `servers`: records, operations and results.
import { strictObject, Type } from '../../standard/type.ts';
import { category, get, list, remove } from '../declare.ts';
import { exampleFields, recordFields, Timestamp } from '../fields.ts';
import { stateField } from '../states.ts';

const ServerRecord = Type.Object({
  serverId: Type.String(),
  state: stateField({
    available: 'it renewed its lease in time',
    unavailable: 'it does not respond: its work is taken over, but for that of warehouses whose data only it has',
  }),
  isCurrent: Type.Boolean({ description: 'Whether it is the one that processed this request.' }),
  release: Type.String({ description: 'The version of the software.' }),
  startedAt: Timestamp,
  warehouses: Type.Array(Type.String(), {
    description: 'The warehouses whose data is in its data directory. All servers reach those of clusters.',
  }),
  ...recordFields,
});

const permission = { privilege: 'operate' } as const;
const exampleId = '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d';

export const serversApi = category({
  name: 'servers',
  singular: 'server',
  title: 'Servers',
  doc: 'The servers of this API: one, or several that share a metadata store.',
  parameter: 'serverId',
  idField: 'serverId',
  record: ServerRecord,
  example: {
    serverId: exampleId,
    state: 'available',
    isCurrent: true,
    release: '0.1.0',
    startedAt: '2026-01-31T10:00:00.000Z',
    warehouses: ['default'],
    ...exampleFields(`/api/v2/servers/${exampleId}`),
  },
  endpoints: {
    list: list({
      summary: 'Lists the servers.',
      description: 'A server that was stopped or lost is listed as unavailable.',
      permission: { ...permission, on: 'parent' },
    }),
    get: get({ summary: 'Shows a server.', permission: { ...permission, on: 'object' } }),
    delete: remove({
      summary: 'Removes a server that is lost for good; with `cascade=true` with its warehouses and their contents.',
      description:
        'Its unfinished tasks fail, and its results and files have expired. Deleting its warehouses also requires `drop` on `warehouses` and `catalogs`. One that is started again after all is a new server without warehouses.',
      permission: { ...permission, on: 'object' },
      codes: ['SERVER_AVAILABLE', 'NOT_EMPTY'],
      query: strictObject({ cascade: Type.Optional(Type.Boolean({ default: false })) }),
    }),
  },
});
