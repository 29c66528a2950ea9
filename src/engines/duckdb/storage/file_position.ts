// Reads the position of a catalog's file without opening it in the engine: its checkpoint counter, and the extent of the committed
// transactions in its write-ahead log. The layout is DuckDB's (storage/storage_info.hpp, storage/write_ahead_log.cpp).
import { constants, existsSync, statSync } from 'node:fs';
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { basename, relative, sep } from 'node:path';
import { kindOf } from '../../../operator/operator_file.ts';
import { type CatalogStorage, CheckpointRunning, DamagedFile } from '../../port/catalog_storage.ts';
import { catalogFile, catalogFileExtension, catalogsDirectory } from './catalog_files.ts';

const headerBytes = 4096;
const magic = Buffer.from('DUCK');
/** The two headers that checkpoints write alternately follow the main header; the one with the higher counter is valid. */
const headerOffsets = [headerBytes, 2 * headerBytes];
/** The first entry of a log: its version, 2. Logs that begin differently are measured by their size alone. */
const logVersion = Buffer.from('640062650002ffff', 'hex');
/** Each further entry is preceded by its length and its checksum, 8 bytes each. */
const entryHeadBytes = 16;
/** The entry that commits a transaction: anything after the last one is discarded when the log is replayed after a crash. */
const commitEntry = Buffer.from('640064ffff', 'hex');
/**
 * The entry that a checkpoint writes before its header, followed by the position of the metadata. If the header names the same
 * position, the checkpoint is complete: the log has not been removed yet, but nothing in it is left to replay.
 */
const checkpointEntry = Buffer.from('6400636500', 'hex');
/** The field that precedes the position in LEB128. A position of 0 is not written. */
const positionField = Buffer.from('6400', 'hex');
const checkpointEntryBytesMax = 64;
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
      const after = await headerOf(dataDirectory, catalogId);
      // After a checkpoint in between, the measured log may be the old or the new one.
      if (logBytes !== undefined && after.checkpoint === before.checkpoint)
        return { checkpoint: after.checkpoint, logBytes };
      // The file is past this position: it is safe to record.
      if (attempt === attemptsMax) return { checkpoint: before.checkpoint, logBytes: 0 };
    }
  },
  async catalogIds(dataDirectory) {
    const names = await readdir(catalogsDirectory(dataDirectory)).catch(() => []);
    return names.flatMap((name) => (name.endsWith(catalogFileExtension) ? [basename(name, catalogFileExtension)] : []));
  },
  async filesAt(dataDirectory, catalogId, { logBytes }) {
    const main = catalogFile(dataDirectory, { id: catalogId });
    const pathOf = (file: string) => relative(dataDirectory, file).split(sep).join('/');
    const logPath = logFile(dataDirectory, catalogId);
    // The checkpoint of a log that the file contains already may still be running: it removes the log at its end.
    const committed = logBytes === 0 ? await committedLogBytes(logPath) : logBytes;
    if (committed === undefined || (await hasCheckpointAt(logPath, committed))) throw new CheckpointRunning();
    const log = logBytes === 0 ? [] : [{ path: pathOf(logPath), bytes: logBytes }];
    return [{ path: pathOf(main), bytes: (await stat(main)).size }, ...log];
  },
};

interface Header {
  readonly checkpoint: number;
  /** The position of the metadata of the catalog. */
  readonly metadata: bigint;
}

async function headerOf(dataDirectory: string, catalogId: string): Promise<Header> {
  const file = await openIfExists(catalogFile(dataDirectory, { id: catalogId }));
  if (!file) throw new DamagedFile('its file is missing');
  try {
    const head = Buffer.alloc(3 * headerBytes);
    const { bytesRead } = await file.read(head, 0, head.length, 0);
    if (bytesRead < head.length) throw new DamagedFile(`its file ends after ${bytesRead} bytes, within its headers`);
    if (!head.subarray(8, 12).equals(magic)) throw new DamagedFile('its file is not a database file');
    // Each header begins with a checksum of 8 bytes. Those of the other two change during a checkpoint; the engine verifies them.
    if (head.readBigUInt64LE(0) !== checksum(head.subarray(8, headerBytes)))
      throw new DamagedFile('the block at byte 0 of its file is damaged (wrong checksum)');
    const headers = headerOffsets.map((offset) => ({
      checkpoint: Number(head.readBigUInt64LE(offset + 8)),
      metadata: head.readBigUInt64LE(offset + 16),
    }));
    return headers.reduce((newest, header) => (header.checkpoint > newest.checkpoint ? header : newest));
  } finally {
    await file.close();
  }
}

