// Exports: a task writes the rows of a query as files to an object store, or to the file store for download. Files are recorded by task,
// so that a task that runs again or fails removes exactly what it left. A run that has lost its task to another runner stores and removes
// nothing: it would be what the other run has stored.

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Directory } from '../../access/authorization/directory.ts';
import type { Secrets } from '../../access/secrets/secrets.ts';
import type { ExportedFile, ExportInto } from '../../engines/port/export.ts';
import { dayMs } from '../../model/durations.ts';
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import { type ObjectStoreCredentials, openObjectStore } from '../../outbound/object_store.ts';
import { Failure } from '../../standard/failure.ts';
import type { Store } from '../../store/store.ts';
import {
  actorOfTask,
  HandedBack,
  type RequireHeld,
  type TaskContext,
  type TaskRecord,
  type TaskRequest,
} from '../../tasks/task.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import type { ResultAccess } from '../results/result_access.ts';
import type { ResultFiles } from '../results/result_files.ts';
import type { Queries, QueryRequest } from '../statements/queries.ts';
import {
  Downloads,
  type ExportDestination,
  type ExportTarget,
  type Manifest,
  ObjectStoreFolder,
} from './export_targets.ts';

export const exportTask = 'export';

declare module '../../tasks/task.ts' {
  interface StoredRequests {
    readonly export: ExportRequest;
  }
}

/** The request of the task; credentials are stored as a secret. */
export interface ExportRequest
  extends Pick<QueryRequest, 'sql' | 'parameters' | 'numbers' | 'catalog' | 'database' | 'warehouse'>,
    Pick<ExportInto, 'format' | 'fileBytesMax'> {
  /** For exports without a query in the request: the request as a task shows it. */
  readonly asked?: object | undefined;
  readonly to: ExportTarget;
}

export interface ExportsOptions {
  readonly queries: Pick<Queries, 'run'>;
  readonly tasks: Pick<Tasks, 'submit' | 'notify' | 'get'>;
  readonly store: Store;
  readonly secrets: Secrets;
  readonly directory: Directory;
  /** Hosts that exports may be sent to. */
  readonly hosts: HostAllowlist;
  readonly resultFiles: ResultFiles;
  readonly resultAccess: ResultAccess;
}

type Submitted = Omit<TaskRequest<typeof exportTask>, 'type'>;

/** How long cleanup is retried after a failed end if the object store does not answer; then the credentials are deleted. */
const clearRetryMsMax = dayMs;
const secretPrefix = 'export ';
const secretName = (taskId: string): string => `${secretPrefix}${taskId}`;
const isDownload = ({ request }: TaskRecord<typeof exportTask>): boolean => request.to.kind === 'download';

export class Exports {
  readonly #options: ExportsOptions;

  constructor(options: ExportsOptions) {
    this.#options = options;
  }

  /** Submits the task. For an object store, the task and its secret are stored in one transaction. */
  async submit(
    described: Submitted,
    credentials: ObjectStoreCredentials | undefined,
  ): Promise<TaskRecord<typeof exportTask>> {
    const { store, secrets, tasks, resultFiles, hosts } = this.#options;
    const { to } = described.request;
    if (to.kind === 'download') {
      // Reported now: without any room the task could only fail.
      await resultFiles.remainingBytes(described);
      return tasks.submit({ ...described, type: exportTask });
    }
    // Throws if the server may not connect to this host.
    (await openObjectStore(to, credentials, hosts)).close();
    const task = await store.transaction(async (tx) => {
      const submitted = await tasks.submit({ ...described, type: exportTask }, tx);
      await secrets.put(secretName(submitted.taskId), JSON.stringify(credentials), tx);
      return submitted;
    });
    tasks.notify();
    return task;
  }

