// Converts the engine's vectors to Arrow's layout. Buffers that have the same layout are copied as a whole, and no JavaScript value is
// created per item. The engine leaves old bytes under nulls; they are overwritten with zeros.
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
import { inlineBytesMax, stringBytes } from '../query/text_column.ts';
import { arrowType, entriesOf, widthOf } from './arrow_types.ts';
import { NonInlinedStrings } from './non_inlined_strings.ts';

/** `count` items from the index `from` of a vector of `size` items. */
export interface VectorSlice {
  readonly vector: duckdb.Vector;
  readonly size: number;
  readonly from: number;
  readonly count: number;
}

/** One bit per item, from the lowest bit of each byte: 1 if the item is not null. Undefined if no item is null. */
type Validity = Uint8Array | undefined;

const int32Max = 2 ** 31 - 1;
/** A list in the engine: the index of its first item and the number of items, 8 bytes each. */
const listBytes = 16;

/** The items of all slices as one column. `parentValidity`: items of null parents are null, too. */
export function arrowData(type: DuckDBType, slices: readonly VectorSlice[], parentValidity?: Validity): arrow.Data {
  const length = slices.reduce((sum, { count }) => sum + count, 0);
  const validity = validityOf(slices, length, parentValidity);
  const nullCount = validity === undefined ? 0 : length - countOnes(validity);
  const base = { type: arrowType(type) as never, length, nullCount, nullBitmap: validity ?? new Uint8Array(0) };
  if (type instanceof DuckDBListType || type instanceof DuckDBMapType) {
    const { valueOffsets, items } = listItems(slices, validity);
    const child = type instanceof DuckDBMapType ? mapEntries(type, items) : arrowData(type.valueType, items);
    return arrow.makeData({ ...base, valueOffsets, child: child as never });
  }
  if (type instanceof DuckDBArrayType) {
    const { valueOffsets, items } = arrayItems(slices, validity, type.length);
    return arrow.makeData({ ...base, valueOffsets, child: arrowData(type.valueType, items) as never });
  }
  if (type instanceof DuckDBStructType) {
    const children = type.entryTypes.map((entry, i) => arrowData(entry, fieldOf(slices, i), validity));
    return arrow.makeData({ ...base, children });
  }
  const width = widthOf(type);
  if (width === undefined) return arrow.makeData({ ...base, ...strings(slices, length, validity) });
  const data = fixedWidthValues(slices, length, width);
  if (validity) clearNulls(data, width, validity, length);
  if (type instanceof DuckDBDecimalType)
    return arrow.makeData({ ...base, data: widenDecimals(data, width, length) as never });
  return arrow.makeData({ ...base, data: (arrow.DataType.isBool(base.type) ? packBits(data) : data) as never });
}

const dataOf = ({ vector, size }: VectorSlice, width: number): Uint8Array =>
  duckdb.vector_get_data(vector, size * width);

function fixedWidthValues(slices: readonly VectorSlice[], length: number, width: number): Uint8Array {
  const values = new Uint8Array(length * width);
  let offset = 0;
  for (const slice of slices) {
    const { from, count } = slice;
    values.set(dataOf(slice, width).subarray(from * width, (from + count) * width), offset);
    offset += count * width;
  }
  return values;
}

function clearNulls(data: Uint8Array, width: number, validity: Uint8Array, length: number): void {
  for (let i = 0; i < length; i++) if (!isValid(validity, i)) data.fill(0, i * width, (i + 1) * width);
}

/** Arrow's decimals have 16 bytes; the engine's decimals have 2, 4, 8 or 16, depending on their precision. */
function widenDecimals(data: Uint8Array, width: number, length: number): Uint8Array {
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

/** Converts booleans of one byte each to one bit each. */
function packBits(bytes: Uint8Array): Uint8Array {
  const bits = new Uint8Array((bytes.length + 7) >> 3);
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== 0) (bits[i >> 3] as number) |= 1 << (i & 7);
  return bits;
}

/** Strings and blobs. */
function strings(slices: readonly VectorSlice[], length: number, validity: Validity) {
  const parts = slices.map((slice) => {
    const data = viewOf(dataOf(slice, stringBytes));
    return { ...slice, data, longStrings: new NonInlinedStrings(data) };
  });
  const valueOffsets = new Int32Array(length + 1);
  let bytes = 0;
  let item = 0;
  for (const { from, count, data, longStrings } of parts) {
    for (let i = from; i < from + count; i++) {
      if (validity === undefined || isValid(validity, item)) {
        const itemBytes = data.getUint32(i * stringBytes, true);
        if (itemBytes > inlineBytesMax) longStrings.add(i, itemBytes);
        bytes += itemBytes;
      }
      requireInt32(bytes);
      valueOffsets[++item] = bytes;
    }
  }
  const buffer = new Uint8Array(bytes + inlineBytesMax);
  const target = viewOf(buffer);
  let start = 0;
  item = 0;
  for (const { from, count, data, longStrings } of parts) {
    for (let i = from; i < from + count; i++) {
      const end = valueOffsets[++item] as number;
      const offset = i * stringBytes;
      if (end - start > inlineBytesMax) longStrings.copy(i, end - start, buffer, start);
      else if (end > start) {
        // Copies all 12 bytes, which is several times as fast as byte by byte: the next string overwrites the excess.
        target.setUint32(start, data.getUint32(offset + 4, true), true);
        target.setUint32(start + 4, data.getUint32(offset + 8, true), true);
        target.setUint32(start + 8, data.getUint32(offset + 12, true), true);
      }
      start = end;
    }
  }
  return { valueOffsets, data: buffer.subarray(0, bytes) };
}

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength);

