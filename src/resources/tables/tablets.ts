// The handlers of `tablets`: the parts into which an engine divides a table. Read-only, because the engine places data.
import { tabletsApi } from '../../api/tables/tablets.ts';
import type { ObjectOf } from '../../catalog/object.ts';
import type { Replica } from '../../engines/port/backends.ts';
import { type Failure, objectNotFound } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { inMemory, pageOf } from '../records/list_page.ts';
import { commonFields } from '../records/object_records.ts';
import { found } from '../records/outcomes.ts';
import { type TablePath, tablePathIn, tableRef } from '../table_definitions/create_and_alter.ts';

export interface Tablet {
  readonly tabletId: string;
  readonly rowCount: number | null;
  readonly dataBytes: number | null;
  readonly replicas: readonly Replica[];
}

export async function tabletsOf(
  path: TablePath,
  context: Context,
): Promise<{ readonly table: ObjectOf<'tables'>; readonly tablets: readonly Tablet[] }> {
  const chain = await context.catalog.require(path);
  const [root, , table] = chain;
  const ofTable = await context.catalog.statistics(table.id);
  const tablets = await context.warehouses.tabletsOf(root.spec.warehouse, tableRef(chain));
  return {
    table,
    tablets: tablets.map(({ id, statistics = ofTable, replicas }) => ({
      tabletId: id,
      rowCount: statistics?.rowCount ?? null,
      dataBytes: statistics?.dataBytes ?? null,
      replicas,
    })),
  };
}

export function tabletMissing(tabletId: string): Failure {
  return objectNotFound('tablets', tabletId, `the table has no tablet ${JSON.stringify(tabletId)}`);
}

/** The state of what is available or not. */
export const availability = (isAvailable: boolean): 'available' | 'unavailable' =>
  isAvailable ? 'available' : 'unavailable';

async function records(path: TablePath, context: Context) {
  const { table, tablets } = await tabletsOf(path, context);
  return tablets.map(({ replicas, ...tablet }) => {
    const uri = uriOf(context.call.version, [...path, segment('tablets', tablet.tabletId)]);
    const availableReplicaCount = replicas.filter(({ isAvailable }) => isAvailable).length;
    const state = availability(availableReplicaCount > 0);
    return { ...tablet, replicaCount: replicas.length, availableReplicaCount, state, ...commonFields(table, uri) };
  });
}

export const tablets = implement(tabletsApi, {
  list: async ({ segments, page }, context) => {
    const { after = '' } = page;
    const rest = (await records(segments, context)).filter(({ tabletId }) => tabletId > after);
    return pageOf(page, 'tabletId', inMemory(rest), (record) => record);
  },
  get: async ({ path: { tabletId }, segments }, context) => {
    const record = (await records(tablePathIn(segments), context)).find((tablet) => tablet.tabletId === tabletId);
    if (!record) throw tabletMissing(tabletId);
    return found(record);
  },
});
