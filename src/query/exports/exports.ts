// Exports: the rows of a query as files, by a task: in an object store, or to be fetched from here. What a task left is known by the
// task, so that one that is run again or ends badly takes away all that it left and nothing else.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Directory } from '../../access/authorization/directory.ts';
import type { Secrets } from '../../access/secrets/secrets.ts';
import type { ExportedFile, ExportInto } from '../../engines/export.ts';
import type { FileStore } from '../../files/file_store.ts';
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import { type ObjectStoreCredentials, openObjectStore } from '../../outbound/object_store.ts';
import { Failure } from '../../standard/failure.ts';
import type { Store } from '../../store/store.ts';
import { HandedBack, type TaskContext, type TaskRecord, type TaskRequest } from '../../tasks/task.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import type { ResultAccess } from '../results/result_access.ts';
import type { Queries, QueryRequest } from '../statements/queries.ts';
import {
  Downloads,
  type ExportDestination,
  type ExportTarget,
  type Manifest,
  ObjectStoreFolder,
} from './export_targets.ts';

export const exportTask = 'export';

/** What a task keeps of it; the credentials are a secret beside it. */
export interface ExportRequest
  extends Pick<QueryRequest, 'sql' | 'parameters' | 'numbers' | 'catalog' | 'database' | 'warehouse'>,
    Pick<ExportInto, 'format' | 'fileBytesMax'> {
  /** Where the caller did not say the query: what instead. It is what the task shows. */
  readonly asked?: object | undefined;
  readonly to: ExportTarget;
}

export interface ExportsOptions {
  readonly queries: Pick<Queries, 'run'>;
  readonly tasks: Pick<Tasks, 'submit' | 'notify' | 'get'>;
  readonly store: Store;
  readonly secrets: Secrets;
  readonly directory: Directory;
  /** Where exports may go. */
  readonly hosts: HostAllowlist;
  readonly files: FileStore;
  readonly access: ResultAccess;
  /** Files are kept as long as their task. */
  readonly settings: { readonly taskRetentionDays: number };
}

type Submitted = Omit<TaskRequest, 'type' | 'request'> & { readonly request: ExportRequest };

/** How long credentials are kept after an end that could not be cleared up, because the store did not answer. */
const clearWithinMs = 86_400_000;
const dayMs = 86_400_000;
const secretPrefix = 'export ';
const secretOf = (taskId: string): string => `${secretPrefix}${taskId}`;
const isDownload = ({ request }: TaskRecord): boolean => (request as ExportRequest).to.kind === 'download';

export class Exports {
  readonly #options: ExportsOptions;

  constructor(options: ExportsOptions) {
    this.#options = options;
  }

  /** To an object store: the task and its secret are there together or not at all. */
  async submit(described: Submitted, credentials: ObjectStoreCredentials | undefined): Promise<TaskRecord> {
    const { store, secrets, tasks, files, hosts } = this.#options;
    const { to } = described.request;
    if (to.kind === 'download') {
      // It could only fail.
      await files.remainingBytes(described.principal.id);
      return tasks.submit({ ...described, type: exportTask });
    }
    // Throws where the server may not connect to it.
    (await openObjectStore(to, credentials, hosts)).close();
    const task = await store.transaction(async (tx) => {
      const made = await tasks.submit({ ...described, type: exportTask }, tx);
      await secrets.put(secretOf(made.taskId), JSON.stringify(credentials), tx);
      return made;
    });
    tasks.notify();
    return task;
  }

