// Writes the rows of a result to a file, and notes at which byte and with which row its pages begin. The file is created when the first
// block is full.
import { BlockFile, blockBytes } from './block_file.ts';
import { emptyBlock, RecentBlocks, type RecentBytes } from './recent_blocks.ts';

/** The file with the rows of a result that is larger than a page. */
export const rowsFile = (resultPath: string): string => `${resultPath}.rows`;

const newline = 10;
/** Of the first block, which grows: most results are small, and large buffers that are soon unused make the collection of garbage frequent. */
const firstBlockBytes = 16 * 1024;
/** While more full blocks than this wait to be written, no rows are taken. */
const waitingMax = { inFileOnly: 1, inMemory: 3 };

export interface PagedFileOptions {
  readonly path: string;
  readonly pageBytesMax: number;
  /** Called when a page is in the file, or in memory if `keepsRecent`, and another one follows, which is still computed. */
  readonly onPage: ((page: PageEnd) => void) | undefined;
  /** Its reader is in this process: the last blocks stay in memory for it. */
  readonly keepsRecent?: boolean;
}

/** Where a page ends: the byte and the row after it. */
export interface PageEnd {
  readonly end: number;
  readonly endRow: number;
  readonly recent?: RecentBytes;
}

export class PagedFile {
  readonly #options: PagedFileOptions;
  /** The byte and the row at which each page begins. */
  readonly #offsets = [0];
  readonly #firstRows = [0];
  /** How many of the offsets were reported. */
  #reported = 1;
  #block: Buffer = Buffer.allocUnsafe(firstBlockBytes);
  /** One that was written. */
  #spareBlock: Buffer | undefined;
  readonly #recent: RecentBlocks | undefined;
  #used = 0;
  #written = 0;
  #rows = 0;
  #output: BlockFile | undefined;
  /** Resolves when all blocks that are full are written. */
  #writing: Promise<void> = Promise.resolve();
  /** Of the blocks that are full and not written, the oldest first. */
  readonly #writes: Promise<void>[] = [];

  constructor(options: PagedFileOptions) {
    this.#options = options;
    this.#recent = options.keepsRecent && options.onPage ? new RecentBlocks() : undefined;
  }

  get bytes(): number {
    return this.#written + this.#used;
  }

  /**
   * `parts`: whole rows, each of which ends with a newline and has no other; `rowCount` in all parts together. They are copied before
   * this returns. While the returned promise is pending, too many blocks wait to be written.
   */
  append(parts: Iterable<Uint8Array>, rowCount: number): Promise<void> | undefined {
    const before: Uint8Array[] = [];
    for (const rows of parts) {
      this.#notePages(rows, before);
      before.push(rows);
      this.#makeRoom(this.#used + rows.length);
      for (let start = 0; start < rows.length; ) {
        const end = Math.min(rows.length, start + blockBytes - this.#used);
        this.#block.set(rows.subarray(start, end), this.#used);
        this.#used += end - start;
        start = end;
        if (this.#used === blockBytes) this.#flush();
      }
    }
    this.#rows += rowCount;
    this.#reportRecent();
    return this.#writes.length > (this.#recent ? waitingMax.inMemory : waitingMax.inFileOnly)
      ? this.#writes[0]
      : undefined;
  }

  #reportRecent(): void {
    if (!this.#recent || !this.#output) return;
    this.#recent.filled(this.#used);
    this.#report(this.bytes);
  }

  #makeRoom(bytes: number): void {
    if (bytes <= this.#block.length || this.#block.length === blockBytes) return;
    const size = Math.min(blockBytes, Math.max(bytes, 4 * this.#block.length));
    const larger = this.#recent && size === blockBytes ? emptyBlock() : Buffer.allocUnsafe(size);
    larger.set(this.#block.subarray(0, this.#used));
    this.#block = larger;
  }

  /**
   * A page ends at the newline that follows each multiple of the page size, unless nothing follows it. `before`: the parts that were
   * appended with these rows. Newlines are counted only where a page ends, because counting all of them takes long.
   */
  #notePages(rows: Uint8Array, before: readonly Uint8Array[]): void {
    const { pageBytesMax } = this.#options;
    for (;;) {
      const start = this.#offsets.at(-1) as number;
      const from = Math.max(0, start + pageBytesMax - 1 - this.bytes);
      if (from >= rows.length) return;
      const end = rows.indexOf(newline, from) + 1;
      this.#offsets.push(this.bytes + end);
      this.#firstRows.push(this.#rows + newlinesIn([...before, rows.subarray(0, end)]));
    }
  }

  /** All rows, if they are fewer than 1 MiB and were not written yet. */
  unwritten(): string {
    return this.#block.toString('utf8', 0, this.#used);
  }

  /** Returns the bytes and the rows at which pages begin; the last entries are the length of the file and the number of rows. */
  async finish(): Promise<{ readonly offsets: readonly number[]; readonly firstRows: readonly number[] }> {
    // The result itself is about to be reported.
    this.#reported = Number.POSITIVE_INFINITY;
    this.#flush();
    await this.#writing;
    await this.close();
    if (this.#offsets.at(-1) === this.#written) return { offsets: this.#offsets, firstRows: this.#firstRows };
    return { offsets: [...this.#offsets, this.#written], firstRows: [...this.#firstRows, this.#rows] };
  }

  async close(): Promise<void> {
    await this.#writing.catch(() => undefined);
    const output = this.#output;
    this.#output = undefined;
    this.#recent?.close();
    await output?.close();
  }

  /** The block is written after those before it. */
  #flush(): void {
    const block = this.#block;
    const used = this.#used;
    if (this.#written === 0) this.#recent?.begin(0, block);
    this.#recent?.filled(used);
    const start = this.#written;
    this.#written += used;
    this.#used = 0;
    this.#writing = this.#writing.then(() => this.#write(block, start, used));
    this.#writing.catch(() => undefined);
    this.#writes.push(this.#writing);
    this.#block = this.#emptyBlock();
  }

  #emptyBlock(): Buffer {
    if (this.#recent) return this.#recent.begin(this.#written);
    const empty = this.#spareBlock ?? Buffer.allocUnsafe(blockBytes);
    this.#spareBlock = undefined;
    return empty;
  }

  async #write(block: Buffer, start: number, used: number): Promise<void> {
    if (!this.#output) {
      this.#output = await BlockFile.create(this.#options.path, { bypassesCache: this.#recent !== undefined });
      this.#reportRecent();
    }
    await this.#output.write(block.subarray(0, used), start);
    this.#writes.shift();
    if (this.#recent) {
      this.#recent.written();
      return;
    }
    this.#report(start + used);
    if (block.length === blockBytes) this.#spareBlock = block;
  }

  /** Reports the pages that are followed by bytes before `end`. */
  #report(end: number): void {
    for (; this.#reported < this.#offsets.length; this.#reported++) {
      const pageEnd = this.#offsets[this.#reported] as number;
      if (pageEnd >= end) return;
      this.#options.onPage?.({
        end: pageEnd,
        endRow: this.#firstRows[this.#reported] as number,
        ...(this.#recent && { recent: this.#recent }),
      });
    }
  }
}

function newlinesIn(parts: readonly Uint8Array[]): number {
  let count = 0;
  for (const part of parts) for (let at = part.indexOf(newline); at >= 0; at = part.indexOf(newline, at + 1)) count++;
  return count;
}
