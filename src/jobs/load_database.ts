// A table made from a file, as a task: its name is taken when the task is submitted, its definition is written down when the file was
// looked at, and it is seen when it is full. The same kind of task looks at a file only, or tries a load, and makes nothing.
import type { Directory } from '../access/authorization/directory.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CreateRequest } from '../catalog/object.ts';
import type { Warehouses } from '../engines/warehouses.ts';
import type { TableSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import type { NewTableLoads, NewTableRequest } from '../query/loads/new_table_loads.ts';
import type { TaskKind, TaskRequest } from '../tasks/task.ts';
import { forgetCredentials, keepCredentials, loadAttemptsMax, runLoad, type SecretStore } from './load_run.ts';
import { storeStatistics } from './new_table_statistics.ts';

export const loadDatabaseTask = 'load_database';

export type NewTableSubmit = (
  creation: CreateRequest<TableSpec>,
  task: Omit<TaskRequest, 'type'> & { readonly request: NewTableRequest },
  credentials: ObjectStoreCredentials | undefined,
) => Promise<string>;

/** The name, the task and what it must not show, or none of them; the id of the task. */
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
        inTransaction: (tx, made) => keepCredentials(secrets, made, credentials, tx),
      },
    });
    if (taskId === undefined) throw new Error('a table that must not be there was there');
    return taskId;
  };
}

export interface LoadDatabaseParts {
  readonly catalog: () => Catalog;
  readonly loads: () => NewTableLoads;
  readonly warehouses: Warehouses;
  readonly directory: Directory;
  readonly secrets: SecretStore;
  readonly observe: Observe;
}

export function loadDatabaseKind(parts: LoadDatabaseParts): TaskKind {
  return {
    type: loadDatabaseTask,
    attemptsMax: loadAttemptsMax,
    actsAsPrincipal: true,
    run: (task, context) =>
      runLoad(parts, task, context, (run) => {
        const loads = parts.loads();
        const request = task.request as NewTableRequest;
        if (request.inferOnly) return loads.infer(request, run);
        if (request.dryRun) return loads.dryRun(request, run);
        if (request.repeatOf !== undefined) return loads.repeatResult(request, run);
        return loads.create(request, run, async (work) => {
          const object = await parts.catalog().runCreation(run.taskId, { signal: run.signal, ...work });
          await storeStatistics(parts, object);
          return object;
        });
      }),
    // Not before the end is written: until then it may run again. The name is free at once.
    async ended(task) {
      await forgetCredentials(parts.secrets, task);
      if (task.state !== 'succeeded') await parts.catalog().settleTask(task.taskId);
    },
    removed: (task) => forgetCredentials(parts.secrets, task),
  };
}
