// Destinations of exports: an object store, or the file store, from which files are fetched by links. Everything that a destination
// received for a task can be removed again after an interruption.
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ExportedFile } from '../../engines/port/export.ts';
import type { ResultColumn } from '../../engines/port/statements.ts';
import type { ObjectStore, ObjectStoreLocation } from '../../outbound/object_store.ts';
import type { RequireHeld, TaskRecord } from '../../tasks/task.ts';
import type { ResultFiles } from '../results/result_files.ts';
import type { QueryStatistics } from '../statements/queries.ts';

export const manifestName = 'manifest.json';

export interface ObjectStoreTarget extends ObjectStoreLocation {
  readonly kind: 's3';
  /** Prefix of the folder name: empty, or ending with `/`. */
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

/** The stored result of a download task. Links are created on request, because they expire. */
export interface DownloadManifest extends Manifest {
  readonly files: readonly (ExportedFile & { readonly fileId: string })[];
  readonly manifestFileId: string;
  /** When the files expire. RFC 3339. */
  readonly expiresAt: string;
}

export interface ExportDestination {
  /** Available bytes; undefined if unknown. Throws FILE_QUOTA_EXCEEDED if there are none. */
  roomBytes(): Promise<number | undefined>;
  /** Removes all files of the task. Idempotent. */
  clear(): Promise<void>;
  /** Resolves when the file at `path` is stored. */
  store(path: string, file: ExportedFile, signal: AbortSignal): Promise<void>;
  /** Writes the manifest, which marks the export as complete. `directory`: for temporary files. Returns the result of the task. */
  finish(manifest: Manifest, directory: string, signal: AbortSignal): Promise<Manifest>;
  close(): void;
}

/** A folder in an object store that belongs to the task. */
export class ObjectStoreFolder implements ExportDestination {
  readonly #objectStore: ObjectStore;
  readonly #bucket: string;
  readonly #folder: string;
  readonly #confirm: (() => Promise<void>) | undefined;

  /**
   * `confirm` throws if another runner has the task. It is called before each request that stores or deletes an object, because all runs of a
   * task have the same names.
   */
  constructor(
    objectStore: ObjectStore,
    { bucket, prefix }: ObjectStoreTarget,
    { taskId, confirm }: { readonly taskId: string; readonly confirm: (() => Promise<void>) | undefined },
  ) {
    this.#objectStore = objectStore;
    this.#confirm = confirm;
    this.#bucket = bucket;
    this.#folder = `${prefix}${taskId}/`;
  }

  async roomBytes(): Promise<undefined> {}

  clear = () => this.#objectStore.clear(this.#folder, { confirm: this.#confirm });

  store = (path: string, { name }: ExportedFile, signal: AbortSignal) =>
    this.#objectStore.writeFile(`${this.#folder}${name}`, path, signal, this.#confirm);

  async finish(manifest: Manifest, _directory: string, signal: AbortSignal): Promise<Manifest> {
    const manifestWithLinks = {
      ...manifest,
      files: manifest.files.map((file) => ({ ...file, link: `s3://${this.#bucket}/${this.#folder}${file.name}` })),
    };
    await this.#confirm?.();
    await this.#objectStore.writeSmall(`${this.#folder}${manifestName}`, toText(manifestWithLinks), signal);
    return manifestWithLinks;
  }

  close = () => this.#objectStore.close();
}

/** The file store: files belong to the submitter and count towards its quota. */
export class Downloads implements ExportDestination {
  readonly #files: ResultFiles;
  readonly #task: TaskRecord;
  readonly #fileIds = new Map<string, string>();
  readonly #requireHeld: RequireHeld | undefined;
  #expiresAt = Number.POSITIVE_INFINITY;

  /** Files are recorded and removed only while `requireHeld` does not throw. */
  constructor(files: ResultFiles, task: TaskRecord, requireHeld: RequireHeld | undefined) {
    this.#files = files;
    this.#task = task;
    this.#requireHeld = requireHeld;
  }

  roomBytes = () => this.#files.remainingBytes(this.#task);

  clear = () => this.#files.remove(this.#task.taskId, this.#requireHeld);

  async store(path: string, file: Pick<ExportedFile, 'name' | 'sha256'>): Promise<void> {
    const { fileId, expiresAt } = await this.#files.store(path, file, this.#task, this.#requireHeld);
    this.#fileIds.set(file.name, fileId);
    this.#expiresAt = Math.min(this.#expiresAt, expiresAt);
  }

  async finish(manifest: Manifest, directory: string): Promise<DownloadManifest> {
    const path = join(directory, manifestName);
    const text = toText(manifest);
    await writeFile(path, text, { mode: 0o600 });
    await this.store(path, { name: manifestName, sha256: createHash('sha256').update(text).digest('hex') });
    const idOf = (name: string) => this.#fileIds.get(name) as string;
    return {
      ...manifest,
      files: manifest.files.map((file) => ({ ...file, fileId: idOf(file.name) })),
      manifestFileId: idOf(manifestName),
      expiresAt: new Date(this.#expiresAt).toISOString(),
    };
  }

  close = () => {};
}

const toText = (manifest: Manifest) => `${JSON.stringify(manifest, null, 2)}\n`;
