// Writes rows to CSV and NDJSON files, compressed on request.
import { once } from 'node:events';
import type { Transform } from 'node:stream';
import { createGzip, createZstdCompress } from 'node:zlib';
import type { OutputFiles } from './output_files.ts';
import type { RowFiles } from './row_files.ts';
import { type TextRows, valuesOfRows } from './text_rows.ts';

/** Text is written in pieces of at least this size, and after each a file can end. */
const pieceCharacters = 64 * 1024;

const compressors = { none: undefined, gzip: () => createGzip({ level: 6 }), zstd: () => createZstdCompress() };

/** A compressor and the writing of what it produces. */
interface Compressing {
  readonly stream: Transform;
  readonly written: Promise<void>;
}

export class TextFiles implements RowFiles {
  readonly #text: TextRows;
  readonly #output: OutputFiles;
  readonly #create: (() => Transform) | undefined;
  readonly #fileBytesMax: number;
  #compressing: Compressing | undefined;
  #hasHead = false;
  #rows = 0;

  constructor(text: TextRows, compression: keyof typeof compressors, output: OutputFiles, fileBytesMax: number) {
    this.#text = text;
    this.#create = compressors[compression];
    this.#output = output;
    this.#fileBytesMax = fileBytesMax;
  }

  async add(rows: string): Promise<void> {
    let lines: string[] = [];
    let characters = 0;
    const pieceMax = Math.min(pieceCharacters, this.#fileBytesMax);
    for (const values of valuesOfRows(rows)) {
      const line = this.#text.lineOf(values);
      lines.push(line);
      characters += line.length;
      if (characters < pieceMax) continue;
      await this.#write(lines);
      lines = [];
      characters = 0;
    }
    if (lines.length > 0) await this.#write(lines);
  }

  async finish(): Promise<void> {
    await this.#begin();
    await this.#end();
  }

  async close(): Promise<void> {
    this.#compressing?.stream.destroy();
    await this.#compressing?.written.catch(() => undefined);
  }

  async #write(lines: readonly string[]): Promise<void> {
    if (this.#output.bytes >= this.#fileBytesMax) await this.#end();
    await this.#begin();
    this.#rows += lines.length;
    await this.#put(lines.join(''));
  }

  async #begin(): Promise<void> {
    if (this.#hasHead) return;
    this.#hasHead = true;
    await this.#put(this.#text.head);
  }

  async #put(text: string): Promise<void> {
    if (!this.#create) {
      await this.#output.write([Buffer.from(text)]);
      return;
    }
    this.#compressing ??= this.#compress(this.#create());
    const { stream, written } = this.#compressing;
    // A failure of the output is the reason if the compressor takes no more.
    if (!stream.write(text)) await Promise.race([once(stream, 'drain'), written]);
  }

  #compress(stream: Transform): Compressing {
    const written = (async () => {
      for await (const part of stream) await this.#output.write([part as Buffer]);
    })();
    written.catch(() => undefined);
    return { stream, written };
  }

  async #end(): Promise<void> {
    this.#compressing?.stream.end();
    await this.#compressing?.written;
    this.#compressing = undefined;
    await this.#output.finish(this.#rows);
    this.#rows = 0;
    this.#hasHead = false;
  }
}