interface ListLayout {
  readonly valueOffsets: Int32Array;
  readonly items: readonly VectorSlice[];
}

function listItems(slices: readonly VectorSlice[], validity: Validity): ListLayout {
  const builder = new ListLayoutBuilder(slices);
  for (const slice of slices) {
    const vector = duckdb.list_vector_get_child(slice.vector);
    const size = duckdb.list_vector_get_size(slice.vector);
    const data = dataOf(slice, listBytes);
    const words = new BigUint64Array(data.buffer, data.byteOffset, data.byteLength / 8);
    for (let i = slice.from; i < slice.from + slice.count; i++)
      builder.add(vector, size, Number(words[i * 2]), Number(words[i * 2 + 1]), validity);
  }
  return builder;
}

function arrayItems(slices: readonly VectorSlice[], validity: Validity, length: number): ListLayout {
  const builder = new ListLayoutBuilder(slices);
  for (const slice of slices) {
    const vector = duckdb.array_vector_get_child(slice.vector);
    for (let i = slice.from; i < slice.from + slice.count; i++)
      builder.add(vector, slice.size * length, i * length, length, validity);
  }
  return builder;
}

/** Collects the items of lists in order; adjacent items are merged into one slice. */
class ListLayoutBuilder implements ListLayout {
  readonly valueOffsets: Int32Array;
  readonly items: VectorSlice[] = [];
  #lists = 0;
  #count = 0;

  constructor(slices: readonly VectorSlice[]) {
    this.valueOffsets = new Int32Array(1 + slices.reduce((sum, { count }) => sum + count, 0));
  }

  add(vector: duckdb.Vector, size: number, from: number, count: number, validity: Validity): void {
    // The offset and length of a null list are undefined.
    if (count > 0 && (validity === undefined || isValid(validity, this.#lists))) {
      const last = this.items.at(-1);
      if (last?.vector === vector && last.from + last.count === from)
        this.items[this.items.length - 1] = { ...last, count: last.count + count };
      else this.items.push({ vector, size, from, count });
      this.#count += count;
    }
    requireInt32(this.#count);
    this.valueOffsets[++this.#lists] = this.#count;
  }
}

const fieldOf = (slices: readonly VectorSlice[], field: number): VectorSlice[] =>
  slices.map((slice) => ({ ...slice, vector: duckdb.struct_vector_get_child(slice.vector, field) }));

function mapEntries(type: DuckDBMapType, items: readonly VectorSlice[]): arrow.Data {
  const children = [arrowData(type.keyType, fieldOf(items, 0)), arrowData(type.valueType, fieldOf(items, 1))];
  const length = children[0]?.length ?? 0;
  return arrow.makeData({ type: entriesOf(type), length, nullCount: 0, children });
}

/** Concatenates the validity bits of all slices. The engine and Arrow use the same bit order. */
function validityOf(slices: readonly VectorSlice[], length: number, parentValidity: Validity): Validity {
  const parts = slices.map(({ vector, size }) => duckdb.vector_get_validity(vector, Math.ceil(size / 64) * 8));
  if (parentValidity === undefined && parts.every((part) => !part)) return undefined;
  const bits = new Uint8Array((length + 7) >> 3);
  let index = 0;
  for (const [i, { from, count }] of slices.entries()) {
    const part = parts[i];
    for (let item = from; item < from + count; item++, index++)
      if ((!part || isValid(part, item)) && (!parentValidity || isValid(parentValidity, index)))
        (bits[index >> 3] as number) |= 1 << (index & 7);
  }
  return bits;
}

const isValid = (validity: Uint8Array, item: number): boolean =>
  (((validity[item >> 3] as number) >> (item & 7)) & 1) === 1;

function countOnes(bits: Uint8Array): number {
  let count = 0;
  for (let byte of bits) for (; byte !== 0; byte &= byte - 1) count++;
  return count;
}

function requireInt32(count: number): void {
  if (count > int32Max) throw new Error('a batch has more items or bytes than Arrow offsets can address');
}
