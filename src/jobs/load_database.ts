// Creates a table from a file as a task. The name is reserved when the task is submitted, the definition is recorded when the file has
// been read, and the table becomes visible when it is full. The same task kind also infers a definition or makes a dry run, without
// creating anything.
import type { Directory } from '../access/authorization/directory.ts';
import type { TaskResultOf } from '../api/tasks/task_types.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CreateRequest } from '../catalog/object.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { TableSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import type { NewTableLoads } from '../query/loads/new_table_loads.ts';
import type { TaskKind, TaskRequest } from '../tasks/task.ts';
import { deleteCredentials, loadAttemptsMax, runLoad, type SecretStore, storeCredentials } from './load_run.ts';
import { storeStatistics } from './new_table_statistics.ts';

export const loadDatabaseTask = 'load_database';

export type NewTableSubmit = (
  creation: CreateRequest<TableSpec>,
  task: Omit<TaskRequest<typeof loadDatabaseTask>, 'type'>,
  credentials: ObjectStoreCredentials | undefined,
) => Promise<string>;

/** Reserves the name and stores the task and its credentials in one transaction. Returns the id of the task. */
export function submitNewTable(parts: { readonly catalog: Catalog; readonly secrets: SecretStore }): NewTableSubmit {
  const { catalog, secrets } = parts;
  return async (creation, { target, request, principal, priority, after, notify }, credentials) => {
    const { taskId } = await catalog.createLater<TableSpec>({
      ...creation,
      ifExists: 'fail',
      task: {
        type: loadDatabaseTask,
        target,
        request,
        principal,
        priority,
        after,
        notify,
        inTransaction: (tx, taskId) => storeCredentials(secrets, taskId, credentials, tx),
      },
    });
    if (taskId === undefined) throw new Error('createLater returned no task although ifExists is "fail"');
    return taskId;
  };
}

export interface LoadDatabaseParts {
  readonly catalog: Catalog;
  readonly newTableLoads: NewTableLoads;
  readonly warehouses: Warehouses;
  readonly directory: Directory;
  readonly secrets: SecretStore;
  readonly observe: Observe;
}

export function loadDatabaseKind(parts: LoadDatabaseParts): TaskKind<'load_database'> {
  return {
    type: loadDatabaseTask,
    attemptsMax: loadAttemptsMax,
    actsAsPrincipal: true,
    run: (task, context) =>
      runLoad<TaskResultOf<typeof loadDatabaseTask>>(parts, task, context, (run) => {
        const loads = parts.newTableLoads;
        const request = task.request;
        if (request.inferOnly) return loads.infer(request, run);
        if (request.dryRun) return loads.dryRun(request, run);
        if (request.repeatOf !== undefined) return loads.repeatResult(request, run);
        return loads.create(request, run, async (work) => {
          const object = await parts.catalog.runCreation(run.taskId, { signal: run.signal, ...work });
          await storeStatistics(parts, object);
          return object;
        });
      }),
    // Only after the end is recorded, because until then the task may run again. The name becomes available at once.
    async ended(task) {
      await deleteCredentials(parts.secrets, task);
      if (task.state !== 'succeeded') await parts.catalog.settleTask(task.taskId);
    },
    removed: (task) => deleteCredentials(parts.secrets, task),
  };
}
