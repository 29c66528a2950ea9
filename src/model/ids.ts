// Ids: UUIDs of version 7, which sort by creation time. Ids of one process are strictly increasing, even within one millisecond or when
// the clock is set back.
import { randomFillSync } from 'node:crypto';

/** The number of ids for which random bytes are generated at once. */
const idsPerBatch = 256;
const randomBytesPerId = 8;

const pool = Buffer.allocUnsafe(idsPerBatch * randomBytesPerId);
let poolOffset = pool.length;
let lastMs = 0;
let sequence = 0;

/** 48 bits of milliseconds, 12 of a sequence within the millisecond, 62 random. */
export function newId(nowMs: number = Date.now()): string {
  if (poolOffset === pool.length) {
    randomFillSync(pool);
    poolOffset = 0;
  }
  const randomHigh = pool.readUInt32BE(poolOffset);
  const randomLow = pool.readUInt32BE(poolOffset + 4);
  poolOffset += randomBytesPerId;
  if (nowMs > lastMs) {
    lastMs = nowMs;
    sequence = randomHigh & 0x3ff;
  } else if (++sequence > 0xfff) {
    lastMs++;
    sequence = 0;
  }
  const time = lastMs.toString(16).padStart(12, '0');
  const variant = (0x8000 | ((randomHigh >>> 12) & 0x3fff)).toString(16);
  const node = hex((randomHigh ^ (randomLow >>> 4)) & 0xffff, 4) + hex(randomLow, 8);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(sequence, 3)}-${variant}-${node}`;
}

/** Not above any id that is made from this time on. */
export function lowestIdAt(ms: number): string {
  const time = ms.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
