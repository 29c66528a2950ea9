// Reads the file of SQLite's write-ahead log: its header, its frames, and which frames hold committed transactions. Independent of SQLite,
// which silently drops everything after a damaged frame. Format: https://www.sqlite.org/fileformat2.html#walformat
import { fstatSync, readSync } from 'node:fs';

const headerBytes = 32;
const frameHeadBytes = 24;
const littleEndianMagic = 0x377f0682;
const bigEndianMagic = 0x377f0683;
/** Frames per read. */
const framesPerRead = 256;

/** Identify one generation of the log: SQLite chooses new salts each time it restarts the log. */
export interface Salts {
  readonly salt1: number;
  readonly salt2: number;
}

export interface LogHeader extends Salts {
  readonly pageBytes: number;
  readonly isBigEndian: boolean;
  readonly sums: Sums;
}

export interface Frame {
  /** From 1. */
  readonly number: number;
  readonly page: number;
  /** The number of pages of the store after the transaction that this frame commits; 0 if it is not a commit frame. */
  readonly pagesAfter: number;
  readonly salts: Salts;
  readonly sums: Sums;
  /** Valid until the next frame is read. */
  readonly head: Buffer;
  readonly content: Buffer;
}

type Sums = readonly [number, number];

/** Undefined if there is no log yet, or its header is invalid. */
export function readLogHeader(file: number): LogHeader | undefined {
  const head = Buffer.allocUnsafe(headerBytes);
  if (readSync(file, head, 0, headerBytes, 0) < headerBytes) return undefined;
  const magic = head.readUInt32BE(0);
  if (magic !== littleEndianMagic && magic !== bigEndianMagic) return undefined;
  const isBigEndian = magic === bigEndianMagic;
  const sums: Sums = [head.readUInt32BE(24), head.readUInt32BE(28)];
  const [first, second] = updateChecksum([0, 0], head.subarray(0, 24), isBigEndian);
  if (first !== sums[0] || second !== sums[1]) return undefined;
  const pageBytes = head.readUInt32BE(8);
  return { pageBytes, isBigEndian, sums, salt1: head.readUInt32BE(16), salt2: head.readUInt32BE(20) };
}

/** The frames after frame `after`, as they are in the file, without verification. */
export function* framesAfter(file: number, { pageBytes }: LogHeader, after: number, last: number): Generator<Frame> {
  const frameBytes = frameHeadBytes + pageBytes;
  const buffer = Buffer.allocUnsafe(Math.max(1, Math.min(framesPerRead, last - after)) * frameBytes);
  for (let number = after + 1; number <= last; ) {
    const byteCount = Math.min(buffer.length, (last - number + 1) * frameBytes);
    const read = readSync(file, buffer, 0, byteCount, headerBytes + (number - 1) * frameBytes);
    const frames = Math.floor(read / frameBytes);
    if (frames === 0) return;
    for (let n = 0; n < frames; n++, number++) {
      const offset = n * frameBytes;
      const head = buffer.subarray(offset, offset + frameHeadBytes);
      yield {
        number,
        page: head.readUInt32BE(0),
        pagesAfter: head.readUInt32BE(4),
        salts: { salt1: head.readUInt32BE(8), salt2: head.readUInt32BE(12) },
        sums: [head.readUInt32BE(16), head.readUInt32BE(20)],
        head,
        content: buffer.subarray(offset + frameHeadBytes, offset + frameBytes),
      };
    }
  }
}

function frameCount(file: number, { pageBytes }: LogHeader): number {
  return Math.floor((fstatSync(file).size - headerBytes) / (frameHeadBytes + pageBytes));
}

export const isSameLog = (a: Salts, b: Salts): boolean => a.salt1 === b.salt1 && a.salt2 === b.salt2;

/** The last frame of the last transaction that SQLite recovers from the log; 0 if there is none. */
export function lastCommittedFrame(file: number, header: LogHeader): number {
  let sums = header.sums;
  let committed = 0;
  for (const frame of framesAfter(file, header, 0, frameCount(file, header))) {
    if (!isSameLog(frame.salts, header)) break;
    sums = updateChecksum(
      updateChecksum(sums, frame.head.subarray(0, 8), header.isBigEndian),
      frame.content,
      header.isBigEndian,
    );
    if (sums[0] !== frame.sums[0] || sums[1] !== frame.sums[1]) break;
    if (frame.pagesAfter > 0) committed = frame.number;
  }
  return committed;
}

function updateChecksum([before1, before2]: Sums, bytes: Buffer, isBigEndian: boolean): Sums {
  let first = before1;
  let second = before2;
  for (let offset = 0; offset < bytes.length; offset += 8) {
    first = (first + (isBigEndian ? bytes.readUInt32BE(offset) : bytes.readUInt32LE(offset)) + second) >>> 0;
    second = (second + (isBigEndian ? bytes.readUInt32BE(offset + 4) : bytes.readUInt32LE(offset + 4)) + first) >>> 0;
  }
  return [first, second];
}
