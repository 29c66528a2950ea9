// The record of a backend: what is stored, and what is known now.
import { type backendsApi, blockersShownMax } from '../../api/compute/backends.ts';
import type { ObjectOf } from '../../catalog/object.ts';
import type { DrainBlocker, DrainState } from '../../engines/cluster/registered_servers.ts';
import type { Decommission } from '../../model/records.ts';
import { Failure } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import type { Context } from '../records/handler_context.ts';
import { commonFields, type RenderOf } from '../records/object_records.ts';

/** For the blockers of one record. */
const drainMsMax = 5000;

/** The number of tables in all catalogs of a warehouse. */
async function tableCount(warehouse: string, context: Context): Promise<number> {
  let count = 0;
  for (const root of await context.catalog.list(null, 'catalogs', { limit: 1000 })) {
    if (root.spec.warehouse !== warehouse) continue;
    for (const database of await context.catalog.list(root.id, 'databases', { limit: 1000 }))
      count += await context.catalog.count(database.id, 'tables');
  }
  return count;
}

export const backendRecord: RenderOf<typeof backendsApi> = async ([warehouse, backend], uri, context) => {
  const { warehouses } = context;
  const { disabled, decommission, location, server, zone, comment } = backend.spec;
  const status = await warehouses.backendStatus(warehouse.name, backend.name);
  const { version: engineVersion, confinement: _confinement, availability = 'available', ...measured } = status;
  return {
    backendId: backend.name,
    engine: warehouse.spec.engine,
    location,
    zone: zone ?? null,
    shard: server?.shard ?? null,
    replica: server?.replica ?? null,
    comment: comment ?? null,
    state: stateOf(disabled, decommission),
    availability: disabled ? 'unavailable' : availability,
    decommission: decommission ? await decommissionOf(warehouse, backend, decommission, context) : null,
    engineVersion,
    ...measured,
    tabletCount: await warehouses.tabletCount(warehouse.name, backend.name, () => tableCount(warehouse.name, context)),
    ...commonFields(backend, uri),
  };
};

function stateOf(disabled: boolean, decommission: Decommission | undefined) {
  if (decommission) return decommission.phase === 'done' ? 'decommissioned' : 'decommissioning';
  return disabled ? 'disabled' : 'enabled';
}

async function decommissionOf(
  warehouse: ObjectOf<'warehouses'>,
  backend: ObjectOf<'backends'>,
  { taskId, startedAt, phase }: Decommission,
  context: Context,
) {
  const state = phase === 'done' ? ended : await drainStateOf(warehouse.name, backend.name, context);
  return {
    taskUri: uriOf(context.call.version, [segment('tasks', taskId)]),
    startedAt,
    remainingTablets: state.remainingTablets,
    runningQueries: state.runningQueries,
    blockerCount: state.blockers.length,
    blockers: await Promise.all(state.blockers.slice(0, blockersShownMax).map((blocker) => shown(blocker, context))),
  };
}

const ended: DrainState = { remainingTablets: 0, runningQueries: 0, blockers: [] };

async function drainStateOf(warehouse: string, backend: string, context: Context): Promise<DrainState> {
  const signal = AbortSignal.timeout(drainMsMax);
  try {
    const servers = await context.warehouses.serversOf(warehouse);
    return (await servers?.drainState(backend, { signal })) ?? ended;
  } catch (error) {
    // Large tables are compared for longer than a request waits.
    if (!(error instanceof Failure || signal.aborted)) throw error;
    const message = 'it is unknown now what it waits for';
    return { ...ended, blockers: [{ reason: 'unreachable', table: null, tabletId: null, message }] };
  }
}

/** Does not reveal the names of tables that the caller may not read. */
async function shown({ reason, table, tabletId, message }: DrainBlocker, context: Context) {
  const names = table && [table.catalog, table.database, table.table];
  const chain =
    table &&
    (await context.catalog.find([
      segment('catalogs', table.catalog),
      segment('databases', table.database),
      segment('tables', table.table),
    ]));
  const { authorizer } = context.access;
  const mayRead = chain ? authorizer.isVisible(context.call.principal, 'read', 'tables', chain) : false;
  return { reason, table: mayRead && names ? names.join('.') : null, tabletId, message };
}
