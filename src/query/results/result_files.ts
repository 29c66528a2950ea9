// The files of results: moved into the file store under the task that they belong to, and removed with it. They count towards the file
// quota of the task's principal.
import type { FileStore } from '../../files/file_store.ts';
import { dayMs } from '../../model/durations.ts';
import type { Store } from '../../store/store.ts';
import type { TaskRecord } from '../../tasks/task.ts';

export type ResultOwner = Pick<TaskRecord, 'taskId' | 'principal'>;

export interface ResultFilesOptions {
  readonly store: Store;
  readonly files: Pick<FileStore, 'adopt' | 'remainingBytes' | 'removeForTask'>;
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

  /** Moves a file into the file store. */
  async store(
    path: string,
    { name, sha256 }: { readonly name: string; readonly sha256: string },
    { taskId, principal }: ResultOwner,
  ): Promise<{ readonly fileId: string; readonly expiresAt: number }> {
    const { files, settings } = this.#options;
    return files.adopt(path, {
      kind: 'export',
      owner: principal.id,
      createdBy: principal.name,
      scopes: principal.scopes,
      name,
      sha256,
      expiresInMs: settings.taskRetentionDays * dayMs,
      taskId,
    });
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

  /** Idempotent. */
  remove(taskId: string): Promise<void> {
    return this.#options.files.removeForTask(taskId);
  }

  /** Removes files of tasks that failed or do not exist. */
  async sweep(): Promise<void> {
    const rows = await this.#options.store.db
      .selectFrom('files')
      .leftJoin('tasks', 'tasks.task_id', 'files.task_id')
      .select('files.task_id')
      .distinct()
      .where('files.task_id', 'is not', null)
      .where((e) => e.or([e('tasks.state', 'is', null), e('tasks.state', 'in', ['failed', 'cancelled'])]))
      .execute();
    for (const { task_id } of rows) if (!this.#unrecorded.has(task_id as string)) await this.remove(task_id as string);
  }
}
