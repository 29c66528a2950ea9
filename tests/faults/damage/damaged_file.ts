// Damages files of catalogs in the ways in which disks and operators do.
import { closeSync, copyFileSync, openSync, readSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const headerBytes = 4096;

export const fileOf = (dataDirectory: string, id: string) => join(dataDirectory, 'catalogs', `${id}.duckdb`);
export const logOf = (dataDirectory: string, id: string) => `${fileOf(dataDirectory, id)}.wal`;

export function flipBytes(path: string, offset: number, bytes = 1): void {
  rewriteBytes(path, offset, bytes, (piece) => {
    for (let i = 0; i < bytes; i++) piece[i] = (piece[i] as number) ^ 0xff;
  });
}

/** As a later release of the engine would have written it: an unknown storage version, with a valid checksum. */
export function makeUnknownVersion(path: string): void {
  rewriteBytes(path, 0, headerBytes, (header) => {
    header.writeBigUInt64LE(9999n, 12);
    header.writeBigUInt64LE(checksum(header.subarray(8)), 0);
  });
}

/** Makes the root block invalid, with a valid checksum: the engine fails with an internal error, which makes it unusable. */
export function breakRoot(path: string): void {
  const counters = [headerBytes, 2 * headerBytes].map((offset) => {
    let counter = 0n;
    rewriteBytes(path, offset, headerBytes, (header) => {
      counter = header.readBigUInt64LE(8);
    });
    return counter;
  });
  const newest = (counters[0] as bigint) > (counters[1] as bigint) ? headerBytes : 2 * headerBytes;
  rewriteBytes(path, newest, headerBytes, (header) => {
    header.writeBigUInt64LE(1n << 32n, 16);
    header.writeBigUInt64LE(checksum(header.subarray(8)), 0);
  });
}

/** DuckDB's checksum (common/checksum.cpp) of whole words. */
function checksum(bytes: Buffer): bigint {
  let sum = 5381n;
  for (let position = 0; position < bytes.length; position += 8)
    sum ^= (bytes.readBigUInt64LE(position) * 0xbf58476d1ce4e5b9n) & 0xffff_ffff_ffff_ffffn;
  return sum;
}

function rewriteBytes(path: string, offset: number, bytes: number, change: (piece: Buffer) => void): void {
  const file = openSync(path, 'r+');
  const piece = Buffer.alloc(bytes);
  readSync(file, piece, 0, bytes, offset);
  change(piece);
  writeSync(file, piece, 0, bytes, offset);
  closeSync(file);
}

export const remove = (path: string) => rmSync(path);
export const replace = (path: string, source: string) => copyFileSync(source, path);
export const truncateFile = (path: string, bytes: number) =>
  truncateSync(path, Math.max(0, statSync(path).size - bytes));

const blocksOffset = 3 * headerBytes;
const blockBytes = 65_536;

/**
 * Changes a text in the blocks of a file, with valid checksums: only an engine that compares both copies detects it. @returns how often
 * it occurred.
 */
export function changeInBlocks(path: string, from: string, to: string): number {
  let changedBlocks = 0;
  for (let offset = blocksOffset; offset + blockBytes <= statSync(path).size; offset += blockBytes)
    rewriteBytes(path, offset, blockBytes, (block) => {
      const start = block.indexOf(from);
      if (start < 0) return;
      block.write(to, start);
      block.writeBigUInt64LE(checksum(block.subarray(8)), 0);
      changedBlocks++;
    });
  return changedBlocks;
}
