// The handlers of `tablets`: the parts into which an engine divides a table. Read-only, because the engine places data.
import { tabletsApi } from '../../api/tables/tablets.ts';
import type { ObjectOf } from '../../catalog/object.ts';
import { type Failure, objectNotFound } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { commonFields } from '../records/object_records.ts';
import { found, pageOf } from '../records/outcomes.ts';
import { type TablePath, tablePathIn } from '../table_definitions/create_and_alter.ts';

export interface Tablet {
  readonly tabletId: string;
  readonly rowCount: number | null;
  readonly dataBytes: number | null;
}

/** Embedded engines store a table as a single tablet, whatever `distribution.buckets` requests of a cluster. */
export async function tabletsOf(
  path: TablePath,
  context: Context,
): Promise<{ table: ObjectOf<'tables'>; warehouse: string; tablets: Tablet[] }> {
  const [root, , table] = await context.catalog.require(path);
  const statistics = await context.catalog.statistics(table.id);
  const tablet = { tabletId: '0', rowCount: statistics?.rowCount ?? null, dataBytes: statistics?.dataBytes ?? null };
  return { table, warehouse: root.spec.warehouse, tablets: [tablet] };
}

export function tabletMissing(tabletId: string): Failure {
  return objectNotFound('tablets', tabletId, `the table has no tablet ${JSON.stringify(tabletId)}`);
}

async function records(path: TablePath, context: Context) {
  const { table, warehouse, tablets } = await tabletsOf(path, context);
  const replicaCount = await context.warehouses.backendCount(warehouse);
  const availableReplicaCount = await context.warehouses.availableBackends(warehouse);
  return tablets.map((tablet) => {
    const uri = uriOf(context.call.version, [...path, segment('tablets', tablet.tabletId)]);
    const state = availableReplicaCount > 0 ? ('available' as const) : ('unavailable' as const);
    return { ...tablet, replicaCount, availableReplicaCount, state, ...commonFields(table, uri) };
  });
}

export const tablets = implement(tabletsApi, {
  list: async ({ segments, page }, context) => {
    const { after = '' } = page;
    const rest = (await records(segments, context)).filter(({ tabletId }) => tabletId > after);
    return pageOf(rest, page, 'tabletId', (record) => record);
  },
  get: async ({ path: { tabletId }, segments }, context) => {
    const record = (await records(tablePathIn(segments), context)).find((tablet) => tablet.tabletId === tabletId);
    if (!record) throw tabletMissing(tabletId);
    return found(record);
  },
});
