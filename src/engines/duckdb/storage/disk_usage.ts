// The disk space of a warehouse: the bytes of its catalog files, and the space of their file system. Measured in the background.
import { readdir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { CatalogRef } from '../../port/refs.ts';
import { catalogsDirectory } from './catalog_files.ts';

const refreshMs = 5_000;

export interface DiskSpace {
  readonly dataUsedBytes: number;
  readonly diskAvailableBytes: number;
  readonly diskTotalBytes: number;
}

export class DiskUsage {
  readonly #dataDirectory: string;
  readonly #catalogs: () => Promise<readonly CatalogRef[]>;
  #last: DiskSpace = { dataUsedBytes: 0, diskAvailableBytes: 0, diskTotalBytes: 0 };
  #refreshedAt = Number.NEGATIVE_INFINITY;

  constructor(dataDirectory: string, catalogs: () => Promise<readonly CatalogRef[]>) {
    this.#dataDirectory = dataDirectory;
    this.#catalogs = catalogs;
  }

  /** The last measurement, zeros before the first. Starts another one if it is old. */
  get last(): DiskSpace {
    void this.#refresh();
    return this.#last;
  }

  async #refresh(): Promise<void> {
    if (performance.now() - this.#refreshedAt < refreshMs) return;
    this.#refreshedAt = performance.now();
    try {
      const directory = catalogsDirectory(this.#dataDirectory);
      let dataUsedBytes = 0;
      const catalogIds = new Set((await this.#catalogs()).map(({ id }) => id));
      for (const file of await readdir(directory)) {
        if (catalogIds.has(file.split('.', 1)[0] as string)) dataUsedBytes += (await stat(join(directory, file))).size;
      }
      const { bavail, blocks, bsize } = await statfs(directory);
      this.#last = { dataUsedBytes, diskAvailableBytes: bavail * bsize, diskTotalBytes: blocks * bsize };
    } catch {
      // No directory yet, or a file was removed meanwhile: the next refresh retries.
    }
  }
}
