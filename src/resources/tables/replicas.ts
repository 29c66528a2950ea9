// The handlers of `replicas`: the copies of a tablet, one on each backend that stores it. Read-only.
import type { SegmentsOf } from '../../api/handlers.ts';
import { replicasApi } from '../../api/tables/replicas.ts';
import type { tabletsApi } from '../../api/tables/tablets.ts';
import { objectNotFound } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { inMemory, pageOf } from '../records/list_page.ts';
import { commonFields } from '../records/object_records.ts';
import { found } from '../records/outcomes.ts';
import { tablePathIn } from '../table_definitions/create_and_alter.ts';
import { availability, tabletMissing, tabletsOf } from './tablets.ts';

async function records(path: SegmentsOf<typeof tabletsApi>, context: Context) {
  const { table, tablets } = await tabletsOf(tablePathIn(path), context);
  const tabletId = path[3].name;
  const tablet = tablets.find((candidate) => candidate.tabletId === tabletId);
  if (!tablet) throw tabletMissing(tabletId);
  const { rowCount, dataBytes, replicas } = tablet;
  return replicas.map(({ backend, isAvailable }) => ({
    replicaId: backend,
    backendId: backend,
    state: availability(isAvailable),
    rowCount,
    dataBytes,
    ...commonFields(table, uriOf(context.call.version, [...path, segment('replicas', backend)])),
  }));
}

export const replicas = implement(replicasApi, {
  list: async ({ segments, page }, context) => {
    const { after = '' } = page;
    const rest = (await records(segments, context)).filter(({ replicaId }) => replicaId > after);
    return pageOf(page, 'replicaId', inMemory(rest), (record) => record);
  },
  get: async ({ path: { replicaId: name }, segments: [root, database, table, tablet] }, context) => {
    const record = (await records([root, database, table, tablet], context)).find(
      (replica) => replica.replicaId === name,
    );
    if (!record) throw objectNotFound('replicas', name, `the tablet has no replica ${JSON.stringify(name)}`);
    return found(record);
  },
});
