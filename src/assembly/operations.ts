// The services of the handlers: queries, files, loads, backups, schedules, and what the parts before them offer.
import { warehousePassword } from '../access/secrets/warehouse_password.ts';
import { ObjectVersions } from '../catalog/object_versions.ts';
import { StatisticsRefresher } from '../catalog/table_statistics.ts';
import { assembleFiles } from '../files/assemble_files.ts';
import { submitNewTable } from '../jobs/load_database.ts';
import { submitLoad } from '../jobs/load_table.ts';
import { taskKinds } from '../jobs/task_kinds.ts';
import { release } from '../model/release.ts';
import { assembleQueries } from '../query/assemble_queries.ts';
import { Exports } from '../query/exports/exports.ts';
import { assembleLoads } from '../query/loads/assemble_loads.ts';
import type { ResultAccess } from '../query/results/result_access.ts';
import { LostServers } from '../resources/compute/lost_servers.ts';
import { categoriesWith } from '../resources/index.ts';
import type { Services } from '../resources/records/handler_context.ts';
import { RequestServers } from '../resources/request_servers.ts';
import { newTableDefinitions } from '../resources/table_definitions/inferred_definition.ts';
import { ScheduledCalls } from '../resources/tasks/scheduled_calls.ts';
import { assembleBackups } from '../resources/transfer/assemble_backups.ts';
import { warehouseDefaults } from '../settings/read_settings.ts';
import type { ServerState } from '../store/servers.ts';
import { Schedules } from '../tasks/schedules.ts';
import type { Tasks } from '../tasks/tasks.ts';
import type { Core } from './core.ts';
import type { Foundation } from './foundation.ts';

/** Creates the other parts from these; starts nothing. */
export function assembleServices(foundation: Foundation, core: Core) {
  const { settings, hooks, store, observe, secrets, webhooks } = foundation;
  const { changes, audit, auditReader, warehouses, callerLimits, tasks, catalog, records, access } = core;
  const parts = {
    ...foundation,
    ...core,
    trail: audit,
    directory: access.directory,
    authorizer: access.access.authorizer,
    keys: access.idempotencyKeys,
  };
  const files = assembleFiles({
    ...parts,
    mayReadResult: (taskId) => mayReadResult(tasks, queries.resultAccess, taskId),
  });
  const queries = assembleQueries({ ...parts, files });
  const exports = new Exports({ ...parts, ...queries, hosts: foundation.exportHosts });
  const loads = assembleLoads({
    ...parts,
    files,
    definitions: newTableDefinitions,
    serverOfFile: ({ serverId }) => core.servers?.urlOf(serverId),
  });
  const backups = assembleBackups({ ...parts, release });
  tasks.register(taskKinds({ ...parts, ...queries, ...loads, ...backups, exports }));
  const categories = categoriesWith(settings);
  const scheduledCalls = new ScheduledCalls(categories);
  const requestServers =
    core.servers && new RequestServers({ ...parts, ...queries, files, serverId: core.servers.serverId });
  const schedules = new Schedules({
    ...parts,
    clock: hooks.scheduleClock,
    isElsewhere: requestServers && (async (spec) => (await requestServers.ofScheduled(spec)) !== undefined),
  });
  const services: Services = {
    ...access,
    ...queries,
    ...loads,
    ...backups,
    changes,
    audit,
    auditReader,
    catalog,
    objectVersions: new ObjectVersions(store),
    records,
    tasks,
    webhooks,
    schedules,
    checkCall: scheduledCalls.check,
    warehouses,
    warehousePassword: warehousePassword(secrets),
    submitNewTable: submitNewTable({ catalog, secrets }),
    submitLoad: submitLoad({ tasks, store, trail: audit, secrets }),
    exports,
    files,
    warehouseDefaults: warehouseDefaults(settings),
    draftLimits: settings,
    lostServers: core.servers && new LostServers({ ...parts, servers: core.servers }),
    serverStates: () => core.servers?.states() ?? [thisServer(core.serverId)],
    undropSeconds: settings.undropSeconds,
  };
  const statistics = new StatisticsRefresher({ catalog, warehouses, observe });
  const { servers, reporter } = core;
  return { services, categories, scheduledCalls, statistics, callerLimits, servers, reporter, requestServers };
}

async function mayReadResult(tasks: Tasks, access: ResultAccess, taskId: string): Promise<boolean> {
  const task = await tasks.get(taskId);
  return task !== undefined && access.isAllowed(task);
}

/** When this process started, in milliseconds since 1970. */
const startedAt = Date.now() - Math.round(performance.now());

/** The only server of its store. */
const thisServer = (id: string): ServerState => ({
  id,
  isAvailable: true,
  isCurrent: true,
  isAlone: true,
  release,
  startedAt,
});
