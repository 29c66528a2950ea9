// The blocks of a file that is being written, which stay in memory for a while, so that who reads the file while it grows needs not read it back.
// Bounded for each file and for all files together; a block that a reader holds is not filled again.

import { alignedBlock, blockBytes } from './block_file.ts';

/** Bytes that stay as they are until `release`. */
export interface HeldBytes {
  readonly bytes: Uint8Array;
  readonly release: () => void;
}

/** Bytes by their position in a file that is being written. */
export interface RecentBytes {
  /** The bytes at `position` and after it that are together in memory, at most up to `end`; undefined: they are in the file. */
  hold(position: number, end: number): HeldBytes | undefined;
}

/** As many as two pages of the default size have, so that a client that reads a page finds the next one. */
const blocksOfFileMax = 16;
/** Of all files together. */
const blocksMax = 64;
let keptBlocks = 0;
/** Buffers of files that were closed. New ones for each result would make V8 collect the heap, as part of which it counts them. */
const spare: Buffer[] = [];
const spareMax = blocksOfFileMax + 4;
const spareMs = 10_000;
let forgetting: NodeJS.Timeout | undefined;

function keepSpare(buffer: Buffer): void {
  if (buffer.length !== blockBytes || spare.length >= spareMax) return;
  spare.push(buffer);
  clearTimeout(forgetting);
  forgetting = setTimeout(() => {
    spare.length = 0;
  }, spareMs).unref();
}

/** A block for a file whose last blocks stay in memory. */
export const emptyBlock = (): Buffer => spare.pop() ?? alignedBlock();

interface Block {
  readonly buffer: Buffer;
  readonly start: number;
  used: number;
  holds: number;
}

export class RecentBlocks implements RecentBytes {
  /** Complete ones that were written to the file, the oldest first. */
  readonly #written: Block[] = [];
  /** Those that are being filled or written. */
  readonly #unwritten: Block[] = [];
  #isClosed = false;

  /** A block from this position of the file on, which is filled from now on. `given`: one that is filled already. */
  begin(start: number, given?: Buffer): Buffer {
    const buffer = given ?? this.#reusable() ?? emptyBlock();
    this.#unwritten.push({ buffer, start, used: 0, holds: 0 });
    return buffer;
  }

  /** How many bytes the last block that was begun has. */
  filled(used: number): void {
    const block = this.#unwritten.at(-1);
    if (block) block.used = used;
  }

  /** The oldest block that is not in the file is there now. */
  written(): void {
    const block = this.#unwritten.shift();
    if (!block || this.#isClosed) return;
    this.#written.push(block);
    keptBlocks++;
  }

  /** Nothing is found any more. Nothing is filled or written any more. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    keptBlocks -= this.#written.length;
    for (const { buffer, holds } of [...this.#written.splice(0), ...this.#unwritten.splice(0)])
      if (holds === 0) keepSpare(buffer);
  }

  hold(position: number, end: number): HeldBytes | undefined {
    const isIn = ({ start, used }: Block) => position >= start && position < start + used;
    const block = this.#written.find(isIn) ?? this.#unwritten.find(isIn);
    if (!block) return undefined;
    block.holds++;
    const { buffer, start, used } = block;
    return {
      bytes: buffer.subarray(position - start, Math.min(used, end - start)),
      release: () => {
        block.holds--;
        if (this.#isClosed && block.holds === 0) keepSpare(buffer);
      },
    };
  }

  /** The buffer of the oldest block, if there are enough; one that is held is left to its readers. */
  #reusable(): Buffer | undefined {
    while (this.#written.length >= blocksOfFileMax || (keptBlocks >= blocksMax && this.#written.length > 0)) {
      const oldest = this.#written.shift();
      keptBlocks--;
      if (oldest?.holds === 0 && oldest.buffer.length === blockBytes) return oldest.buffer;
    }
    return undefined;
  }
}
