// Replicas: the copies of a tablet, one on each backend that keeps it. Shown, never changed.

import { exampleFields, nullable, recordFields } from '../../api/fields.ts';
import { stateField } from '../../api/states.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { BackendSpec } from '../../model/records.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { Type } from '../../standard/type.ts';
import { backendsOf } from '../compute/backends.ts';
import { type Context, commonFields, found, get, list, listed, segment } from '../records/handler_context.ts';
import { tablePathOf } from './tables.ts';
import { tabletMissing, tabletsOf } from './tablets.ts';

const ReplicaRecord = Type.Object({
  replicaId: Type.String(),
  backendId: Type.String({ description: 'The backend that keeps it.' }),
  state: stateField({ available: 'its backend is enabled', unavailable: 'its backend is disabled' }),
  rowCount: nullable(Type.Integer()),
  dataBytes: nullable(Type.Integer()),
  ...recordFields,
});

async function records(path: PathParameters, context: Context) {
  const { table, warehouse, tablets } = await tabletsOf(path, context);
  const tablet = tablets.find((one) => one.tabletId === path.tabletId);
  if (!tablet) throw tabletMissing(path.tabletId as string);
  const [holder] = await context.catalog.require([segment('warehouses', warehouse)]);
  return (await backendsOf(holder as CatalogObject, context)).map((backend) => {
    const uri = uriOf(context.call.version, [
      ...tablePathOf(path),
      segment('tablets', tablet.tabletId),
      segment('replicas', backend.name),
    ]);
    const { disabled } = backend.spec as BackendSpec;
    const { rowCount, dataBytes } = tablet;
    return {
      replicaId: backend.name,
      backendId: backend.name,
      state: disabled ? 'unavailable' : 'available',
      rowCount,
      dataBytes,
      ...commonFields(table, uri),
    };
  });
}

export const replicas: Category<Context> = {
  name: 'replicas',
  singular: 'replica',
  title: 'Replicas',
  doc: 'The copies of a tablet, one on each backend that keeps it.',
  parameter: 'replicaId',
  idField: 'replicaId',
  parent: 'tablets',
  record: ReplicaRecord,
  example: {
    replicaId: 'embedded',
    backendId: 'embedded',
    state: 'available',
    rowCount: 1200,
    dataBytes: 65536,
    ...exampleFields('/api/v2/catalogs/default/databases/shop/tables/orders/tablets/0/replicas/embedded'),
  },
  endpoints: [
    list({
      summary: 'Lists the replicas of a tablet.',
      permission: { privilege: 'read', on: 'parent' },
      codes: ['OBJECT_NOT_FOUND'],
      handle: async ({ path, page }, context) => {
        const all = (await records(path, context)).filter(
          (one) => page.after === undefined || one.replicaId > page.after,
        );
        return listed(all.slice(0, page.limit), all.length > page.limit ? all[page.limit - 1]?.replicaId : undefined);
      },
    }),
    get({
      summary: 'Shows a replica.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) => {
        const record = (await records(path, context)).find((one) => one.replicaId === path.replicaId);
        const name = path.replicaId as string;
        if (!record)
          throw new Failure('OBJECT_NOT_FOUND', `the tablet has no replica ${JSON.stringify(name)}`, {
            category: 'replicas',
            name,
          });
        return found(record);
      },
    }),
  ],
};
