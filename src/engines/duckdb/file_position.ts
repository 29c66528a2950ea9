// What the server reads of a catalog's file without opening it in the engine: the counter of its checkpoints, and how far its
// write-ahead log holds committed transactions. The layout is DuckDB's (storage/storage_info.hpp, storage/write_ahead_log.cpp).
import { existsSync, statSync } from 'node:fs';
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { basename, relative, sep } from 'node:path';
import { type CatalogStorage, CheckpointRunning, DamagedFile, type FilePosition } from '../catalog_storage.ts';
import { catalogFile, catalogFileEnding, catalogsDirectory } from './catalog_files.ts';

const headerBytes = 4096;
const magic = Buffer.from('DUCK');
/** The two headers that checkpoints write by turns follow the main one; the higher counter is valid. */
const counterOffsets = [headerBytes + 8, 2 * headerBytes + 8];
/** The first entry of a log: its version, 2. Logs with another beginning are measured by their size alone. */
const logVersion = Buffer.from('640062650002ffff', 'hex');
/** Before each further entry: its length and its checksum, 8 bytes each. */
const entryHeadBytes = 16;
/** The entry that ends a transaction: what follows the last one is dropped when the log is read again after a crash. */
const commitEntry = Buffer.from('640064ffff', 'hex');
/** The beginning of the entry that a checkpoint puts at the end of the log that it writes into the file. */
const checkpointEntry = Buffer.from('640063', 'hex');
/** Holds that entry and the one that commits it. */
const checkpointTailBytes = 128;
const readBytes = 1 << 20;
const attemptsMax = 5;

export const logFile = (dataDirectory: string, catalogId: string) =>
  `${catalogFile(dataDirectory, { id: catalogId })}.wal`;

export const duckdbStorage: CatalogStorage = {
  exists: (dataDirectory, catalogId) =>
    existsSync(catalogFile(dataDirectory, { id: catalogId })) || existsSync(logFile(dataDirectory, catalogId)),
  logOf(dataDirectory, catalogId) {
    const stats = statSync(logFile(dataDirectory, catalogId), { throwIfNoEntry: false });
    return stats === undefined ? '' : `${stats.ino}.${stats.birthtimeMs}`;
  },
  async position(dataDirectory, catalogId, since) {
    for (let attempt = 1; ; attempt++) {
      const before = await checkpointOf(dataDirectory, catalogId);
      const from = since?.checkpoint === before ? since.logBytes : 0;
      const logBytes = await committedLogBytes(logFile(dataDirectory, catalogId), from);
      const position: FilePosition = { checkpoint: await checkpointOf(dataDirectory, catalogId), logBytes };
      // A checkpoint in between: the log that was measured may be of the one or of the other.
      if (position.checkpoint === before || attempt === attemptsMax) return position;
    }
  },
  async catalogIds(dataDirectory) {
    const names = await readdir(catalogsDirectory(dataDirectory)).catch(() => []);
    return names.flatMap((name) => (name.endsWith(catalogFileEnding) ? [basename(name, catalogFileEnding)] : []));
  },
  async filesAt(dataDirectory, catalogId, { logBytes }) {
    const main = catalogFile(dataDirectory, { id: catalogId });
    const pathOf = (file: string) => relative(dataDirectory, file).split(sep).join('/');
    if (await endsInCheckpoint(logFile(dataDirectory, catalogId), logBytes)) throw new CheckpointRunning();
    const log = logBytes === 0 ? [] : [{ path: pathOf(logFile(dataDirectory, catalogId)), bytes: logBytes }];
    return [{ path: pathOf(main), bytes: (await stat(main)).size }, ...log];
  },
};

async function checkpointOf(dataDirectory: string, catalogId: string): Promise<number> {
  const file = await opened(catalogFile(dataDirectory, { id: catalogId }));
  if (!file) throw new DamagedFile('its file is missing');
  try {
    const head = Buffer.alloc(3 * headerBytes);
    const { bytesRead } = await file.read(head, 0, head.length, 0);
    if (bytesRead < head.length) throw new DamagedFile(`its file ends after ${bytesRead} bytes, within its headers`);
    if (!head.subarray(8, 12).equals(magic)) throw new DamagedFile('its file is not a database file');
    return Math.max(...counterOffsets.map((offset) => Number(head.readBigUInt64LE(offset))));
  } finally {
    await file.close();
  }
}

/**
 * Where the last committed transaction of the log ends, or the last before the byte `until`; 0 without a log. `from`: where an earlier
 * one ended.
 */
export async function committedLogBytes(path: string, from: number, until = Number.POSITIVE_INFINITY): Promise<number> {
  const file = await opened(path);
  if (!file) return 0;
  try {
    await file.datasync();
    const { size } = await file.stat();
    const reader = new LogReader(file);
    if (size >= logVersion.length && !(await reader.at(0, logVersion.length)).equals(logVersion)) return size;
    let end = Math.min(size, Math.max(from, logVersion.length));
    let committed = end;
    while (end + entryHeadBytes <= size && end < until) {
      const length = (await reader.at(end, entryHeadBytes)).readBigUInt64LE(0);
      if (length === 0n || length > BigInt(size - end - entryHeadBytes)) break;
      const start = end + entryHeadBytes;
      end = start + Number(length);
      if (Number(length) !== commitEntry.length) continue;
      if ((await reader.at(start, commitEntry.length)).equals(commitEntry)) committed = end;
    }
    return committed;
  } finally {
    await file.close();
  }
}

/**
 * Whether a checkpoint has begun and not ended, or was broken off: what is committed since is in a log of its own until the engine
 * puts them together.
 */
async function endsInCheckpoint(path: string, committed: number): Promise<boolean> {
  const file = await opened(path);
  if (!file) return false;
  try {
    const start = Math.max(0, committed - checkpointTailBytes);
    const tail = Buffer.alloc(committed - start);
    await file.read(tail, 0, tail.length, start);
    // The last entry commits the one before it, whose length varies.
    const end = tail.length - entryHeadBytes - commitEntry.length;
    for (let at = 0; at + entryHeadBytes + checkpointEntry.length <= end; at++) {
      const begins = at + entryHeadBytes;
      const isEntry = tail.readBigUInt64LE(at) === BigInt(end - begins);
      if (isEntry && tail.subarray(begins, begins + checkpointEntry.length).equals(checkpointEntry)) return true;
    }
    return false;
  } finally {
    await file.close();
  }
}

/** Small pieces of a file, read in large ones. */
class LogReader {
  readonly #file: FileHandle;
  readonly #buffer = Buffer.alloc(readBytes);
  #from = 0;
  #bytes = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  async at(offset: number, length: number): Promise<Buffer> {
    if (offset < this.#from || offset + length > this.#from + this.#bytes) {
      this.#from = offset;
      this.#bytes = (await this.#file.read(this.#buffer, 0, readBytes, offset)).bytesRead;
    }
    const start = offset - this.#from;
    return this.#buffer.subarray(start, start + length);
  }
}

async function opened(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new DamagedFile(`its file cannot be opened (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`);
  }
}