  async run(task: TaskRecord, { signal, progress, isAgain }: TaskContext): Promise<Manifest> {
    const { taskId, principal, target } = task;
    if (!this.#options.directory.isActive(principal))
      throw new Failure('FORBIDDEN', 'the submitter may no longer do this');
    const place = await this.#open(task);
    try {
      // The first time there is nothing, and who may only write to an object store could not look.
      if (isAgain) await place.clear();
      const actor = { id: principal.id, name: principal.name, action: 'tasks.run', target };
      const { format, fileBytesMax, to: _to, ...query } = task.request as ExportRequest;
      const into = { format, fileBytesMax, bytesMax: await place.roomBytes() };
      // To take a file over is nothing beside making it; to send it to an object store may be most of the work.
      const told = isDownload(task) ? { progress } : {};
      const run = await this.#options.queries.run({ ...query, into }, { principal, actor, signal, taskId, ...told });
      const { files, columns, rowCount } = run.result;
      if (!files) throw new Error('the engine wrote no files');
      if (isDownload(task)) await this.#options.access.record(taskId, run.sources);
      try {
        const bytes = files.entries.reduce((sum, file) => sum + file.bytes, 0);
        if (!isDownload(task)) progress({ done: 0, total: bytes, unit: 'bytes' });
        await this.#send(place, files, { bytes, signal, progress });
        const { queryId, statistics } = run;
        const counts = { fileCount: files.entries.length, bytes, rowCount };
        const manifest: Manifest = { queryId, columns, files: files.entries, ...counts, statistics };
        return await place.finish(manifest, files.directory, signal);
      } finally {
        await rm(files.directory, { recursive: true, force: true });
      }
    } catch (error) {
      if (!(signal.reason instanceof HandedBack)) await place.clear().catch(() => undefined);
      throw error;
    } finally {
      place.close();
    }
  }

  async #send(
    place: ExportDestination,
    { directory, entries }: { readonly directory: string; readonly entries: readonly ExportedFile[] },
    { bytes, signal, progress }: { readonly bytes: number } & Pick<TaskContext, 'signal' | 'progress'>,
  ): Promise<void> {
    let done = 0;
    for (const file of entries) {
      signal.throwIfAborted();
      await place.store(join(directory, file.name), file, signal);
      done += file.bytes;
      progress({ done, total: bytes, unit: 'bytes' });
    }
  }

  /** A task has ended: what it left is taken away unless it succeeded, and its credentials are forgotten. Idempotent. */
  async settle(task: TaskRecord): Promise<void> {
    if (isDownload(task)) {
      if (task.state !== 'succeeded') await this.#options.files.removeForTask(task.taskId);
      return;
    }
    const { secrets } = this.#options;
    const name = secretOf(task.taskId);
    if ((await secrets.get(name)) === undefined) return;
    const isBegun = task.startedAt !== null && task.state !== 'succeeded';
    if (isBegun) {
      const isLate = task.endedAt !== null && Date.now() - Date.parse(task.endedAt) > clearWithinMs;
      try {
        await this.#clear(task);
      } catch (error) {
        // Refused for good, or for a day: to try again would not help.
        if (!isLate && !(error instanceof Failure && error.code !== 'REMOTE_UNAVAILABLE')) throw error;
      }
    }
    await secrets.remove(name);
  }

  /** A task is about to be removed: what is kept here goes with it. Idempotent. */
  async forget(task: TaskRecord): Promise<void> {
    const { files, access } = this.#options;
    if (!isDownload(task)) return this.settle(task);
    await files.removeForTask(task.taskId);
    await access.forget(task.taskId);
  }

  /** What a crash kept from being settled. */
  async sweep(): Promise<void> {
    const { store, secrets, tasks } = this.#options;
    await this.#sweepFiles();
    const rows = await store.db
      .selectFrom('secrets')
      .select('name')
      .where('name', '>=', secretPrefix)
      .where('name', '<', `${secretPrefix}~`)
      .execute();
    for (const { name } of rows) {
      const task = await tasks.get(name.slice(secretPrefix.length));
      if (!task) await secrets.remove(name);
      else if (task.endedAt !== null) await this.settle(task).catch(() => undefined);
    }
  }

  /** Files of tasks that did not succeed, or are gone. */
  async #sweepFiles(): Promise<void> {
    const { store, files } = this.#options;
    const rows = await store.db
      .selectFrom('files')
      .leftJoin('tasks', 'tasks.task_id', 'files.task_id')
      .select('files.task_id')
      .distinct()
      .where('files.task_id', 'is not', null)
      .where((e) => e.or([e('tasks.state', 'is', null), e('tasks.state', 'in', ['failed', 'cancelled'])]))
      .execute();
    for (const { task_id } of rows) await files.removeForTask(task_id as string);
  }

  async #clear(task: TaskRecord): Promise<void> {
    const place = await this.#open(task);
    try {
      await place.clear();
    } finally {
      place.close();
    }
  }

  async #open(task: TaskRecord): Promise<ExportDestination> {
    const { to } = task.request as ExportRequest;
    const { files, settings, secrets, hosts } = this.#options;
    if (to.kind === 'download') return new Downloads(files, task, settings.taskRetentionDays * dayMs);
    const kept = await secrets.get(secretOf(task.taskId));
    if (kept === undefined) throw new Failure('REMOTE_REFUSED', 'the credentials of the export are no longer kept');
    const credentials = JSON.parse(kept) as ObjectStoreCredentials;
    return new ObjectStoreFolder(await openObjectStore(to, credentials, hosts), to, task.taskId);
  }
}
