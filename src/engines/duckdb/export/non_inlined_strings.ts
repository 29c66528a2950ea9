// The strings of a vector that are too long to be in the vector itself. They are read many at a time, because each call to the engine
// costs more than copying a kilobyte.
import duckdb from '@duckdb/node-bindings';
import { addressOffset, stringBytes } from '../query/text_column.ts';

/**
 * Strings with less than this between them are read together. It must be less than a page of memory: then what is between them is in the
 * pages of the two strings, and can be read.
 */
const gapBytesMax = 1024;
/** Shorter strings are copied byte by byte, which is faster than through a view of them. */
const viewedBytesMin = 48;

interface Span {
  low: number;
  high: number;
  /** An item whose string is at `low`. */
  lowest: number;
  bytes: Uint8Array | undefined;
}

export class NonInlinedStrings {
  readonly #data: DataView;
  readonly #spans: Span[] = [];
  /** The number of the span of each item. */
  readonly #spanOf: Uint32Array;

  /** `data`: the items of the vector. */
  constructor(data: DataView) {
    this.#data = data;
    this.#spanOf = new Uint32Array(data.byteLength / stringBytes);
  }

  /** Must be called for every item before its string is copied. */
  add(item: number, bytes: number): void {
    const address = this.#addressOf(item);
    const end = address + bytes;
    let span = this.#spans.at(-1);
    if (span === undefined || address > span.high + gapBytesMax || end + gapBytesMax < span.low) {
      span = { low: address, high: end, lowest: item, bytes: undefined };
      this.#spans.push(span);
    }
    if (address < span.low) {
      span.low = address;
      span.lowest = item;
    }
    if (end > span.high) span.high = end;
    this.#spanOf[item] = this.#spans.length - 1;
  }

  copy(item: number, bytes: number, target: Uint8Array, to: number): void {
    const span = this.#spans[this.#spanOf[item] as number] as Span;
    span.bytes ??= this.#read(span);
    const source = span.bytes;
    const from = this.#addressOf(item) - span.low;
    if (bytes >= viewedBytesMin) target.set(source.subarray(from, from + bytes), to);
    else for (let i = 0; i < bytes; i++) target[to + i] = source[from + i] as number;
  }

  #read({ low, high, lowest }: Span): Uint8Array {
    const { buffer, byteOffset } = this.#data;
    const offset = byteOffset + lowest * stringBytes + addressOffset;
    return duckdb.get_data_from_pointer(buffer as ArrayBuffer, offset, high - low);
  }

  /** Addresses have fewer than 53 bits. */
  #addressOf(item: number): number {
    const offset = item * stringBytes + addressOffset;
    return this.#data.getUint32(offset + 4, true) * 2 ** 32 + this.#data.getUint32(offset, true);
  }
}
