// Writes the rows of a result to a file, and notes where its pages begin. The file is created when the first block is full.
import { type FileHandle, open } from 'node:fs/promises';

const newline = 10;
const blockBytes = 1024 * 1024;

export interface PagedFileOptions {
  readonly path: string;
  readonly pageBytesMax: number;
  /** Called when a page is in the file and another one follows, which is still computed. `end`: where the page ends. */
  readonly onPage: ((end: number) => void) | undefined;
}

export class PagedFile {
  readonly #options: PagedFileOptions;
  /** Where each page begins. */
  readonly #offsets = [0];
  /** How many of the offsets were reported. */
  #reported = 1;
  #block = Buffer.allocUnsafe(blockBytes);
  #nextBlock = Buffer.allocUnsafe(blockBytes);
  #used = 0;
  #written = 0;
  #handle: FileHandle | undefined;
  /** The block that is being written while the next one is filled. */
  #writing: Promise<void> = Promise.resolve();

  constructor(options: PagedFileOptions) {
    this.#options = options;
  }

  get bytes(): number {
    return this.#written + this.#used;
  }

  /** `rows`: whole rows, each of which ends with a newline and has no other. They are copied before this resolves. */
  async append(rows: Uint8Array): Promise<void> {
    this.#notePages(rows);
    for (let start = 0; start < rows.length; ) {
      const end = Math.min(rows.length, start + blockBytes - this.#used);
      this.#block.set(rows.subarray(start, end), this.#used);
      this.#used += end - start;
      start = end;
      if (this.#used === blockBytes) await this.#flush();
    }
  }

  /** A page ends at the newline that follows each multiple of the page size, unless nothing follows it. */
  #notePages(rows: Uint8Array): void {
    const { pageBytesMax } = this.#options;
    for (;;) {
      const start = this.#offsets.at(-1) as number;
      const from = Math.max(0, start + pageBytesMax - 1 - this.bytes);
      if (from >= rows.length) return;
      const end = this.bytes + rows.indexOf(newline, from) + 1;
      this.#offsets.push(end);
    }
  }

  /** All rows, if they are fewer than 1 MiB and were not written yet. */
  unwritten(): string {
    return this.#block.toString('utf8', 0, this.#used);
  }

  /** Returns the offsets at which pages begin, and the length. */
  async finish(): Promise<readonly number[]> {
    // The result itself is about to be reported.
    this.#reported = Number.POSITIVE_INFINITY;
    await this.#flush();
    await this.#writing;
    await this.close();
    return this.#offsets.at(-1) === this.#written ? this.#offsets : [...this.#offsets, this.#written];
  }

  async close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await this.#writing.catch(() => undefined);
    await handle?.close();
  }

  async #flush(): Promise<void> {
    await this.#writing;
    this.#handle ??= await open(this.#options.path, 'w', 0o600);
    const block = this.#block.subarray(0, this.#used);
    this.#written += this.#used;
    this.#used = 0;
    [this.#block, this.#nextBlock] = [this.#nextBlock, this.#block];
    this.#writing = this.#write(this.#handle, block);
    this.#writing.catch(() => undefined);
  }

  async #write(handle: FileHandle, block: Uint8Array): Promise<void> {
    const end = this.#written;
    // A nearly full disk accepts only a part of the bytes; writing the rest throws the reason.
    for (let start = 0; start < block.length; ) start += (await handle.write(block, start)).bytesWritten;
    for (; this.#reported < this.#offsets.length; this.#reported++) {
      const page = this.#offsets[this.#reported] as number;
      if (page >= end) return;
      this.#options.onPage?.(page);
    }
  }
}
