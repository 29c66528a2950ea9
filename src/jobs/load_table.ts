// Loads a file into a table as a task. The rows are loaded once, however often a crash restarts the task: the step is the id of the task
// or its label.
import type { Kysely } from 'kysely';
import type { Trail } from '../access/audit/audit_log.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { Actor } from '../model/principal.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import { type Loads, loadTableTask } from '../query/loads/loads.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import type { TaskKind, TaskRecord, TaskRequest } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';
import {
  deleteCredentials,
  type LoadTask,
  loadAttemptsMax,
  runLoad,
  type SecretStore,
  storeCredentials,
} from './load_run.ts';

/** `objectId`: the subject of the audit record. */
export type LoadSubmit = <T extends LoadTask>(
  task: TaskRequest<T>,
  objectId: string,
  actor: Actor,
  credentials: ObjectStoreCredentials | undefined,
) => Promise<TaskRecord<T>>;

/** Stores the task, its audit record and its credentials in one transaction. */
export function submitLoad(parts: {
  readonly tasks: Tasks;
  readonly store: Store;
  readonly secrets: SecretStore;
  readonly trail: Trail;
}): LoadSubmit {
  const { tasks, store, secrets, trail } = parts;
  return async (task, objectId, actor, credentials) => {
    const submittedTask = await store.transaction(async (tx) => {
      const submitted = await tasks.submit(task, tx);
      const { taskId } = submitted;
      await storeCredentials(secrets, taskId, credentials, tx as Kysely<Schema>);
      await trail.append(tx, actor, { outcome: '0', objectId, details: { taskId } });
      return submitted;
    });
    tasks.notify();
    return submittedTask;
  };
}

export function loadTableKind(parts: {
  readonly loads: Loads;
  readonly directory: Directory;
  readonly secrets: SecretStore;
}): TaskKind<'load_table'> {
  const deleteTaskCredentials = (task: TaskRecord<typeof loadTableTask>) => deleteCredentials(parts.secrets, task);
  return {
    type: loadTableTask,
    attemptsMax: loadAttemptsMax,
    actsAsPrincipal: true,
    run: (task, context) => runLoad(parts, task, context, (run) => parts.loads.run(task.request, run)),
    isDecided: ({ taskId, request }) => parts.loads.hasLoaded(request, taskId),
    // Only after the end is recorded, because until then the task may run again.
    ended: deleteTaskCredentials,
    removed: deleteTaskCredentials,
  };
}
