// The handlers of `servers`: the processes that answer this API. They register themselves; only those that are lost can be removed.
import { serversApi } from '../../api/compute/servers.ts';
import type { RecordOf } from '../../api/handlers.ts';
import { type ObjectVersion, systemActor } from '../../model/principal.ts';
import { requireExpectedVersion } from '../../standard/expected_version.ts';
import { Failure, objectNotFound } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { objectVersion } from '../../standard/record_version.ts';
import type { ServerState } from '../../store/servers.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { inMemory, pageOf } from '../records/list_page.ts';
import { deleted, found } from '../records/outcomes.ts';
import { requireOnCollection } from '../records/permissions.ts';

type ServerRecord = RecordOf<typeof serversApi>;

/** A server that was removed and started again is another one. */
const versionOf = ({ id, startedAt }: ServerState): ObjectVersion => ({
  objectId: `${id}/${startedAt}`,
  category: 'servers',
  name: id,
  version: 1,
});

/** In the order of their ids. */
async function records({ serverStates, catalog, call }: Context): Promise<readonly ServerRecord[]> {
  const states = [...serverStates()].sort((a, b) => (a.id < b.id ? -1 : 1));
  const warehouses = await catalog.list(null, 'warehouses', { limit: 1000 });
  return states.map((server) => {
    const { id, isAvailable, isCurrent, isAlone, release, startedAt } = server;
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
      [objectVersion]: versionOf(server),
    };
  });
}

export const servers = implement(serversApi, {
  list: async ({ page }, context) => {
    const { after = '' } = page;
    const rest = (await records(context)).filter(({ serverId }) => serverId > after);
    return pageOf(page, 'serverId', inMemory(rest), (record) => record);
  },
  get: async ({ path: { serverId: id } }, context) => {
    const record = (await records(context)).find(({ serverId }) => serverId === id);
    if (!record) throw objectNotFound('servers', id, `there is no server ${JSON.stringify(id)}`);
    return found(record);
  },
  delete: async ({ path: { serverId: id }, query: { cascade = false } }, context) => {
    const { serverStates, lostServers, call } = context;
    const server = serverStates().find((one) => one.id === id);
    if (!server) return deleted(false);
    if (server.isAvailable || !lostServers)
      throw new Failure('SERVER_AVAILABLE', `the server ${id} responds`, { serverId: id });
    requireExpectedVersion(versionOf(server), call.actor, (effect) => effect());
    if (cascade)
      for (const category of ['warehouses', 'catalogs']) await requireOnCollection('drop', category, context);
    return deleted(await lostServers.remove(id, { cascade, actor: call.actor }));
  },
});
