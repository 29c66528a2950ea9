// A file into a table as a task. It happens once, however often a crash makes it run: the task's id, or its label, is its step.
import type { Kysely } from 'kysely';
import type { Trail } from '../access/audit/audit_log.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { Actor } from '../model/principal.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import { type LoadRequest, type Loads, loadTableTask } from '../query/loads/loads.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import type { TaskKind, TaskRecord, TaskRequest } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { forgetCredentials, keepCredentials, loadAttemptsMax, runLoad, type SecretStore } from './load_run.ts';

/** `objectId`: what the line in the trail is about. */
export type LoadSubmit = (
  task: TaskRequest,
  objectId: string,
  actor: Actor,
  credentials: ObjectStoreCredentials | undefined,
) => Promise<TaskRecord>;

/** The task, its line in the trail, and what it must not show, or none of them. */
export function submitLoad(parts: {
  readonly tasks: Tasks;
  readonly store: Store;
  readonly secrets: SecretStore;
  readonly trail: Trail;
}): LoadSubmit {
  const { tasks, store, secrets, trail } = parts;
  return async (task, objectId, actor, credentials) => {
    const made = await store.transaction(async (tx) => {
      const submitted = await tasks.submit(task, tx);
      const { taskId } = submitted;
      await keepCredentials(secrets, taskId, credentials, tx as Kysely<Schema>);
      await trail.append(tx, actor, { outcome: '0', objectId, details: { taskId } });
      return submitted;
    });
    tasks.notify();
    return made;
  };
}

export function loadTableKind(parts: {
  readonly loads: () => Loads;
  readonly directory: Directory;
  readonly secrets: SecretStore;
}): TaskKind {
  const forget = (task: TaskRecord) => forgetCredentials(parts.secrets, task);
  return {
    type: loadTableTask,
    attemptsMax: loadAttemptsMax,
    actsAsPrincipal: true,
    run: (task, context) => runLoad(parts, task, context, (run) => parts.loads().run(task.request as LoadRequest, run)),
    // Not before the end is written: until then it may run again.
    ended: forget,
    removed: forget,
  };
}
