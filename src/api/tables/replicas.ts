// The declaration of `replicas`: records, operations, bodies and results.
import { Type } from '../../standard/type.ts';
import { category, get, list } from '../declare.ts';
import { exampleFields, nullable, recordFields } from '../fields.ts';
import { stateField } from '../states.ts';
import { tabletsApi } from './tablets.ts';

const ReplicaRecord = Type.Object({
  replicaId: Type.String(),
  backendId: Type.String({ description: 'The backend that stores it.' }),
  state: stateField({
    available: 'it can be read',
    unavailable: 'it cannot be read, for example because its backend is disabled',
  }),
  rowCount: nullable(Type.Integer()),
  dataBytes: nullable(Type.Integer()),
  ...recordFields,
});

export const replicasApi = category({
  name: 'replicas',
  singular: 'replica',
  title: 'Replicas',
  doc: 'The copies of a tablet, one on each backend that stores it.',
  parameter: 'replicaId',
  idField: 'replicaId',
  parent: tabletsApi,
  record: ReplicaRecord,
  example: {
    replicaId: 'embedded',
    backendId: 'embedded',
    state: 'available',
    rowCount: 1200,
    dataBytes: 65536,
    ...exampleFields('/api/v2/catalogs/default/databases/shop/tables/orders/tablets/0/replicas/embedded'),
  },
  endpoints: {
    list: list({
      summary: 'Lists the replicas of a tablet.',
      permission: { privilege: 'read', on: 'parent' },
    }),
    get: get({
      summary: 'Shows a replica.',
      permission: { privilege: 'read', on: 'object' },
    }),
  },
});
