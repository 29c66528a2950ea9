// Splits a file of JSON objects, one on each line or in one array, into the texts of the objects in JavaScript: for the head of a file, for
// columns whose values ClickHouse's parser would change, and to find the rows that do not fit.
import { isUtf8 } from 'node:buffer';
import { createReadStream } from 'node:fs';
import { jsonRowBytesMax } from '../../data_files/json_limits.ts';

/** A value at the top level of a file: bytes of a text that need not be JSON. */
export interface JsonRecord {
  readonly text: string;
  /** The bytes are not UTF-8. */
  readonly isBroken: boolean;
}

/** A value does not end, or is longer than one may be; or what follows a value is neither a separator nor the end. */
export class BrokenJsonFile extends Error {
  override name = 'BrokenJsonFile';
}

const chunksOf = (path: string): AsyncIterable<Buffer> => createReadStream(path, { highWaterMark: 1024 * 1024 });

/** Each line that is not empty. Throws BrokenJsonFile. */
export async function* jsonLines(path: string): AsyncGenerator<JsonRecord> {
  let parts: Buffer[] = [];
  let bytes = 0;
  const take = (): JsonRecord | undefined => {
    const line = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
    parts = [];
    bytes = 0;
    const record = recordOf(line);
    return record.text.trim() === '' ? undefined : record;
  };
  for await (const chunk of chunksOf(path)) {
    for (let from = 0; from < chunk.length; ) {
      const end = chunk.indexOf(0x0a, from);
      const to = end < 0 ? chunk.length : end;
      parts.push(chunk.subarray(from, to));
      bytes += to - from;
      if (bytes > jsonRowBytesMax) throw new BrokenJsonFile(`a JSON value of more than ${jsonRowBytesMax} bytes`);
      if (end < 0) break;
      const record = take();
      if (record) yield record;
      from = end + 1;
    }
  }
  const record = take();
  if (record) yield record;
}

const recordOf = (bytes: Buffer): JsonRecord => {
  const isBroken = !isUtf8(bytes);
  return { text: bytes.toString(), isBroken };
};

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const opening = new Set([0x7b, 0x5b]);
const closing = new Set([0x7d, 0x5d]);
const spaces = new Set([0x20, 0x09, 0x0a, 0x0d]);

/** The values of the array, or those that follow each other without one. Throws BrokenJsonFile. */
export async function* jsonValues(path: string): AsyncGenerator<JsonRecord> {
  const scanner = new ValueScanner();
  for await (const chunk of chunksOf(path)) yield* scanner.add(chunk);
  yield* scanner.end();
}

class ValueScanner {
  /** Of the value that is not complete, and how much of it was scanned. */
  #rest: Buffer = Buffer.alloc(0);
  #scanned = 0;
  /** The depth in the value; the array around all values does not count. */
  #depth = 0;
  #isInString = false;
  #isInArray: boolean | undefined;
  #isEnded = false;
  /** Where the value begins in what was kept, or -1 between values. */
  #start = -1;

  *add(chunk: Buffer): Generator<JsonRecord> {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let position = this.#scanned;
    for (; position < bytes.length; position++) {
      const byte = bytes[position] as number;
      if (this.#isInString) {
        if (byte === backslash) {
          // The escaped character may be in the next chunk.
          if (position + 1 >= bytes.length) break;
          position++;
        } else if (byte === quote) this.#isInString = false;
        continue;
      }
      if (this.#start >= 0) {
        if (byte === quote) this.#isInString = true;
        else if (opening.has(byte)) this.#depth++;
        else if (closing.has(byte) && this.#depth > 0) {
          if (--this.#depth > 0) continue;
          yield recordOf(bytes.subarray(this.#start, position + 1));
          this.#start = -1;
        } else if (this.#depth === 0 && (byte === comma || closing.has(byte) || spaces.has(byte))) {
          yield recordOf(bytes.subarray(this.#start, position));
          this.#start = -1;
          this.#between(byte);
        }
        continue;
      }
      if (this.#between(byte)) continue;
      this.#start = position;
      if (byte === quote) this.#isInString = true;
      else if (opening.has(byte)) this.#depth = 1;
    }
    const keptFrom = this.#start < 0 ? position : this.#start;
    this.#rest = Buffer.from(bytes.subarray(keptFrom));
    this.#scanned = position - keptFrom;
    if (this.#start >= 0) this.#start = 0;
    if (this.#rest.length > jsonRowBytesMax)
      throw new BrokenJsonFile(`a JSON value of more than ${jsonRowBytesMax} bytes`);
  }

  *end(): Generator<JsonRecord> {
    if (this.#start >= 0 && this.#depth === 0 && !this.#isInString) yield recordOf(this.#rest);
    else if (this.#start >= 0) throw new BrokenJsonFile('the last JSON value is incomplete');
    if (this.#isInArray && !this.#isEnded) throw new BrokenJsonFile('the array of the file is incomplete');
  }

  /** Whether the byte separates values. */
  #between(byte: number): boolean {
    if (spaces.has(byte)) return true;
    if (this.#isEnded) throw new BrokenJsonFile('something follows the array of the file');
    if (this.#isInArray === undefined) {
      this.#isInArray = byte === 0x5b;
      return this.#isInArray;
    }
    if (this.#isInArray && byte === 0x5d) {
      this.#isEnded = true;
      return true;
    }
    return byte === comma;
  }
}