  async run(task: TaskRecord<'export'>, { signal, progress, isRetry, requireHeld }: TaskContext): Promise<Manifest> {
    const { taskId, principal } = task;
    this.#options.directory.requireActive(principal);
    const destination = await this.#open(task, requireHeld);
    try {
      // The first attempt has nothing to remove, and credentials that only allow writing could not list the folder.
      if (isRetry) await destination.clear();
      const actor = actorOfTask(task);
      const { format, fileBytesMax, to: _to, ...query } = task.request;
      const into = { format, fileBytesMax, bytesMax: await destination.roomBytes(), isDurable: true };
      // Moving a file into the file store is cheap compared with writing it; uploading it may be most of the work.
      const reporting = isDownload(task) ? { progress } : {};
      const run = await this.#options.queries.run(
        { ...query, into },
        { principal, actor, signal, taskId, ...reporting },
      );
      const { files, columns, rowCount } = run.result;
      if (!files) throw new Error('the engine wrote no files');
      if (isDownload(task)) await this.#options.resultAccess.record(taskId, run.sources, requireHeld);
      try {
        const bytes = files.entries.reduce((sum, file) => sum + file.bytes, 0);
        if (!isDownload(task)) progress({ done: 0, total: bytes, unit: 'bytes' });
        await this.#send(destination, files, { bytes, signal, progress });
        const { queryId, statistics } = run;
        const counts = { fileCount: files.entries.length, bytes, rowCount };
        const manifest: Manifest = { queryId, columns, files: files.entries, ...counts, statistics };
        return await destination.finish(manifest, files.directory, signal);
      } finally {
        await rm(files.directory, { recursive: true, force: true });
      }
    } catch (error) {
      if (!(signal.reason instanceof HandedBack)) await destination.clear().catch(() => undefined);
      throw error;
    } finally {
      destination.close();
    }
  }

  async #send(
    destination: ExportDestination,
    { directory, entries }: { readonly directory: string; readonly entries: readonly ExportedFile[] },
    { bytes, signal, progress }: { readonly bytes: number } & Pick<TaskContext, 'signal' | 'progress'>,
  ): Promise<void> {
    let done = 0;
    for (const file of entries) {
      signal.throwIfAborted();
      await destination.store(join(directory, file.name), file, signal);
      done += file.bytes;
      progress({ done, total: bytes, unit: 'bytes' });
    }
  }

  /** Called when a task has ended: removes its files unless it succeeded, and deletes its credentials. Idempotent. */
  async settle(task: TaskRecord<'export'>): Promise<void> {
    if (isDownload(task)) {
      if (task.state !== 'succeeded') await this.#options.resultFiles.remove(task.taskId);
      return;
    }
    const { secrets } = this.#options;
    const name = secretName(task.taskId);
    if ((await secrets.get(name)) === undefined) return;
    const needsClearing = task.startedAt !== null && task.state !== 'succeeded';
    if (needsClearing) {
      const isLate = task.endedAt !== null && Date.now() - Date.parse(task.endedAt) > clearRetryMsMax;
      try {
        await this.#clear(task);
      } catch (error) {
        // A permanent refusal, or failures for a day: another attempt would not help.
        if (!isLate && !(error instanceof Failure && error.code !== 'REMOTE_UNAVAILABLE')) throw error;
      }
    }
    await secrets.remove(name);
  }

  /** Called before a task is removed: removes its files and records. Idempotent. */
  async deleteFiles(task: TaskRecord<'export'>): Promise<void> {
    const { resultFiles, resultAccess } = this.#options;
    if (!isDownload(task)) return this.settle(task);
    await resultFiles.remove(task.taskId);
    await resultAccess.remove(task.taskId);
  }

  /** Settles the tasks that a crash left unsettled. */
  async sweep(): Promise<void> {
    const { store, secrets, tasks } = this.#options;
    await this.#options.resultFiles.sweep();
    const rows = await store.db
      .selectFrom('secrets')
      .select('name')
      .where('name', '>=', secretPrefix)
      .where('name', '<', `${secretPrefix}~`)
      .execute();
    for (const { name } of rows) {
      const task = await tasks.get(name.slice(secretPrefix.length));
      if (task?.type !== exportTask) await secrets.remove(name);
      else if (task.endedAt !== null) await this.settle(task).catch(() => undefined);
    }
  }

  async #clear(task: TaskRecord<'export'>): Promise<void> {
    const destination = await this.#open(task);
    try {
      await destination.clear();
    } finally {
      destination.close();
    }
  }

  /** `requireHeld`: for a run of the task. */
  async #open(task: TaskRecord<'export'>, requireHeld?: RequireHeld): Promise<ExportDestination> {
    const { taskId } = task;
    const { to } = task.request;
    const { resultFiles, secrets, hosts, store } = this.#options;
    if (to.kind === 'download') return new Downloads(resultFiles, task, requireHeld);
    const sealed = await secrets.get(secretName(taskId));
    if (sealed === undefined) throw new Failure('REMOTE_REFUSED', 'the credentials of the export were deleted');
    const credentials = JSON.parse(sealed) as ObjectStoreCredentials;
    const confirm = requireHeld && (() => requireHeld(store.db));
    return new ObjectStoreFolder(await openObjectStore(to, credentials, hosts), to, { taskId, confirm });
  }
}
