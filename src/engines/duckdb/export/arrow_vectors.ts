// What lies in the engine's vectors, in Arrow's layout: taken over whole where both have the same, and nowhere a value of JavaScript
// for each. What the engine has under a null is left from something else, so it is wiped.
import {
  DuckDBArrayType,
  DuckDBDecimalType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
} from '@duckdb/node-api';
import duckdb from '@duckdb/node-bindings';
import * as arrow from 'apache-arrow';
import { arrowType, entriesOf, widthOf } from './arrow_types.ts';

/** A stretch of a vector of `size` items. */
export interface Piece {
  readonly vector: duckdb.Vector;
  readonly size: number;
  readonly from: number;
  readonly count: number;
}

/** A bit for each item, from the lowest of each byte: whether there is one. Undefined: all are there. */
type Validity = Uint8Array | undefined;

const int32Max = 2 ** 31 - 1;
/** A text of the engine: its length in 4 bytes, then the text itself where 12 are enough for it, else its address in the last 8. */
const textBytes = 16;
const addressAt = 8;
const inlineBytesMax = 12;
/** A list: where its items begin and how many they are, 8 bytes each. */
const listBytes = 16;

/** The items of all pieces as one column. `within`: where what holds them is null, they are. */
export function arrowData(type: DuckDBType, pieces: readonly Piece[], within?: Validity): arrow.Data {
  const length = pieces.reduce((sum, { count }) => sum + count, 0);
  const validity = validityOf(pieces, length, within);
  const nullCount = validity === undefined ? 0 : length - ones(validity);
  const made = { type: arrowType(type) as never, length, nullCount, nullBitmap: validity ?? new Uint8Array(0) };
  if (type instanceof DuckDBListType || type instanceof DuckDBMapType) {
    const { valueOffsets, items } = listed(pieces, validity);
    const child = type instanceof DuckDBMapType ? entries(type, items) : arrowData(type.valueType, items);
    return arrow.makeData({ ...made, valueOffsets, child: child as never });
  }
  if (type instanceof DuckDBArrayType) {
    const { valueOffsets, items } = arrayed(pieces, validity, type.length);
    return arrow.makeData({ ...made, valueOffsets, child: arrowData(type.valueType, items) as never });
  }
  if (type instanceof DuckDBStructType) {
    const children = type.entryTypes.map((one, i) => arrowData(one, fieldOf(pieces, i), validity));
    return arrow.makeData({ ...made, children });
  }
  const width = widthOf(type);
  if (width === undefined) return arrow.makeData({ ...made, ...texts(pieces, length, validity) });
  const data = fixed(pieces, length, width);
  if (validity) wipe(data, width, validity, length);
  if (type instanceof DuckDBDecimalType)
    return arrow.makeData({ ...made, data: widened(data, width, length) as never });
  return arrow.makeData({ ...made, data: (arrow.DataType.isBool(made.type) ? packed(data) : data) as never });
}

const dataOf = ({ vector, size }: Piece, width: number): Uint8Array => duckdb.vector_get_data(vector, size * width);

function fixed(pieces: readonly Piece[], length: number, width: number): Uint8Array {
  const all = new Uint8Array(length * width);
  let at = 0;
  for (const piece of pieces) {
    const { from, count } = piece;
    all.set(dataOf(piece, width).subarray(from * width, (from + count) * width), at);
    at += count * width;
  }
  return all;
}

function wipe(data: Uint8Array, width: number, validity: Uint8Array, length: number): void {
  for (let i = 0; i < length; i++) if (!isThere(validity, i)) data.fill(0, i * width, (i + 1) * width);
}

/** Arrow's decimals have 16 bytes each, those of the engine as many as they need. */
function widened(data: Uint8Array, width: number, length: number): Uint8Array {
  if (width === 16) return data;
  const words = new Int32Array(length * 4);
  const narrow = width === 2 ? new Int16Array(data.buffer) : new Int32Array(data.buffer);
  const step = width === 8 ? 2 : 1;
  for (let i = 0; i < length; i++) {
    const high = narrow[(i + 1) * step - 1] as number;
    words[i * 4] = narrow[i * step] as number;
    words[i * 4 + 1] = step === 2 ? high : high >> 31;
    words[i * 4 + 2] = high >> 31;
    words[i * 4 + 3] = high >> 31;
  }
  return new Uint8Array(words.buffer);
}

/** A bit for what is a byte. */
function packed(bytes: Uint8Array): Uint8Array {
  const bits = new Uint8Array((bytes.length + 7) >> 3);
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== 0) (bits[i >> 3] as number) |= 1 << (i & 7);
  return bits;
}

