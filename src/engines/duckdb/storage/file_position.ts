// What the server reads of a catalog's file without opening it in the engine: the counter of its checkpoints, and how far its
// write-ahead log holds committed transactions. The layout is DuckDB's (storage/storage_info.hpp, storage/write_ahead_log.cpp).
import { existsSync, statSync } from 'node:fs';
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { basename, relative, sep } from 'node:path';
import { type CatalogStorage, CheckpointRunning, DamagedFile } from '../../catalog_storage.ts';
import { catalogFile, catalogFileEnding, catalogsDirectory } from './catalog_files.ts';

const headerBytes = 4096;
const magic = Buffer.from('DUCK');
/** The two headers that checkpoints write by turns follow the main one; the one with the higher counter is valid. */
const headerOffsets = [headerBytes, 2 * headerBytes];
/** The first entry of a log: its version, 2. Logs with another beginning are measured by their size alone. */
const logVersion = Buffer.from('640062650002ffff', 'hex');
/** Before each further entry: its length and its checksum, 8 bytes each. */
const entryHeadBytes = 16;
/** The entry that ends a transaction: what follows the last one is dropped when the log is read again after a crash. */
const commitEntry = Buffer.from('640064ffff', 'hex');
/**
 * The entry that a checkpoint writes before its header, with the place of the metadata that the header then names: after it, of a log
 * whose checkpoint is complete and which is not removed yet, nothing is left to be replayed. The place follows as LEB128.
 */
const checkpointEntry = Buffer.from('64006365006400', 'hex');
const checkpointEntryBytesMax = 64;
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
      const before = await headerOf(dataDirectory, catalogId);
      const from = since?.checkpoint === before.checkpoint ? since.logBytes : 0;
      const { metadata } = before;
      const logBytes = await committedLogBytes(logFile(dataDirectory, catalogId), { from, metadata });
      const { checkpoint } = await headerOf(dataDirectory, catalogId);
      // A checkpoint in between: the log that was measured may be of the one or of the other.
      if (checkpoint === before.checkpoint || attempt === attemptsMax) return { checkpoint, logBytes };
    }
  },
  async catalogIds(dataDirectory) {
    const names = await readdir(catalogsDirectory(dataDirectory)).catch(() => []);
    return names.flatMap((name) => (name.endsWith(catalogFileEnding) ? [basename(name, catalogFileEnding)] : []));
  },
  async filesAt(dataDirectory, catalogId, { logBytes }) {
    const main = catalogFile(dataDirectory, { id: catalogId });
    const pathOf = (file: string) => relative(dataDirectory, file).split(sep).join('/');
    const logPath = logFile(dataDirectory, catalogId);
    // Of a log that the file has already, the checkpoint may still be running: it removes the log at its end.
    const committed = logBytes === 0 ? await committedLogBytes(logPath) : logBytes;
    if (await endsInCheckpoint(logPath, committed)) throw new CheckpointRunning();
    const log = logBytes === 0 ? [] : [{ path: pathOf(logPath), bytes: logBytes }];
    return [{ path: pathOf(main), bytes: (await stat(main)).size }, ...log];
  },
};

interface Header {
  readonly checkpoint: number;
  /** Where the metadata of the catalog begins. */
  readonly metadata: bigint;
}

async function headerOf(dataDirectory: string, catalogId: string): Promise<Header> {
  const file = await opened(catalogFile(dataDirectory, { id: catalogId }));
  if (!file) throw new DamagedFile('its file is missing');
  try {
    const head = Buffer.alloc(3 * headerBytes);
    const { bytesRead } = await file.read(head, 0, head.length, 0);
    if (bytesRead < head.length) throw new DamagedFile(`its file ends after ${bytesRead} bytes, within its headers`);
    if (!head.subarray(8, 12).equals(magic)) throw new DamagedFile('its file is not a database file');
    // Each begins with a checksum of 8 bytes. Those of the other two change during a checkpoint; the engine compares them.
    if (head.readBigUInt64LE(0) !== checksum(head.subarray(8, headerBytes)))
      throw new DamagedFile('the block at byte 0 of its file is damaged (wrong checksum)');
    const headers = headerOffsets.map((offset) => ({
      checkpoint: Number(head.readBigUInt64LE(offset + 8)),
      metadata: head.readBigUInt64LE(offset + 16),
    }));
    return headers.reduce((newest, one) => (one.checkpoint > newest.checkpoint ? one : newest));
  } finally {
    await file.close();
  }
}

/** DuckDB's (common/checksum.cpp), of whole words of 8 bytes. */
function checksum(bytes: Buffer): bigint {
  let sum = 5381n;
  for (let at = 0; at < bytes.length; at += 8)
    sum ^= BigInt.asUintN(64, bytes.readBigUInt64LE(at) * 0xbf58476d1ce4e5b9n);
  return sum;
}

interface Measured {
  /** Where an earlier transaction ended. */
  readonly from?: number;
  /** The byte before which the transaction ends. */
  readonly until?: number | undefined;
  /** Of the file's header: a log whose checkpoint it names counts as empty, because the file has all of it. */
  readonly metadata?: bigint;
}

/** Where the last committed transaction of the log ends; 0 without a log. */
export async function committedLogBytes(path: string, measured: Measured = {}): Promise<number> {
  const { from = 0, until = Number.POSITIVE_INFINITY, metadata } = measured;
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
      const mayBeCheckpoint = metadata !== undefined && length <= checkpointEntryBytesMax;
      if (mayBeCheckpoint && placeIn(await reader.at(start, Number(length))) === metadata) return 0;
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

/** The place in the entry of a checkpoint; undefined: it is another entry. */
function placeIn(entry: Buffer): bigint | undefined {
  if (!entry.subarray(0, checkpointEntry.length).equals(checkpointEntry)) return undefined;
  let place = 0n;
  let shift = 0n;
  for (const byte of entry.subarray(checkpointEntry.length)) {
    place |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return place;
    shift += 7n;
  }
  return undefined;
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
