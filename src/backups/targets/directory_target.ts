// Backups in a directory of the machine. A file gets its name when it is whole and on the disk.
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { Failure } from '../../standard/failure.ts';
import type { BackupTarget, TargetFile } from './backup_target.ts';

/** What its owner has to mend; that of others may pass. */
const lasting = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ENAMETOOLONG', 'ENOENT']);
const full = new Set(['ENOSPC', 'EDQUOT']);
/** Of a file that is not whole: what a crash leaves is below its backup's folder, and goes with it. */
const unfinished = '.part';

export class DirectoryTarget implements BackupTarget {
  readonly #root: string;

  /** `root`: absolute; it is there. */
  constructor(root: string) {
    this.#root = root;
  }

  async *list(prefix: string): AsyncGenerator<TargetFile> {
    const entries = await told(this.#entries(prefix));
    for (const path of entries.sort()) {
      // What goes away meanwhile is not listed.
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
    const file = await told(open(join(this.#root, path), 'r'));
    return file.createReadStream();
  }

  async readSmall(path: string, bytesMax: number, signal?: AbortSignal): Promise<Buffer> {
    const full = join(this.#root, path);
    const { size } = await told(stat(full));
    if (size > bytesMax) throw new Failure('REMOTE_REFUSED', `a file is larger than ${bytesMax} bytes`, { bytesMax });
    return told(readFile(full, { signal }));
  }

  async readEnd(path: string, size: number, bytes: number): Promise<Buffer> {
    const file = await told(open(join(this.#root, path), 'r'));
    try {
      const start = Math.max(0, size - bytes);
      const { buffer, bytesRead } = await told(file.read(Buffer.alloc(size - start), 0, size - start, start));
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }

  write(path: string, from: string, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    // By the system alone: what goes through this process waits for its requests, megabyte by megabyte.
    return this.#whole(path, async (part) => {
      await copyFile(from, part, constants.COPYFILE_EXCL);
      await sealFile(part);
    });
  }

  writeSmall(path: string, text: string, signal?: AbortSignal): Promise<void> {
    return this.#whole(path, (part) => writeFile(part, text, { mode: 0o600, flush: true, signal }));
  }

  async remove(path: string): Promise<void> {
    await told(rm(join(this.#root, path), { force: true }));
  }

  async clear(prefix: string): Promise<void> {
    await told(rm(join(this.#root, prefix), { recursive: true, force: true }));
  }

  close(): void {}

  async #whole(path: string, write: (part: string) => Promise<unknown>): Promise<void> {
    const named = join(this.#root, path);
    const part = `${named}.${randomUUID()}${unfinished}`;
    await told(mkdir(dirname(named), { recursive: true, mode: 0o700 }));
    try {
      await told(write(part));
      await told(rename(part, named));
      await told(syncDirectory(dirname(named)));
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    }
  }
}

/** On the disk for good, and its owner's alone. */
async function sealFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.chmod(0o600);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** What is in a directory is there for good only once the directory is on the disk. */
async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** What the system says names files of the machine: it is for the log. */
async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    const { code = '' } = cause as NodeJS.ErrnoException;
    if (full.has(code)) throw new Failure('STORAGE_FULL', 'the disk of the backup is full', {}, { cause });
    if (lasting.has(code))
      throw new Failure('REMOTE_REFUSED', `the directory of the backup answered ${code}`, {}, { cause });
    throw cause;
  }
}
