// Blobs in a directory of the data directory: a file for each key. Storing and fetching move or link files and never copy them.
import { link, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { storageFailure } from '../../store/disk_space.ts';
import { syncPath } from '../../store/sync_path.ts';
import type { BlobContent, BlobStore, ByteRange, ListedBlob, OpenBlob } from './blob_store.ts';

const readBytes = 1024 * 1024;

export class DirectoryBlobs implements BlobStore {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  async create(): Promise<void> {
    await mkdir(this.path, { recursive: true, mode: 0o700 });
  }

  /** The absolute path, also of a blob that does not exist. */
  pathOf(key: string): string {
    return join(this.path, key);
  }

  async put(key: string, content: BlobContent, { durable }: { readonly durable: boolean }): Promise<void> {
    const path = this.pathOf(key);
    try {
      if ('text' in content) await writeFile(path, content.text, { mode: 0o600 });
      else if (content.path !== path) await rename(content.path, path);
      if (durable) await Promise.all([syncPath(path), syncPath(this.path)]);
    } catch (error) {
      storageFailure(error);
    }
  }

  async open(key: string, { start, end }: ByteRange): Promise<OpenBlob | undefined> {
    const file = await open(this.pathOf(key)).catch(undefinedIfMissing);
    if (!file) return undefined;
    if ((await file.stat()).size < end) {
      await file.close();
      return undefined;
    }
    return { stream: file.createReadStream({ start, end: end - 1, highWaterMark: readBytes }) };
  }

  readText(key: string): Promise<string | undefined> {
    return readFile(this.pathOf(key), 'utf8').catch(undefinedIfMissing);
  }

  async fetch(key: string, path: string): Promise<boolean> {
    const isMissing = await link(this.pathOf(key), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return true;
    });
    return isMissing !== true;
  }

  async remove(key: string): Promise<void> {
    await rm(this.pathOf(key), { recursive: true, force: true });
  }

  async *list(): AsyncGenerator<ListedBlob> {
    for (const key of await readdir(this.path)) {
      const status = await stat(this.pathOf(key)).catch(undefinedIfMissing);
      if (status) yield { key, modifiedAtMs: status.mtimeMs };
    }
  }
}

function undefinedIfMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
