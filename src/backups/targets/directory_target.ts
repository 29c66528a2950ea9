// Backups in a local directory. A file gets its final name once it is complete and synced to disk.

import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, mkdir, open, readdir, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { Failure } from '../../standard/failure.ts';
import { isFullDisk } from '../../store/disk_space.ts';
import { syncPath } from '../../store/sync_path.ts';
import type { BackupTarget, TargetFile } from './backup_target.ts';

/** Errors that the operator must fix; others may be transient. */
const lasting = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ENAMETOOLONG', 'ENOENT']);
const reasons: Readonly<Record<string, string>> = {
  EEXIST: 'there is a file in its place',
  ENOTDIR: 'there is a file in the place of a directory',
  EACCES: 'the user of the server has no access',
  EPERM: 'the user of the server has no access',
  EROFS: 'the file system is read-only',
};
/** Suffix of unfinished files. After a crash they are in the folder of their backup, and are removed with it. */
const unfinished = '.part';

export class DirectoryTarget implements BackupTarget {
  readonly #root: string;

  /** `root`: an absolute path that exists. */
  constructor(root: string) {
    this.#root = root;
  }

  async *list(prefix: string): AsyncGenerator<TargetFile> {
    const entries = await mapErrors(this.#entries(prefix));
    for (const path of entries.sort()) {
      // A file that is removed meanwhile is not listed.
      const found = await stat(join(this.#root, path)).catch(() => undefined);
      if (found?.isFile()) yield { path, bytes: found.size, modifiedAtMs: found.mtimeMs };
    }
  }

  async #entries(prefix: string): Promise<string[]> {
    const found = await readdir(join(this.#root, prefix), { recursive: true }).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    });
    return found.map((path) => `${prefix}${path.split(sep).join('/')}`);
  }

  async read(path: string): Promise<Readable> {
    const file = await mapErrors(open(join(this.#root, path), 'r'));
    return file.createReadStream();
  }

  async readSmall(path: string, bytesMax: number, signal?: AbortSignal): Promise<Buffer> {
    const full = join(this.#root, path);
    const { size } = await mapErrors(stat(full));
    if (size > bytesMax) throw new Failure('REMOTE_REFUSED', `a file is larger than ${bytesMax} bytes`, { bytesMax });
    return mapErrors(readFile(full, { signal }));
  }

  async readEnd(path: string, size: number, bytes: number): Promise<Buffer> {
    const file = await mapErrors(open(join(this.#root, path), 'r'));
    try {
      const start = Math.max(0, size - bytes);
      const { buffer, bytesRead } = await mapErrors(file.read(Buffer.alloc(size - start), 0, size - start, start));
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }

  write(path: string, from: string, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    // Copied by the operating system: a copy through this process would compete with its requests.
    return this.#writeAtomically(path, async (part) => {
      await copyFile(from, part, constants.COPYFILE_EXCL);
      await sealFile(part);
    });
  }

  writeSmall(path: string, text: string, signal?: AbortSignal): Promise<void> {
    return this.#writeAtomically(path, (part) => writeFile(part, text, { mode: 0o600, flush: true, signal }));
  }

  async remove(path: string): Promise<void> {
    await mapErrors(rm(join(this.#root, path), { force: true }));
  }

  async clear(prefix: string, except?: string): Promise<void> {
    const folder = join(this.#root, prefix);
    if (except === undefined) return mapErrors(rm(folder, { recursive: true, force: true }));
    for await (const { path } of this.list(prefix)) if (path !== except) await this.remove(path);
    const removed = rmdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'ENOENT') throw error;
    });
    await mapErrors(removed);
  }

  close(): void {}

  async #writeAtomically(path: string, write: (part: string) => Promise<unknown>): Promise<void> {
    const named = join(this.#root, path);
    const part = `${named}.${randomUUID()}${unfinished}`;
    await mapErrors(mkdir(dirname(named), { recursive: true, mode: 0o700 }));
    try {
      await mapErrors(write(part));
      await mapErrors(rename(part, named));
      if (process.platform !== 'win32') await mapErrors(syncPath(dirname(named)));
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    }
  }
}

/** Syncs a file to disk and restricts it to its owner. */
async function sealFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.chmod(0o600);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** What is wrong with the directory, without its path on this machine. */
export function unusableDirectory(cause: unknown): Failure {
  const { code = '' } = cause as NodeJS.ErrnoException;
  const reason = Object.hasOwn(reasons, code) ? `${reasons[code]} (${code})` : code || 'it cannot be created';
  return new Failure('REMOTE_REFUSED', `the directory of the backup cannot be used: ${reason}`, {}, { cause });
}

/** System errors contain file names of this machine, which belong in the log only. */
async function mapErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    const { code = '' } = cause as NodeJS.ErrnoException;
    if (isFullDisk(cause)) throw new Failure('STORAGE_FULL', 'the disk of the backup is full', {}, { cause });
    if (lasting.has(code)) throw unusableDirectory(cause);
    throw cause;
  }
}
