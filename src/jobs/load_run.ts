// What the tasks of loads have in common: the credentials of an object store, kept sealed beside the task until it has ended, and
// who may still run it.
import type { Kysely } from 'kysely';
import type { Directory } from '../access/authorization/directory.ts';
import type { Secrets } from '../access/secrets/secrets.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import type { FileInput, LoadRun } from '../query/loads/load_pipeline.ts';
import { Failure } from '../standard/failure.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { RetryableError, type TaskContext, type TaskRecord } from '../tasks/task.ts';

export const loadAttemptsMax = 5;

export type SecretStore = Pick<Secrets, 'put' | 'get' | 'remove'>;

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

/** With the task, or not at all. */
export async function keepCredentials(
  secrets: SecretStore,
  taskId: string,
  credentials: ObjectStoreCredentials | undefined,
  tx: Kysely<Schema>,
): Promise<void> {
  if (credentials) await secrets.put(secretOf(taskId), JSON.stringify(credentials), tx);
}

export async function forgetCredentials(
  secrets: SecretStore,
  { taskId, request }: Pick<TaskRecord, 'taskId' | 'request'>,
): Promise<void> {
  if ((request as FileInput).source.s3) await secrets.remove(secretOf(taskId));
}

/** Throws a Failure, or a RetryableError. */
export async function runLoad<T>(
  { directory, secrets }: { readonly directory: Directory; readonly secrets: SecretStore },
  task: TaskRecord,
  { signal, progress }: Pick<TaskContext, 'signal' | 'progress'>,
  work: (run: LoadRun) => Promise<T>,
): Promise<T> {
  const { taskId, principal, target } = task;
  try {
    if (!directory.isActive(principal)) throw new Failure('FORBIDDEN', 'the submitter was disabled or deleted');
    const actor = { id: principal.id, name: principal.name, action: 'tasks.run', target };
    const sealed = (task.request as FileInput).source.s3 ? await secrets.get(secretOf(taskId)) : undefined;
    const credentials = sealed === undefined ? undefined : (JSON.parse(sealed) as ObjectStoreCredentials);
    return await work({ taskId, principal, actor, signal, progress, credentials });
  } catch (error) {
    if (error instanceof Failure || error instanceof RetryableError) throw error;
    // The rows may be in: run again, it finds that out.
    throw new RetryableError('the load was interrupted', { cause: error });
  }
}