/** Texts, and bytes. */
function texts(pieces: readonly Piece[], length: number, validity: Validity) {
  const views = pieces.map(({ from, count, ...piece }) => ({
    from,
    count,
    data: viewOf(dataOf({ ...piece, from, count }, textBytes)),
  }));
  const valueOffsets = new Int32Array(length + 1);
  let bytes = 0;
  let item = 0;
  for (const { from, count, data } of views) {
    for (let i = from; i < from + count; i++) {
      if (validity === undefined || isThere(validity, item)) bytes += data.getUint32(i * textBytes, true);
      requireCountable(bytes);
      valueOffsets[++item] = bytes;
    }
  }
  const all = new Uint8Array(bytes + inlineBytesMax);
  const target = viewOf(all);
  let at = 0;
  item = 0;
  for (const { from, count, data } of views) {
    for (let i = from; i < from + count; i++) {
      const end = valueOffsets[++item] as number;
      const place = i * textBytes;
      if (end - at > inlineBytesMax) all.set(textElsewhere(data, place, end - at), at);
      else if (end > at) {
        // All that may be there, which is several times as fast as byte by byte: the next text covers what is too much.
        target.setUint32(at, data.getUint32(place + 4, true), true);
        target.setUint32(at + 4, data.getUint32(place + 8, true), true);
        target.setUint32(at + 8, data.getUint32(place + 12, true), true);
      }
      at = end;
    }
  }
  return { valueOffsets, data: all.subarray(0, bytes) };
}

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength);

const textElsewhere = (data: DataView, place: number, bytes: number): Uint8Array =>
  duckdb.get_data_from_pointer(data.buffer as ArrayBuffer, data.byteOffset + place + addressAt, bytes);

interface Listed {
  readonly valueOffsets: Int32Array;
  readonly items: readonly Piece[];
}

function listed(pieces: readonly Piece[], validity: Validity): Listed {
  const stretches = new Stretches(pieces);
  for (const piece of pieces) {
    const vector = duckdb.list_vector_get_child(piece.vector);
    const size = duckdb.list_vector_get_size(piece.vector);
    const data = dataOf(piece, listBytes);
    const words = new BigUint64Array(data.buffer, data.byteOffset, data.byteLength / 8);
    for (let i = piece.from; i < piece.from + piece.count; i++)
      stretches.add(vector, size, Number(words[i * 2]), Number(words[i * 2 + 1]), validity);
  }
  return stretches;
}

function arrayed(pieces: readonly Piece[], validity: Validity, length: number): Listed {
  const stretches = new Stretches(pieces);
  for (const piece of pieces) {
    const vector = duckdb.array_vector_get_child(piece.vector);
    for (let i = piece.from; i < piece.from + piece.count; i++)
      stretches.add(vector, piece.size * length, i * length, length, validity);
  }
  return stretches;
}

/** The items of lists, one list after the other: those that lie side by side are one piece. */
class Stretches implements Listed {
  readonly valueOffsets: Int32Array;
  readonly items: Piece[] = [];
  #lists = 0;
  #count = 0;

  constructor(pieces: readonly Piece[]) {
    this.valueOffsets = new Int32Array(1 + pieces.reduce((sum, { count }) => sum + count, 0));
  }

  add(vector: duckdb.Vector, size: number, from: number, count: number, validity: Validity): void {
    // A list that is null has whatever the engine left there.
    if (count > 0 && (validity === undefined || isThere(validity, this.#lists))) {
      const last = this.items.at(-1);
      if (last?.vector === vector && last.from + last.count === from)
        this.items[this.items.length - 1] = { ...last, count: last.count + count };
      else this.items.push({ vector, size, from, count });
      this.#count += count;
    }
    requireCountable(this.#count);
    this.valueOffsets[++this.#lists] = this.#count;
  }
}

const fieldOf = (pieces: readonly Piece[], field: number): Piece[] =>
  pieces.map((piece) => ({ ...piece, vector: duckdb.struct_vector_get_child(piece.vector, field) }));

function entries(type: DuckDBMapType, items: readonly Piece[]): arrow.Data {
  const children = [arrowData(type.keyType, fieldOf(items, 0)), arrowData(type.valueType, fieldOf(items, 1))];
  const length = children[0]?.length ?? 0;
  return arrow.makeData({ type: entriesOf(type), length, nullCount: 0, children });
}

/** The engine's bits of all pieces one after the other, which have the same order as Arrow's. */
function validityOf(pieces: readonly Piece[], length: number, within: Validity): Validity {
  const parts = pieces.map(({ vector, size }) => duckdb.vector_get_validity(vector, Math.ceil(size / 64) * 8));
  if (within === undefined && parts.every((part) => !part)) return undefined;
  const all = new Uint8Array((length + 7) >> 3);
  let at = 0;
  for (const [i, { from, count }] of pieces.entries()) {
    const part = parts[i];
    for (let item = from; item < from + count; item++, at++)
      if ((!part || isThere(part, item)) && (!within || isThere(within, at))) (all[at >> 3] as number) |= 1 << (at & 7);
  }
  return all;
}

const isThere = (validity: Uint8Array, item: number): boolean =>
  (((validity[item >> 3] as number) >> (item & 7)) & 1) === 1;

function ones(bits: Uint8Array): number {
  let count = 0;
  for (let byte of bits) for (; byte !== 0; byte &= byte - 1) count++;
  return count;
}

function requireCountable(count: number): void {
  if (count > int32Max) throw new Error('a batch holds more than Arrow can count');
}