/** DuckDB's checksum (common/checksum.cpp) for a multiple of 8 bytes. */
function checksum(bytes: Buffer): bigint {
  let sum = 5381n;
  for (let offset = 0; offset < bytes.length; offset += 8)
    sum ^= BigInt.asUintN(64, bytes.readBigUInt64LE(offset) * 0xbf58476d1ce4e5b9n);
  return sum;
}

interface MeasureOptions {
  /** The end of an earlier transaction. */
  readonly from?: number;
  /** Only transactions that end before this byte count. */
  readonly until?: number | undefined;
  /**
   * The metadata position in the header of the file: a log whose checkpoint it names counts as empty, because the file contains all
   * of it.
   */
  readonly metadata?: bigint;
  /** Whether the entry of an incomplete checkpoint at the end of the log counts. The engine removes it when it opens the file. */
  readonly includesCheckpoint?: boolean;
}

/**
 * The end of the last committed transaction of the log; 0 without a log, undefined if the log was truncated meanwhile, as a checkpoint
 * does at its end.
 */
export async function committedLogBytes(path: string, options: MeasureOptions = {}): Promise<number | undefined> {
  const { from = 0, until = Number.POSITIVE_INFINITY, metadata, includesCheckpoint = false } = options;
  const file = await openIfExists(path);
  if (!file) return 0;
  try {
    await file.datasync();
    const { size } = await file.stat();
    const reader = new LogReader(file);
    if (size >= logVersion.length && !(await reader.read(0, logVersion.length)).equals(logVersion)) return size;
    let end = Math.min(size, Math.max(from, logVersion.length));
    let committed = end;
    let isCheckpoint = false;
    while (end + entryHeadBytes <= size && end < until) {
      const length = (await reader.read(end, entryHeadBytes)).readBigUInt64LE(0);
      if (length === 0n || length > BigInt(size - end - entryHeadBytes)) break;
      const start = end + entryHeadBytes;
      end = start + Number(length);
      const entry = length <= checkpointEntryBytesMax ? await reader.read(start, Number(length)) : undefined;
      if (entry?.equals(commitEntry)) {
        if (!isCheckpoint || includesCheckpoint) committed = end;
        isCheckpoint = false;
        continue;
      }
      const position = entry && metadataPosition(entry);
      isCheckpoint = position !== undefined;
      if (isCheckpoint && position === metadata) return 0;
    }
    return committed;
  } catch (error) {
    if (error instanceof TruncatedLog) return undefined;
    throw error;
  } finally {
    await file.close();
  }
}

/** Whether a checkpoint has begun and not ended, or was interrupted: later commits are in a second log until the engine merges them. */
async function hasCheckpointAt(path: string, committed: number): Promise<boolean> {
  const file = await openIfExists(path);
  if (!file) return false;
  try {
    const bytes = Buffer.alloc(entryHeadBytes + checkpointEntryBytesMax);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, committed);
    return bytes.subarray(entryHeadBytes, bytesRead).subarray(0, checkpointEntry.length).equals(checkpointEntry);
  } finally {
    await file.close();
  }
}

/** The metadata position in the entry of a checkpoint; undefined for another entry. */
function metadataPosition(entry: Buffer): bigint | undefined {
  if (!entry.subarray(0, checkpointEntry.length).equals(checkpointEntry)) return undefined;
  let position = 0n;
  const fields = entry.subarray(checkpointEntry.length);
  if (!fields.subarray(0, positionField.length).equals(positionField)) return position;
  let shift = 0n;
  for (const byte of fields.subarray(positionField.length)) {
    position |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return position;
    shift += 7n;
  }
  return undefined;
}

/** The log ends earlier than it did a moment before. */
class TruncatedLog extends Error {}

/** Buffered reader: serves small reads from large ones. Throws TruncatedLog at the end of the file. */
class LogReader {
  readonly #file: FileHandle;
  readonly #buffer = Buffer.alloc(readBytes);
  #from = 0;
  #bytes = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  async read(offset: number, length: number): Promise<Buffer> {
    if (offset < this.#from || offset + length > this.#from + this.#bytes) {
      this.#from = offset;
      this.#bytes = (await this.#file.read(this.#buffer, 0, readBytes, offset)).bytesRead;
    }
    const start = offset - this.#from;
    if (start + length > this.#bytes) throw new TruncatedLog();
    return this.#buffer.subarray(start, start + length);
  }
}

async function openIfExists(path: string): Promise<FileHandle | undefined> {
  let file: FileHandle;
  try {
    // To open a FIFO without O_NONBLOCK waits for a writer.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new DamagedFile(`its file cannot be opened (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`);
  }
  const stats = await file.stat();
  if (stats.isFile()) return file;
  await file.close();
  const part = path.endsWith('.wal') ? 'its write-ahead log' : 'its file';
  throw new DamagedFile(
    `${part} is ${kindOf(stats)}: move that away and put the file back, or restore the catalog from a backup`,
  );
}
