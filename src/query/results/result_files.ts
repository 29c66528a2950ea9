// The files of results: moved into the file store under the task that they belong to, and removed with it. They count towards the file
// quota of the task's principal.
import { type ExpressionBuilder, sql } from 'kysely';
import { orphanAgeMs } from '../../files/blobs/blob_places.ts';
import type { FileStore, NewFile } from '../../files/file_store.ts';
import { dayMs } from '../../model/durations.ts';
import type { LeaseHolder } from '../../store/leases.ts';
import type { Schema } from '../../store/schema.ts';
import { isSweptHere } from '../../store/servers.ts';
import type { Store } from '../../store/store.ts';
import type { RequireHeld, TaskRecord } from '../../tasks/task.ts';

export type ResultOwner = Pick<TaskRecord, 'taskId' | 'principal'>;

export interface ResultFilesOptions {
  readonly store: Store;
  readonly files: Pick<FileStore, 'adopt' | 'remainingBytes' | 'removeForTask'>;
  readonly holder: LeaseHolder;
  /** Files are retained as long as their task. */
  readonly settings: { readonly taskRetentionDays: number };
}

export class ResultFiles {
  readonly #options: ResultFilesOptions;
  /** Tasks whose files are being stored and that the store does not have yet. */
  readonly #unrecorded = new Set<string>();

  constructor(options: ResultFilesOptions) {
    this.#options = options;
  }

  /** How many bytes a principal may add. Throws FILE_QUOTA_EXCEEDED if none. */
  remainingBytes({ principal }: Pick<ResultOwner, 'principal'>): Promise<number> {
    return this.#options.files.remainingBytes(principal.id);
  }

  /** Moves a file into the file store. `requireHeld`: if a task runs that others may take over. */
  async store(
    path: string,
    { name, sha256 }: { readonly name: string; readonly sha256: string },
    { taskId, principal }: ResultOwner,
    requireHeld?: RequireHeld,
  ): Promise<{ readonly fileId: string; readonly expiresAt: number }> {
    const { files, settings } = this.#options;
    const file: NewFile = {
      kind: 'export',
      owner: principal.id,
      createdBy: principal.name,
      scopes: principal.scopes,
      name,
      sha256,
      expiresInMs: settings.taskRetentionDays * dayMs,
      taskId,
    };
    return files.adopt(path, file, { confirm: requireHeld });
  }

  /** Protects the files of a task from the sweep until the work ends, which records the task. */
  async whileUnrecorded<T>(taskId: string, work: () => Promise<T>): Promise<T> {
    this.#unrecorded.add(taskId);
    try {
      return await work();
    } finally {
      this.#unrecorded.delete(taskId);
    }
  }

  /** Idempotent. `requireHeld`: by a run of the task, which must not remove the files of a later one. */
  remove(taskId: string, requireHeld?: RequireHeld): Promise<void> {
    return this.#options.files.removeForTask(taskId, requireHeld);
  }

  /**
   * Removes files of tasks that failed or do not exist. Another server may be about to record the task of its files, and of those in the
   * bucket, which any server may have stored: those are left until they are old.
   */
  async sweep(now = Date.now()): Promise<void> {
    const { store, holder } = this.#options;
    const isAbandoned = sql<boolean>`(${isSweptHere(holder, now)}
      and (${!holder.isShared} or server_id is not null or created_at < ${now - orphanAgeMs}))`;
    const hasFailed = (e: ExpressionBuilder<Schema, 'files'>) =>
      e.exists(tasksOf(e).where('tasks.state', 'in', ['failed', 'cancelled']));
    const rows = await store.db
      .selectFrom('files')
      .select('task_id')
      .distinct()
      .where('task_id', 'is not', null)
      .where((e) => e.or([hasFailed(e), e.and([isAbandoned, e.not(e.exists(tasksOf(e)))])]))
      .execute();
    for (const { task_id } of rows) if (!this.#unrecorded.has(task_id as string)) await this.remove(task_id as string);
  }
}

const tasksOf = (e: ExpressionBuilder<Schema, 'files'>) =>
  e.selectFrom('tasks').select('tasks.task_id').whereRef('tasks.task_id', '=', 'files.task_id');
