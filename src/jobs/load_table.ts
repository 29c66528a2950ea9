// A file into a table as a task. It happens once, however often a crash makes it run: the task's id, or its label, is its step.
// The credentials of an object store are kept sealed beside the task, until it has ended.
import type { Kysely } from 'kysely';
import type { Trail } from '../access/audit.ts';
import type { Directory } from '../access/directory.ts';
import type { Secrets } from '../access/secrets.ts';
import type { Actor } from '../model/principal.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import { type LoadRequest, type Loads, loadTableTask } from '../query/loads.ts';
import { Failure } from '../standard/failure.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { RetryableError, type TaskKind, type TaskRecord, type TaskRequest } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';

const attemptsMax = 5;

type SecretStore = Pick<Secrets, 'put' | 'get' | 'remove'>;

const secretPrefix = 'load/';
const secretOf = (taskId: string) => `${secretPrefix}${taskId}`;

/** Of tasks whose end a crash kept from being told. */
export async function sweepLoadSecrets(store: Store): Promise<void> {
  const kept = await store.db
    .selectFrom('secrets')
    .select('name')
    .where('name', '>=', secretPrefix)
    .where('name', '<', `${secretPrefix}~`)
    .execute();
  for (const { name } of kept) {
    const open = store.db
      .selectFrom('tasks')
      .select('task_id')
      .where('task_id', '=', name.slice(secretPrefix.length))
      .where('ended_at', 'is', null);
    await store.db
      .deleteFrom('secrets')
      .where('name', '=', name)
      .where((e) => e.not(e.exists(open)))
      .execute();
  }
}

export type LoadSubmit = (
  task: Omit<TaskRequest, 'type'>,
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
  return async (task, actor, credentials) => {
    const { tableId } = task.request as LoadRequest;
    const made = await store.transaction(async (tx) => {
      const submitted = await tasks.submit({ ...task, type: loadTableTask }, tx);
      const { taskId } = submitted;
      if (credentials) await secrets.put(secretOf(taskId), JSON.stringify(credentials), tx as Kysely<Schema>);
      await trail.append(tx, actor, { outcome: '0', objectId: tableId, details: { taskId } });
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
  const forget = ({ taskId, request }: Pick<TaskRecord, 'taskId' | 'request'>) =>
    (request as LoadRequest).source.s3 ? parts.secrets.remove(secretOf(taskId)) : Promise.resolve();
  return {
    type: loadTableTask,
    attemptsMax,
    actsAsPrincipal: true,
    async run(task, { signal }) {
      const { taskId, principal, target } = task;
      const request = task.request as LoadRequest;
      try {
        if (!parts.directory.isActive(principal)) throw new Failure('FORBIDDEN', 'the submitter may no longer do this');
        const actor = { id: principal.id, name: principal.name, action: 'tasks.run', target };
        const sealed = request.source.s3 ? await parts.secrets.get(secretOf(taskId)) : undefined;
        const credentials = sealed === undefined ? undefined : (JSON.parse(sealed) as ObjectStoreCredentials);
        return await parts.loads().run(request, { taskId, principal, actor, signal, credentials });
      } catch (error) {
        if (error instanceof Failure) throw error;
        // The rows may be in: run again, it finds that out.
        throw new RetryableError('the load was interrupted', { cause: error });
      }
    },
    // Not before the end is written: until then it may run again.
    ended: forget,
    removed: forget,
  };
}
