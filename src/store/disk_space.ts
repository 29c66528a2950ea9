// Space on the disk of the data directory: a mark below which writes are refused while reads, deletes and purges continue, and a
// reserve file that is released for them when the disk is all but full.
import { closeSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../standard/failure.ts';

export const reserveFileName = 'disk.reserve';
const checkEveryMs = 1_000;
/** On a small disk the mark is this part of it. */
const lowFraction = 0.05;
/** The reserve is this part of the mark, and is released at half of that. */
const reserveFraction = 0.25;
/** Writes are taken again when so much more than the mark is free: else they would be refused and taken by turns. */
const recoveredFactor = 1.25;
const reserveWriteBytes = 1 << 20;

export interface DiskSpaceOptions {
  readonly directory: string;
  readonly lowBytesMax: number;
  readonly onChange: (state: { readonly isLow: boolean; readonly freeBytes: number }) => void;
}

export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  readonly #reserve: string;
  #timer: NodeJS.Timeout | undefined;
  #isLow = false;
  #freeBytes = Number.POSITIVE_INFINITY;

  constructor(options: DiskSpaceOptions) {
    this.#options = options;
    this.#reserve = join(options.directory, reserveFileName);
    this.check();
  }

  get isLow(): boolean {
    return this.#isLow;
  }

  /** What the health says; undefined: there is enough. */
  get message(): string | undefined {
    return this.#isLow ? `low on disk space (${this.#freeBytes} bytes free): writes are refused` : undefined;
  }

  /** To be called before work that takes space. Throws STORAGE_FULL, `notApplied`. */
  requireRoom(): void {
    // Space that was freed meanwhile is noticed at once.
    if (this.#isLow) this.check();
    if (!this.#isLow) return;
    throw new Failure(
      'STORAGE_FULL',
      'the disk of the service is almost full: reads and deletes are served, writes are refused until space is freed',
      {},
      { outcome: 'notApplied' },
    );
  }

  start(): void {
    this.#timer ??= setInterval(() => this.check(), checkEveryMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** One system call, and the reserve where that is due. */
  check(): void {
    const { directory, lowBytesMax, onChange: changed } = this.#options;
    const { bavail, blocks, bsize } = statfsSync(directory);
    const lowBytes = Math.min(lowBytesMax, Math.floor(blocks * bsize * lowFraction));
    const reserveBytes = Math.floor(lowBytes * reserveFraction);
    this.#freeBytes = bavail * bsize;
    const isLow = this.#freeBytes < (this.#isLow ? lowBytes * recoveredFactor : lowBytes);
    if (isLow !== this.#isLow) {
      this.#isLow = isLow;
      changed({ isLow, freeBytes: this.#freeBytes });
    }
    if (this.#freeBytes < reserveBytes / 2) rmSync(this.#reserve, { force: true });
    else if (!isLow) this.#ensureReserve(reserveBytes);
  }

  #ensureReserve(bytes: number): void {
    if (bytes === 0 || statSync(this.#reserve, { throwIfNoEntry: false })?.size === bytes) return;
    try {
      const file = openSync(this.#reserve, 'w', 0o600);
      try {
        // Written, not only sized: a hole in a file reserves nothing.
        const zeros = Buffer.alloc(Math.min(reserveWriteBytes, Math.max(1, bytes)));
        for (let left = bytes; left > 0; ) left -= writeSync(file, zeros, 0, Math.min(left, zeros.length));
        fsyncSync(file);
      } finally {
        closeSync(file);
      }
    } catch {
      rmSync(this.#reserve, { force: true });
    }
  }
}
