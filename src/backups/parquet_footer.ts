// How many rows a Parquet file says that it has: the one number of its footer that a look at a backup needs. The footer is Thrift in
// its compact form; all else in it is passed over.
const magic = 'PAR1';
const tailBytes = 8;
const rowsField = 3;
const nestingMax = 32;

/** Bytes at the end of a file that hold its footer. `tail`: its last bytes. Undefined: it is no Parquet file. */
export function footerBytes(tail: Buffer): number | undefined {
  if (tail.length < tailBytes || tail.toString('latin1', tail.length - magic.length) !== magic) return undefined;
  return tail.readUInt32LE(tail.length - tailBytes) + tailBytes;
}

/** `end`: as many bytes of the end as `footerBytes` says. Undefined where it does not read. */
export function rowsOfFooter(end: Buffer): number | undefined {
  try {
    return new Footer(end.subarray(0, end.length - tailBytes)).rows();
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Types of the compact protocol. */
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

/** Throws RangeError at the end of the bytes, or at what is none of Thrift. */
class Footer {
  readonly #bytes: Buffer;
  #at = 0;

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
      this.#pass(kind, 0);
    }
  }

  #pass(kind: number, depth: number): void {
    if (depth > nestingMax) throw new RangeError('it nests too deep');
    if (kind === type.true || kind === type.false) return;
    if (kind === type.byte) this.#skip(1);
    else if (kind === type.i16 || kind === type.i32 || kind === type.i64) this.#unsigned();
    else if (kind === type.double) this.#skip(8);
    else if (kind === type.binary) this.#skip(Number(this.#unsigned()));
    else if (kind === type.list || kind === type.set) this.#passList(depth);
    else if (kind === type.map) this.#passMap(depth);
    else if (kind === type.struct) this.#passStruct(depth);
    else throw new RangeError('it is no Thrift');
  }

  #passList(depth: number): void {
    const head = this.#byte();
    const kind = head & 0x0f;
    const size = head >> 4 === 15 ? Number(this.#unsigned()) : head >> 4;
    // In a list, unlike in a struct, a truth value is a byte.
    const each = kind === type.true || kind === type.false ? type.byte : kind;
    for (let i = 0; i < size; i++) this.#pass(each, depth + 1);
  }

  #passMap(depth: number): void {
    const size = Number(this.#unsigned());
    if (size === 0) return;
    const kinds = this.#byte();
    for (let i = 0; i < size; i++) {
      this.#pass(kinds >> 4, depth + 1);
      this.#pass(kinds & 0x0f, depth + 1);
    }
  }

  #passStruct(depth: number): void {
    for (;;) {
      const head = this.#byte();
      const kind = head & 0x0f;
      if (kind === type.stop) return;
      if (head >> 4 === 0) this.#unsigned();
      this.#pass(kind, depth + 1);
    }
  }

  #byte(): number {
    return this.#bytes.readUInt8(this.#at++);
  }

  #skip(bytes: number): void {
    this.#at += bytes;
    if (this.#at > this.#bytes.length) throw new RangeError('it ends too early');
  }

  #unsigned(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#byte();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new RangeError('a number has no end');
  }

  /** Zigzag. */
  #signed(): number {
    const value = this.#unsigned();
    return Number((value >> 1n) ^ -(value & 1n));
  }
}
