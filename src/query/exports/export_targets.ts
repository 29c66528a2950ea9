// Where the files of an export go: an object store, or the store of files, from which they are fetched by links. What a place took
// for a task can be taken away again, whoever was interrupted when.
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ResultColumn } from '../../engines/engine.ts';
import type { ExportedFile } from '../../engines/export.ts';
import type { FileStore } from '../../files/file_store.ts';
import type { ObjectStore, ObjectStoreLocation } from '../../outbound/object_store.ts';
import type { TaskRecord } from '../../tasks/task.ts';
import type { QueryStatistics } from '../statements/queries.ts';

export const manifestName = 'manifest.json';

export interface ObjectStoreTarget extends ObjectStoreLocation {
  readonly kind: 's3';
  /** In front of the folder's name: empty, or it ends with `/`. */
  readonly prefix: string;
}
export type ExportTarget = ObjectStoreTarget | { readonly kind: 'download' };

export interface Manifest {
  readonly queryId: string;
  readonly columns: readonly ResultColumn[];
  readonly files: readonly (ExportedFile & { readonly link?: string })[];
  readonly fileCount: number;
  readonly bytes: number;
  readonly rowCount: number;
  readonly statistics: QueryStatistics;
}

/** What a task keeps of a download. Links are made when somebody asks for them: they do not last. */
export interface DownloadManifest extends Manifest {
  readonly files: readonly (ExportedFile & { readonly fileId: string })[];
  readonly manifestFileId: string;
  /** Until when the files are kept. RFC 3339. */
  readonly expiresAt: string;
}

export interface ExportDestination {
  /** How many bytes there is room for; undefined: nobody knows. Throws FILE_QUOTA_EXCEEDED where it is none. */
  roomBytes(): Promise<number | undefined>;
  /** Takes away what is there of the task. Idempotent. */
  clear(): Promise<void>;
  /** The file at `path` is in its place when this returns. */
  store(path: string, file: ExportedFile, signal: AbortSignal): Promise<void>;
  /** Writes the manifest, which says that all is there. `directory`: for what is in between. Returns the task's result. */
  finish(manifest: Manifest, directory: string, signal: AbortSignal): Promise<Manifest>;
  close(): void;
}

/** A folder of the task's own. */
export class ObjectStoreFolder implements ExportDestination {
  readonly #s3: ObjectStore;
  readonly #bucket: string;
  readonly #folder: string;

  constructor(s3: ObjectStore, { bucket, prefix }: ObjectStoreTarget, taskId: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#folder = `${prefix}${taskId}/`;
  }

  async roomBytes(): Promise<undefined> {}

  clear = () => this.#s3.clear(this.#folder);

  store = (path: string, { name }: ExportedFile, signal: AbortSignal) =>
    this.#s3.writeFile(`${this.#folder}${name}`, path, signal);

  async finish(manifest: Manifest, _directory: string, signal: AbortSignal): Promise<Manifest> {
    const linked = {
      ...manifest,
      files: manifest.files.map((file) => ({ ...file, link: `s3://${this.#bucket}/${this.#folder}${file.name}` })),
    };
    await this.#s3.writeSmall(`${this.#folder}${manifestName}`, textOf(linked), signal);
    return linked;
  }

  close = () => this.#s3.close();
}

/** The store of files: they are the submitter's, and count for its quota. */
export class Downloads implements ExportDestination {
  readonly #files: FileStore;
  readonly #task: TaskRecord;
  readonly #lifetimeMs: number;
  readonly #taken = new Map<string, string>();
  #expiresAt = Number.POSITIVE_INFINITY;

  constructor(files: FileStore, task: TaskRecord, lifetimeMs: number) {
    this.#files = files;
    this.#task = task;
    this.#lifetimeMs = lifetimeMs;
  }

  roomBytes = () => this.#files.remainingBytes(this.#task.principal.id);

  clear = () => this.#files.removeForTask(this.#task.taskId);

  async store(path: string, { name, sha256 }: Pick<ExportedFile, 'name' | 'sha256'>): Promise<void> {
    const { taskId, principal } = this.#task;
    const file = await this.#files.adopt(path, {
      kind: 'export',
      owner: principal.id,
      createdBy: principal.name,
      scopes: principal.scopes,
      name,
      sha256,
      expiresInMs: this.#lifetimeMs,
      taskId,
    });
    this.#taken.set(name, file.fileId);
    this.#expiresAt = Math.min(this.#expiresAt, file.expiresAt);
  }

  async finish(manifest: Manifest, directory: string): Promise<DownloadManifest> {
    const path = join(directory, manifestName);
    const text = textOf(manifest);
    await writeFile(path, text, { mode: 0o600 });
    await this.store(path, { name: manifestName, sha256: createHash('sha256').update(text).digest('hex') });
    const idOf = (name: string) => this.#taken.get(name) as string;
    return {
      ...manifest,
      files: manifest.files.map((file) => ({ ...file, fileId: idOf(file.name) })),
      manifestFileId: idOf(manifestName),
      expiresAt: new Date(this.#expiresAt).toISOString(),
    };
  }

  close = () => {};
}

const textOf = (manifest: Manifest) => `${JSON.stringify(manifest, null, 2)}\n`;
