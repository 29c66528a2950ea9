// Ids: UUIDs of version 7, so that they sort by the time they were made. Two ids of one process never come out of order,
// even within one millisecond or when the clock steps back.
import { randomFillSync } from 'node:crypto';

/** Random bytes are drawn in bulk: one call of the generator serves this many ids. */
const idsPerDraw = 256;
const randomBytesPerId = 8;

const pool = Buffer.allocUnsafe(idsPerDraw * randomBytesPerId);
let poolAt = pool.length;
let lastMs = 0;
let sequence = 0;

/** 48 bits of milliseconds, 12 of a sequence within the millisecond, 62 of chance. */
export function newId(nowMs: number = Date.now()): string {
  if (poolAt === pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  const chanceHigh = pool.readUInt32BE(poolAt);
  const chanceLow = pool.readUInt32BE(poolAt + 4);
  poolAt += randomBytesPerId;
  if (nowMs > lastMs) {
    lastMs = nowMs;
    sequence = chanceHigh & 0x3ff;
  } else if (++sequence > 0xfff) {
    lastMs++;
    sequence = 0;
  }
  const time = lastMs.toString(16).padStart(12, '0');
  const variant = (0x8000 | ((chanceHigh >>> 12) & 0x3fff)).toString(16);
  const node = hex((chanceHigh ^ (chanceLow >>> 4)) & 0xffff, 4) + hex(chanceLow, 8);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(sequence, 3)}-${variant}-${node}`;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
