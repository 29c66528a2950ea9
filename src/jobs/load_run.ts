// Shared by the tasks of loads: object store credentials, sealed until the task has ended, and the check that the submitter may still run
// it.
import type { Kysely } from 'kysely';
import type { Directory } from '../access/authorization/directory.ts';
import type { Secrets } from '../access/secrets/secrets.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import type { LoadRun } from '../query/loads/load_pipeline.ts';
import { Failure } from '../standard/failure.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { actorOfTask, RetryableError, type TaskContext, type TaskRecord } from '../tasks/task.ts';

export const loadAttemptsMax = 5;

/** The types of tasks that load a file. */
export type LoadTask = 'load_table' | 'load_database';

export type SecretStore = Pick<Secrets, 'put' | 'get' | 'remove'>;

const secretPrefix = 'load/';
const secretName = (taskId: string) => `${secretPrefix}${taskId}`;

/** Deletes the credentials of tasks whose end was not processed because of a crash. */
export async function sweepLoadSecrets(store: Store): Promise<void> {
  const names = await store.db
    .selectFrom('secrets')
    .select('name')
    .where('name', '>=', secretPrefix)
    .where('name', '<', `${secretPrefix}~`)
    .execute();
  for (const { name } of names) {
    const runningTask = store.db
      .selectFrom('tasks')
      .select('task_id')
      .where('task_id', '=', name.slice(secretPrefix.length))
      .where('ended_at', 'is', null);
    await store.db
      .deleteFrom('secrets')
      .where('name', '=', name)
      .where((e) => e.not(e.exists(runningTask)))
      .execute();
  }
}

/** Stores the credentials in the transaction that submits the task. */
export async function storeCredentials(
  secrets: SecretStore,
  taskId: string,
  credentials: ObjectStoreCredentials | undefined,
  tx: Kysely<Schema>,
): Promise<void> {
  if (credentials) await secrets.put(secretName(taskId), JSON.stringify(credentials), tx);
}

export async function deleteCredentials(
  secrets: SecretStore,
  { taskId, request }: Pick<TaskRecord<LoadTask>, 'taskId' | 'request'>,
): Promise<void> {
  if (request.source.s3) await secrets.remove(secretName(taskId));
}

/** Runs a load for the task. Throws a Failure, or a RetryableError. */
export async function runLoad<T>(
  { directory, secrets }: { readonly directory: Directory; readonly secrets: SecretStore },
  task: TaskRecord<LoadTask>,
  { signal, progress }: Pick<TaskContext, 'signal' | 'progress'>,
  work: (run: LoadRun) => Promise<T>,
): Promise<T> {
  const { taskId, principal } = task;
  try {
    directory.requireActive(principal);
    const actor = actorOfTask(task);
    const sealed = task.request.source.s3 ? await secrets.get(secretName(taskId)) : undefined;
    const credentials = sealed === undefined ? undefined : (JSON.parse(sealed) as ObjectStoreCredentials);
    return await work({ taskId, principal, actor, signal, progress, credentials });
  } catch (error) {
    if (error instanceof Failure || error instanceof RetryableError) throw error;
    // The rows may have been written: the next attempt finds out.
    throw new RetryableError('the load was interrupted', { cause: error });
  }
}
