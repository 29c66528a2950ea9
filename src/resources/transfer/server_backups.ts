// The handlers of `server_backups`: backups of the whole server, made by a task and deleted with their files. They are restored by
// a command, not by the API.

import { serverBackupsApi } from '../../api/transfer/server_backups.ts';
import { serverBackupTask } from '../../backups/server/server_backups.ts';
import { catalogsOf, warehouseNames } from '../../catalog/warehouse_objects.ts';
import { requireCapability } from '../../engines/required_capability.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { commonFields, type RenderOf } from '../records/object_records.ts';
import { deleted } from '../records/outcomes.ts';
import { ownerName } from '../records/permissions.ts';
import { redactedTarget } from '../records/request_redaction.ts';
import { findByName } from '../records/search.ts';
import { taskOptions } from '../records/task_fields.ts';
import { acceptedTask } from '../records/task_record.ts';
import { handlersAtTop } from '../records/top_level_category.ts';
import { targetOf } from './backup_actions.ts';

const toRecord: RenderOf<typeof serverBackupsApi> = async ([object], uri, context) => {
  const { backupId, to, status, reason, takenAt, bytes, catalogs, catalogsLeftOut, release } = object.spec;
  return {
    name: object.name,
    backupId,
    place: redactedTarget(to),
    takenAt: takenAt ?? null,
    bytes: bytes ?? null,
    catalogs: catalogs ?? null,
    catalogsLeftOut: catalogsLeftOut ?? [],
    release: release ?? null,
    task: uriOf(context.call.version, [segment('tasks', backupId)]),
    state: status,
    stateReason: reason ?? null,
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

const commonHandlers = handlersAtTop('server_backups', toRecord);

/** A backup contains all catalogs, so each of their engines must be able to hold its files still. */
async function requireSnapshots({ catalog, warehouses }: Context): Promise<void> {
  if (warehouses.allHave('catalogSnapshots')) return;
  for (const warehouse of await warehouseNames(catalog))
    if ((await catalogsOf(catalog, warehouse)).length > 0)
      requireCapability(await warehouses.engineOf(warehouse), 'catalogSnapshots');
}

export const serverBackups = implement(serverBackupsApi, {
  list: commonHandlers.list,
  get: commonHandlers.get,
  create: async ({ body, ifExists }, context) => {
    const { serverBackups: backups, call } = context;
    const { principal, actor, version } = call;
    const { name, to } = body;
    const { target: destination, credentials } = targetOf(to);
    await requireSnapshots(context);
    const options = await taskOptions(body, context);
    const target = (called: string) => uriOf(version, [segment('server_backups', called)]);
    const task = (called: string) => ({ principal, guard: actor.guard, target: target(called), ...options });
    const { object, taskId } = await backups.submit({ name, to: destination, credentials, ifExists, task }, actor);
    if (taskId === undefined) return commonHandlers.createdAs(object, false, context);
    return acceptedTask(taskId, serverBackupTask, context);
  },
  delete: async ({ segments, query }, context) => {
    const [object] = (await context.catalog.find(segments)) ?? [];
    if (!object) return deleted(false);
    return deleted(await context.serverBackups.remove(object, query.keepFiles ?? false, context.call.actor));
  },
  search: findByName(serverBackupsApi, toRecord),
});
