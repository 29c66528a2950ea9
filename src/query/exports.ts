// Exports: the rows of a query as files in an object store, by a task. All files of a task lie in a folder of its own, with the
// manifest written last, so that a task that is run again or ends badly takes away all that it left and nothing else.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Directory } from '../access/directory.ts';
import type { Secrets } from '../access/secrets.ts';
import type { ResultColumn } from '../engines/engine.ts';
import type { ExportedFile, ExportInto } from '../engines/export.ts';
import type { HostRules } from '../outbound/host_rules.ts';
import {
  type ObjectStore,
  type ObjectStoreCredentials,
  type ObjectStorePlace,
  openObjectStore,
} from '../outbound/object_store.ts';
import { Failure } from '../standard/failure.ts';
import type { Store } from '../store/store.ts';
import { HandedBack, type TaskContext, type TaskRecord, type TaskRequest } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';
import type { Queries, QueryRequest, QueryStatistics } from './queries.ts';

export const exportTask = 'export';
export const manifestName = 'manifest.json';

export interface ExportTarget extends ObjectStorePlace {
  readonly kind: 's3';
  /** In front of the folder's name: empty, or it ends with `/`. */
  readonly prefix: string;
}

/** What a task keeps of it; the credentials are a secret beside it. */
export interface ExportRequest
  extends Pick<QueryRequest, 'sql' | 'parameters' | 'numbers' | 'catalog' | 'database' | 'warehouse'>,
    ExportInto {
  readonly to: ExportTarget;
}

export interface Manifest {
  readonly queryId: string;
  readonly columns: readonly ResultColumn[];
  readonly files: readonly (ExportedFile & { readonly link: string })[];
  readonly fileCount: number;
  readonly bytes: number;
  readonly rowCount: number;
  readonly statistics: QueryStatistics;
}

export interface ExportsOptions {
  readonly queries: Pick<Queries, 'run'>;
  readonly tasks: Pick<Tasks, 'submit' | 'notify' | 'get'>;
  readonly store: Store;
  readonly secrets: Secrets;
  readonly directory: Directory;
  /** Where exports may go. */
  readonly hosts: HostRules;
}

/** How long credentials are kept after an end that could not be cleared up, because the store did not answer. */
const clearWithinMs = 86_400_000;
const secretPrefix = 'export ';
const secretOf = (taskId: string): string => `${secretPrefix}${taskId}`;
const folderOf = ({ prefix }: ExportTarget, taskId: string): string => `${prefix}${taskId}/`;

export class Exports {
  readonly #options: ExportsOptions;

  constructor(options: ExportsOptions) {
    this.#options = options;
  }

  /** The task and its secret are there together or not at all. */
  async submit(
    described: Omit<TaskRequest, 'type' | 'request'> & { readonly request: ExportRequest },
    credentials: ObjectStoreCredentials,
  ): Promise<TaskRecord> {
    const { store, secrets } = this.#options;
    const tasks = this.#options.tasks;
    // Throws where the server may not connect to it.
    (await openObjectStore(described.request.to, credentials, this.#options.hosts)).close();
    const task = await store.transaction(async (tx) => {
      const made = await tasks.submit({ ...described, type: exportTask }, tx);
      await secrets.put(secretOf(made.taskId), JSON.stringify(credentials), tx);
      return made;
    });
    tasks.notify();
    return task;
  }

  async run(task: TaskRecord, { signal, progress }: Pick<TaskContext, 'signal' | 'progress'>): Promise<Manifest> {
    const { taskId, principal, target } = task;
    if (!this.#options.directory.isActive(principal))
      throw new Failure('FORBIDDEN', 'the submitter may no longer do this');
    const request = task.request as ExportRequest;
    const s3 = await this.#open(task);
    try {
      // An attempt that was broken off may have left some.
      if (task.attempt > 1) await s3.clear(folderOf(request.to, taskId));
      const actor = { id: principal.id, name: principal.name, action: 'tasks.run', target };
      const { format, fileBytesMax, to: _to, ...query } = request;
      const into = { format, fileBytesMax };
      const run = await this.#options.queries.run({ ...query, into }, { principal, actor, signal, taskId });
      const { files, columns, rowCount } = run.result;
      if (!files) throw new Error('the engine wrote no files');
      const bytes = files.entries.reduce((sum, file) => sum + file.bytes, 0);
      const folder = folderOf(request.to, taskId);
      const links = { bucket: request.to.bucket, folder };
      try {
        await this.#send(s3, files, folder, { bytes, signal, progress });
      } finally {
        await rm(files.directory, { recursive: true, force: true });
      }
      const { queryId, statistics } = run;
      const manifest: Manifest = {
        queryId,
        columns,
        files: files.entries.map((file) => ({ ...file, link: linkOf(links, file.name) })),
        fileCount: files.entries.length,
        bytes,
        rowCount,
        statistics,
      };
      await s3.writeSmall(`${folder}${manifestName}`, `${JSON.stringify(manifest, null, 2)}\n`, signal);
      return manifest;
    } catch (error) {
      if (!(signal.reason instanceof HandedBack)) await s3.clear(folderOf(request.to, taskId)).catch(() => undefined);
      throw error;
    } finally {
      s3.close();
    }
  }

  async #send(
    s3: ObjectStore,
    { directory, entries }: { readonly directory: string; readonly entries: readonly ExportedFile[] },
    folder: string,
    { bytes, signal, progress }: { readonly bytes: number } & Pick<TaskContext, 'signal' | 'progress'>,
  ): Promise<void> {
    let done = 0;
    for (const file of entries) {
      progress({ done, total: bytes, unit: 'bytes' });
      await s3.writeFile(`${folder}${file.name}`, join(directory, file.name), signal);
      done += file.bytes;
    }
    progress({ done, total: bytes, unit: 'bytes' });
  }

  /** A task has ended: what it left is taken away unless it succeeded, and its credentials are forgotten. Idempotent. */
  async settle(task: TaskRecord): Promise<void> {
    const { secrets } = this.#options;
    const name = secretOf(task.taskId);
    if ((await secrets.get(name)) === undefined) return;
    const isBegun = task.attempt > 0 && task.state !== 'succeeded';
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

  /** What a crash kept from being settled. */
  async sweep(): Promise<void> {
    const { store, secrets } = this.#options;
    const rows = await store.db
      .selectFrom('secrets')
      .select('name')
      .where('name', '>=', secretPrefix)
      .where('name', '<', `${secretPrefix}~`)
      .execute();
    for (const { name } of rows) {
      const task = await this.#options.tasks.get(name.slice(secretPrefix.length));
      if (!task) await secrets.remove(name);
      else if (task.endedAt !== null) await this.settle(task).catch(() => undefined);
    }
  }

  async #clear(task: TaskRecord): Promise<void> {
    const s3 = await this.#open(task);
    try {
      await s3.clear(folderOf((task.request as ExportRequest).to, task.taskId));
    } finally {
      s3.close();
    }
  }

  async #open({ taskId, request }: TaskRecord): Promise<ObjectStore> {
    const kept = await this.#options.secrets.get(secretOf(taskId));
    if (kept === undefined) throw new Failure('REMOTE_REFUSED', 'the credentials of the export are no longer kept');
    const credentials = JSON.parse(kept) as ObjectStoreCredentials;
    return openObjectStore((request as ExportRequest).to, credentials, this.#options.hosts);
  }
}

const linkOf = ({ bucket, folder }: { bucket: string; folder: string }, name: string) =>
  `s3://${bucket}/${folder}${name}`;
