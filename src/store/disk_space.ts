// Disk space of the data directory: below a low-water mark writes are refused while reads, deletes and purges continue; a reserve file is
// released for those when the disk is almost full.
import { closeSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../standard/failure.ts';

export const reserveFileName = 'disk.reserve';
const checkEveryMs = 1_000;
/** On a small disk the low-water mark is this fraction of its size. */
const lowFraction = 0.05;
/** The size of the reserve as a fraction of the mark; the reserve is released when less than half of its size is free. */
const reserveFraction = 0.25;
/** Writes resume when free space exceeds the mark by this factor: without hysteresis they would be refused and accepted alternately. */
const recoveredFactor = 1.25;
const reserveWriteBytes = 1 << 20;

const fullDiskCodes: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);

/** Whether the operating system refused a write for lack of space. */
export const isFullDisk = (error: unknown): boolean => fullDiskCodes.has((error as NodeJS.ErrnoException).code ?? '');

export const storageFull = (cause: unknown): Failure =>
  new Failure('STORAGE_FULL', 'the disk of the service is full', {}, { cause });

/** Throws STORAGE_FULL if that is the reason, otherwise the error. */
export function storageFailure(error: unknown): never {
  throw isFullDisk(error) ? storageFull(error) : error;
}

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

  /** The message for the health endpoint; undefined if there is enough space. */
  get message(): string | undefined {
    return this.#isLow ? `low on disk space (${this.#freeBytes} bytes free): writes are refused` : undefined;
  }

  /** Call before work that needs space. Throws STORAGE_FULL with the outcome `notApplied`. */
  requireRoom(): void {
    // Detects freed space immediately.
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

  /** Measures the free space, which is one system call, and creates or releases the reserve if necessary. */
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
        // Written, not only sized: a sparse file reserves nothing.
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
