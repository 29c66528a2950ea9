// Reads the number of rows from the footer of a Parquet file, for the verification of backups and for what engines write. The footer is Thrift
// in the compact protocol; other fields are skipped.
import { open } from 'node:fs/promises';

const magic = 'PAR1';
/** With the size of the footer. */
const tailBytes = 8;
const rowsField = 3;
const nestingMax = 32;

/**
 * Size in bytes of the footer at the end of a file. `tail`: the last bytes of the file. Returns undefined if it is not a Parquet file.
 */
export function footerBytes(tail: Buffer): number | undefined {
  if (tail.length < tailBytes || tail.toString('latin1', tail.length - magic.length) !== magic) return undefined;
  return tail.readUInt32LE(tail.length - tailBytes) + tailBytes;
}

/** `end`: as many bytes of the end as `footerBytes` returned. Returns undefined if the footer cannot be parsed. */
export function rowsOfFooter(end: Buffer): number | undefined {
  try {
    return new Footer(end.subarray(0, end.length - tailBytes)).rows();
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Undefined if the file is not a Parquet file. */
export async function rowsOfParquet(path: string): Promise<number | undefined> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const end = async (length: number): Promise<Buffer> => {
      const bytes = Buffer.alloc(Math.min(length, size));
      await file.read(bytes, 0, bytes.length, size - bytes.length);
      return bytes;
    };
    const length = footerBytes(await end(tailBytes));
    return length === undefined ? undefined : rowsOfFooter(await end(length));
  } finally {
    await file.close();
  }
}

/** Field types of the Thrift compact protocol. */
const type = {
  stop: 0,
  true: 1,
  false: 2,
  byte: 3,
  i16: 4,
  i32: 5,
  i64: 6,
  double: 7,
  binary: 8,
  list: 9,
  set: 10,
  map: 11,
  struct: 12,
} as const;

/** Throws RangeError at the end of the bytes, or for invalid Thrift. */
class Footer {
  readonly #bytes: Buffer;
  #position = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  rows(): number | undefined {
    for (let id = 0; ; ) {
      const head = this.#byte();
      const kind = head & 0x0f;
      if (kind === type.stop) return undefined;
      const delta = head >> 4;
      id = delta === 0 ? this.#signed() : id + delta;
      if (id === rowsField && kind === type.i64) return this.#signed();
      this.#skipValue(kind, 0);
    }
  }

  #skipValue(kind: number, depth: number): void {
    if (depth > nestingMax) throw new RangeError('nested too deeply');
    if (kind === type.true || kind === type.false) return;
    if (kind === type.byte) this.#skip(1);
    else if (kind === type.i16 || kind === type.i32 || kind === type.i64) this.#unsigned();
    else if (kind === type.double) this.#skip(8);
    else if (kind === type.binary) this.#skip(Number(this.#unsigned()));
    else if (kind === type.list || kind === type.set) this.#skipList(depth);
    else if (kind === type.map) this.#skipMap(depth);
    else if (kind === type.struct) this.#skipStruct(depth);
    else throw new RangeError('invalid Thrift');
  }

  #skipList(depth: number): void {
    const head = this.#byte();
    const kind = head & 0x0f;
    const size = head >> 4 === 15 ? Number(this.#unsigned()) : head >> 4;
    // In a list, unlike in a struct, a boolean takes one byte.
    const each = kind === type.true || kind === type.false ? type.byte : kind;
    for (let i = 0; i < size; i++) this.#skipValue(each, depth + 1);
  }

  #skipMap(depth: number): void {
    const size = Number(this.#unsigned());
    if (size === 0) return;
    const kinds = this.#byte();
    for (let i = 0; i < size; i++) {
      this.#skipValue(kinds >> 4, depth + 1);
      this.#skipValue(kinds & 0x0f, depth + 1);
    }
  }

  #skipStruct(depth: number): void {
    for (;;) {
      const head = this.#byte();
      const kind = head & 0x0f;
      if (kind === type.stop) return;
      if (head >> 4 === 0) this.#unsigned();
      this.#skipValue(kind, depth + 1);
    }
  }

  #byte(): number {
    return this.#bytes.readUInt8(this.#position++);
  }

  #skip(bytes: number): void {
    this.#position += bytes;
    if (this.#position > this.#bytes.length) throw new RangeError('unexpected end');
  }

  #unsigned(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#byte();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new RangeError('a number is too long');
  }

  /** Zigzag encoding. */
  #signed(): number {
    const value = this.#unsigned();
    return Number((value >> 1n) ^ -(value & 1n));
  }
}
