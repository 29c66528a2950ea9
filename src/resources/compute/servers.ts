// The handlers of `servers`: the processes that answer this API. Read-only, because they register themselves.
import { serversApi } from '../../api/compute/servers.ts';
import type { RecordOf } from '../../api/handlers.ts';
import { systemActor } from '../../model/principal.ts';
import { objectNotFound } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { found, pageOf } from '../records/outcomes.ts';

type ServerRecord = RecordOf<typeof serversApi>;

/** In the order of their ids. */
async function records({ serverStates, catalog, call }: Context): Promise<readonly ServerRecord[]> {
  const states = [...serverStates()].sort((a, b) => (a.id < b.id ? -1 : 1));
  const warehouses = await catalog.list(null, 'warehouses', { limit: 1000 });
  return states.map(({ id, isAvailable, isCurrent, isAlone, release, startedAt }) => {
    const at = new Date(startedAt).toISOString();
    const own = warehouses.filter(({ spec }) => spec.serverId === id || (isAlone && spec.cluster === undefined));
    return {
      serverId: id,
      state: isAvailable ? 'available' : 'unavailable',
      isCurrent,
      release,
      startedAt: at,
      warehouses: own.map(({ name }) => name),
      createdAt: at,
      createdBy: systemActor.name,
      updatedAt: at,
      updatedBy: systemActor.name,
      version: 1,
      uri: uriOf(call.version, [segment('servers', id)]),
    };
  });
}

export const servers = implement(serversApi, {
  list: async ({ page }, context) => {
    const { after = '' } = page;
    const rest = (await records(context)).filter(({ serverId }) => serverId > after);
    return pageOf(rest, page, 'serverId', (record) => record);
  },
  get: async ({ path: { serverId: id } }, context) => {
    const record = (await records(context)).find(({ serverId }) => serverId === id);
    if (!record) throw objectNotFound('servers', id, `there is no server ${JSON.stringify(id)}`);
    return found(record);
  },
});
