// A thread that reads all pages of the store through a descriptor of the main thread: opening and closing the file would release SQLite's
// lock.
import { readSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { checksumOf } from './checksum_file.ts';

export interface PagesToRead {
  readonly descriptor: number;
  readonly pageBytes: number;
  readonly pageCount: number;
}

const { descriptor, pageBytes, pageCount } = workerData as PagesToRead;
const sums = new Uint32Array(pageCount + 1);
const page = Buffer.allocUnsafe(pageBytes);
for (let number = 1; number <= pageCount; number++) {
  if (readSync(descriptor, page, 0, pageBytes, (number - 1) * pageBytes) === pageBytes) sums[number] = checksumOf(page);
}
parentPort?.postMessage(sums);
