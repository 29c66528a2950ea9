// The declaration of `tablets`: records, operations, bodies and results.
import { Type } from '../../standard/type.ts';
import { category, get, list } from '../declare.ts';
import { exampleFields, nullable, recordFields } from '../fields.ts';
import { stateField } from '../states.ts';
import { tablesApi } from './tables.ts';

const TabletRecord = Type.Object({
  tabletId: Type.String(),
  rowCount: nullable(Type.Integer()),
  dataBytes: nullable(Type.Integer()),
  replicaCount: Type.Integer(),
  availableReplicaCount: Type.Integer(),
  state: stateField({ available: 'at least one replica is available', unavailable: 'no replica is available' }),
  ...recordFields,
});

export const tabletsApi = category({
  name: 'tablets',
  singular: 'tablet',
  title: 'Tablets',
  doc: 'The parts into which the engine divides a table.',
  parameter: 'tabletId',
  idField: 'tabletId',
  parent: tablesApi,
  record: TabletRecord,
  example: {
    tabletId: '0',
    rowCount: 1200,
    dataBytes: 65536,
    replicaCount: 1,
    availableReplicaCount: 1,
    state: 'available',
    ...exampleFields('/api/v2/catalogs/default/databases/shop/tables/orders/tablets/0'),
  },
  endpoints: {
    list: list({
      summary: 'Lists the tablets of a table.',
      permission: { privilege: 'read', on: 'parent' },
    }),
    get: get({
      summary: 'Shows a tablet.',
      permission: { privilege: 'read', on: 'object' },
    }),
  },
});
