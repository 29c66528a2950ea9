// Tablets: the pieces into which an engine divides a table. Shown, never changed: placing data is the engine's work.

import { exampleFields, nullable, recordFields } from '../../api/fields.ts';
import { stateField } from '../../api/states.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { TableSpec } from '../../model/records.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { Type } from '../../standard/type.ts';
import { type Context, commonFields, found, get, list, listed, segment } from '../records/handler_context.ts';
import type { TableChain } from '../table_definitions/create_and_alter.ts';
import { tablePathOf } from './tables.ts';

const TabletRecord = Type.Object({
  tabletId: Type.String(),
  rowCount: nullable(Type.Integer()),
  dataBytes: nullable(Type.Integer()),
  replicaCount: Type.Integer(),
  availableReplicaCount: Type.Integer(),
  state: stateField({ available: 'a replica of it is available', unavailable: 'no replica of it is' }),
  ...recordFields,
});

export interface Tablet {
  readonly tabletId: string;
  readonly rowCount: number | null;
  readonly dataBytes: number | null;
}

/** Embedded engines keep a table in one piece, whatever `distribution.buckets` asks of a cluster. */
export async function tabletsOf(
  path: PathParameters,
  context: Context,
): Promise<{ table: CatalogObject<TableSpec>; warehouse: string; tablets: Tablet[] }> {
  const [root, , table] = (await context.catalog.require(tablePathOf(path))) as TableChain;
  const statistics = await context.catalog.statistics(table.id);
  const tablet = { tabletId: '0', rowCount: statistics?.rowCount ?? null, dataBytes: statistics?.dataBytes ?? null };
  return { table, warehouse: root.spec.warehouse, tablets: [tablet] };
}

export function tabletMissing(tabletId: string): Failure {
  return new Failure('OBJECT_NOT_FOUND', `the table has no tablet ${JSON.stringify(tabletId)}`, {
    category: 'tablets',
    name: tabletId,
  });
}

async function records(path: PathParameters, context: Context) {
  const { table, warehouse, tablets } = await tabletsOf(path, context);
  const replicaCount = await context.warehouses.backendCount(warehouse);
  const availableReplicaCount = await context.warehouses.availableBackends(warehouse);
  return tablets.map((tablet) => {
    const uri = uriOf(context.call.version, [...tablePathOf(path), segment('tablets', tablet.tabletId)]);
    const state = availableReplicaCount > 0 ? 'available' : 'unavailable';
    return { ...tablet, replicaCount, availableReplicaCount, state, ...commonFields(table, uri) };
  });
}

export const tablets: Category<Context> = {
  name: 'tablets',
  singular: 'tablet',
  title: 'Tablets',
  doc: 'The pieces into which the engine divides a table.',
  parameter: 'tabletId',
  idField: 'tabletId',
  parent: 'tables',
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
  endpoints: [
    list({
      summary: 'Lists the tablets of a table.',
      permission: { privilege: 'read', on: 'parent' },
      codes: ['OBJECT_NOT_FOUND'],
      handle: async ({ path, page }, context) => {
        const all = (await records(path, context)).filter(
          (one) => page.after === undefined || one.tabletId > page.after,
        );
        return listed(all.slice(0, page.limit), all.length > page.limit ? all[page.limit - 1]?.tabletId : undefined);
      },
    }),
    get({
      summary: 'Shows a tablet.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) => {
        const record = (await records(path, context)).find((one) => one.tabletId === path.tabletId);
        if (!record) throw tabletMissing(path.tabletId as string);
        return found(record);
      },
    }),
  ],
};
