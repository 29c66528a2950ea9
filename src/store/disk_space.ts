// Space on the disk of the data directory: a mark below which writes are refused while reads, deletes and purges continue, and a
// reserve file that is released for them when the disk is all but full.
import { closeSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../standard/failure.ts';

export const reserveFileName = 'disk.reserve';
const lookEveryMs = 1_000;
/** On a small disk the mark is this part of it. */
const lowPart = 0.05;
/** The reserve is this part of the mark, and is released at half of that. */
const reservePart = 0.25;
/** Writes are taken again when so much more than the mark is free: else they would be refused and taken by turns. */
const recoveredFactor = 1.25;
const writeBytes = 1 << 20;

export interface DiskSpaceOptions {
  readonly directory: string;
  readonly lowBytesMax: number;
  readonly changed: (state: { readonly isLow: boolean; readonly freeBytes: number }) => void;
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
    this.look();
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
    if (this.#isLow) this.look();
    if (!this.#isLow) return;
    throw new Failure(
      'STORAGE_FULL',
      'the disk of the service is almost full: reads and deletes are served, writes are refused until space is freed',
      {},
      { outcome: 'notApplied' },
    );
  }

  start(): void {
    this.#timer ??= setInterval(() => this.look(), lookEveryMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** One system call, and the reserve where that is due. */
  look(): void {
    const { directory, lowBytesMax, changed } = this.#options;
    const { bavail, blocks, bsize } = statfsSync(directory);
    const lowBytes = Math.min(lowBytesMax, Math.floor(blocks * bsize * lowPart));
    const reserveBytes = Math.floor(lowBytes * reservePart);
    this.#freeBytes = bavail * bsize;
    const isLow = this.#freeBytes < (this.#isLow ? lowBytes * recoveredFactor : lowBytes);
    if (isLow !== this.#isLow) {
      this.#isLow = isLow;
      changed({ isLow, freeBytes: this.#freeBytes });
    }
    if (this.#freeBytes < reserveBytes / 2) rmSync(this.#reserve, { force: true });
    else if (!isLow) this.#keepReserve(reserveBytes);
  }

  #keepReserve(bytes: number): void {
    if (bytes === 0 || statSync(this.#reserve, { throwIfNoEntry: false })?.size === bytes) return;
    try {
      const file = openSync(this.#reserve, 'w', 0o600);
      try {
        // Written, not only sized: a hole in a file reserves nothing.
        const zeros = Buffer.alloc(Math.min(writeBytes, Math.max(1, bytes)));
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
