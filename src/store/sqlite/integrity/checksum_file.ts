// The checksum file beside the store: a checksum of each page as of the last commit, as a snapshot followed by one record per commit.
// SQLite has no page checksums, and its integrity check accepts most changed bytes.
import { readFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import type { Salts } from './wal_file.ts';

export const checksumFileOf = (storeFile: string): string => `${storeFile}-sums`;

const magic = Buffer.from('TABSUMS1');
/** Magic, salts, frame, number of pages. */
const snapshotHeadBytes = magic.length + 16;
/** Number of entries, salts, frame. */
const recordHeadBytes = 16;
const entryBytes = 8;
const sumBytes = 4;

/** A position in the write-ahead log: the checksums include all commits up to it. */
export interface LogPosition extends Salts {
  readonly frame: number;
}

export interface Commit extends LogPosition {
  /** Page → checksum of its content. */
  readonly pages: ReadonlyMap<number, number>;
}

export interface ChecksumFile {
  /** Indexed by page number, from 1; 0: unknown. */
  readonly sums: readonly number[];
  readonly position: LogPosition;
  /** The commits after the snapshot. */
  readonly commits: readonly Commit[];
  /** More than one torn record follows, because of a power failure or of a change in this file. */
  readonly isBroken: boolean;
  readonly bytes: number;
}

/** Never 0, which represents an unknown checksum. */
export const checksumOf = (content: Buffer): number => crc32(content) || 1;

/** Undefined if the file does not exist; 'damaged' if it differs from what was written. */
export function readChecksumFile(path: string): ChecksumFile | undefined | 'damaged' {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  if (bytes.length < snapshotHeadBytes + sumBytes || !bytes.subarray(0, magic.length).equals(magic)) return 'damaged';
  const pages = bytes.readUInt32LE(snapshotHeadBytes - 4);
  let offset = snapshotHeadBytes + pages * 4;
  if (bytes.length < offset + sumBytes || bytes.readUInt32LE(offset) !== crc32(bytes.subarray(0, offset)))
    return 'damaged';
  const sums: number[] = [0];
  for (let page = 1; page <= pages; page++) sums[page] = bytes.readUInt32LE(snapshotHeadBytes + (page - 1) * 4);
  let position = readPosition(bytes, magic.length);
  offset += sumBytes;
  const commits: Commit[] = [];
  while (offset < bytes.length) {
    const end = offset + recordHeadBytes + (offset + 4 <= bytes.length ? bytes.readUInt32LE(offset) : 0) * entryBytes;
    const isIntact = end + sumBytes <= bytes.length && bytes.readUInt32LE(end) === crc32(bytes.subarray(offset, end));
    // Records after a torn one were not durable, or are unreadable: their pages are in the log of the store, unless they differ.
    if (!isIntact) return { sums, position, commits, isBroken: end + sumBytes < bytes.length, bytes: offset };
    position = readPosition(bytes, offset + 4);
    const changed = new Map<number, number>();
    for (let entry = offset + recordHeadBytes; entry < end; entry += entryBytes)
      changed.set(bytes.readUInt32LE(entry), bytes.readUInt32LE(entry + 4));
    for (const [page, sum] of changed) setSum(sums, page, sum);
    commits.push({ ...position, pages: changed });
    offset = end + sumBytes;
  }
  return { sums, position, commits, isBroken: false, bytes: offset };
}

export function setSum(sums: number[], page: number, sum: number): void {
  while (sums.length < page) sums.push(0);
  sums[page] = sum;
}

export function encodeSnapshot(sums: readonly number[], position: LogPosition): Buffer {
  const pages = Math.max(0, sums.length - 1);
  const bytes = Buffer.alloc(snapshotHeadBytes + pages * 4 + sumBytes);
  magic.copy(bytes);
  writePosition(bytes, magic.length, position);
  bytes.writeUInt32LE(pages, snapshotHeadBytes - 4);
  for (let page = 1; page <= pages; page++) bytes.writeUInt32LE(sums[page] ?? 0, snapshotHeadBytes + (page - 1) * 4);
  const end = bytes.length - sumBytes;
  bytes.writeUInt32LE(crc32(bytes.subarray(0, end)), end);
  return bytes;
}

export function encodeRecord({ pages, ...position }: Commit): Buffer {
  const bytes = Buffer.alloc(recordHeadBytes + pages.size * entryBytes + sumBytes);
  bytes.writeUInt32LE(pages.size, 0);
  writePosition(bytes, 4, position);
  let offset = recordHeadBytes;
  for (const [page, sum] of pages) {
    bytes.writeUInt32LE(page, offset);
    bytes.writeUInt32LE(sum, offset + 4);
    offset += entryBytes;
  }
  bytes.writeUInt32LE(crc32(bytes.subarray(0, offset)), offset);
  return bytes;
}

const readPosition = (bytes: Buffer, offset: number): LogPosition => ({
  salt1: bytes.readUInt32LE(offset),
  salt2: bytes.readUInt32LE(offset + 4),
  frame: bytes.readUInt32LE(offset + 8),
});

function writePosition(bytes: Buffer, offset: number, { salt1, salt2, frame }: LogPosition): void {
  bytes.writeUInt32LE(salt1, offset);
  bytes.writeUInt32LE(salt2, offset + 4);
  bytes.writeUInt32LE(frame, offset + 8);
}
