// Columns of a chunk as Arrow's: which type each becomes, and its values in Arrow's layout. What Arrow has no type for (times of
// day, intervals, enumerations) has been made a text in SQL before.
import type {
  DuckDBBlobValue,
  DuckDBDateValue,
  DuckDBDecimalValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructValue,
  DuckDBTimestampValue,
  DuckDBType,
  DuckDBValue,
} from '@duckdb/node-api';
import { DuckDBArrayType, DuckDBDecimalType, DuckDBListType, DuckDBMapType, DuckDBStructType } from '@duckdb/node-api';
import * as arrow from 'apache-arrow';
import { parseEngineType } from './type_text.ts';

const decimalBytes = 16;
const int32Max = 2 ** 31 - 1;
type Values = readonly (DuckDBValue | null)[];

interface Scalar {
  readonly type: () => arrow.DataType;
  readonly array: (length: number) => ArrayBufferView;
  readonly put: (array: never, at: number, value: never) => void;
}

const set = (array: Record<number, unknown>, at: number, value: unknown) => {
  array[at] = value;
};
const numbers = (type: () => arrow.DataType, Numbers: new (length: number) => ArrayBufferView): Scalar => ({
  type,
  array: (length) => new Numbers(length),
  put: set as Scalar['put'],
});
const instants = (zone: string | null): Scalar => ({
  type: () => new arrow.Timestamp(arrow.TimeUnit.MICROSECOND, zone),
  array: (length) => new BigInt64Array(length),
  put: (array: BigInt64Array, at: number, { micros }: DuckDBTimestampValue) => {
    array[at] = micros;
  },
});

/** By what DuckDB calls them. */
const scalars: Readonly<Record<string, Scalar>> = {
  BOOLEAN: {
    type: () => new arrow.Bool(),
    array: (length) => new Uint8Array((length + 7) >> 3),
    put: (array: Uint8Array, at: number, value: boolean) => {
      if (value) (array[at >> 3] as number) |= 1 << (at & 7);
    },
  },
  TINYINT: numbers(() => new arrow.Int8(), Int8Array),
  SMALLINT: numbers(() => new arrow.Int16(), Int16Array),
  INTEGER: numbers(() => new arrow.Int32(), Int32Array),
  BIGINT: numbers(() => new arrow.Int64(), BigInt64Array),
  UTINYINT: numbers(() => new arrow.Uint8(), Uint8Array),
  USMALLINT: numbers(() => new arrow.Uint16(), Uint16Array),
  UINTEGER: numbers(() => new arrow.Uint32(), Uint32Array),
  UBIGINT: numbers(() => new arrow.Uint64(), BigUint64Array),
  FLOAT: numbers(() => new arrow.Float32(), Float32Array),
  DOUBLE: numbers(() => new arrow.Float64(), Float64Array),
  DATE: {
    type: () => new arrow.DateDay(),
    array: (length) => new Int32Array(length),
    put: (array: Int32Array, at: number, { days }: DuckDBDateValue) => {
      array[at] = days;
    },
  },
  TIMESTAMP: instants(null),
  'TIMESTAMP WITH TIME ZONE': instants('UTC'),
};

/** The type that a column is cast to first, where Arrow has none of its own. */
export function arrowable(type: string): string {
  const parsed = parseEngineType(type);
  if (parsed.kind === 'union') return 'VARCHAR';
  if (parsed.kind !== 'scalar') return type;
  const isKnown = Object.hasOwn(scalars, parsed.name) || ['BLOB', 'HUGEINT', 'UHUGEINT'].includes(parsed.name);
  return isKnown ? type : 'VARCHAR';
}

export function arrowType(type: DuckDBType): arrow.DataType {
  if (type instanceof DuckDBDecimalType) return new arrow.Decimal(type.scale, type.width, decimalBytes * 8);
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType)
    return new arrow.List(new arrow.Field('item', arrowType(type.valueType), true));
  if (type instanceof DuckDBStructType)
    return new arrow.Struct(
      type.entryTypes.map((one, i) => new arrow.Field(type.entryNames[i] as string, arrowType(one), true)),
    );
  if (type instanceof DuckDBMapType) return new arrow.Map_(entriesOf(type), false);
  const scalar = scalars[String(type)];
  if (scalar) return scalar.type();
  return String(type) === 'BLOB' ? new arrow.Binary() : new arrow.Utf8();
}

function entriesOf({ keyType, valueType }: DuckDBMapType) {
  const key = new arrow.Field('key', arrowType(keyType), false);
  const value = new arrow.Field('value', arrowType(valueType), true);
  return new arrow.Field(
    'entries',
    new arrow.Struct<{ key: arrow.DataType; value: arrow.DataType }>([key, value]),
    false,
  );
}

/** The values of one column, or of what lies in one. */
export function arrowData(type: DuckDBType, values: Values): arrow.Data {
  const { length } = values;
  const { nullCount, nullBitmap } = nullsOf(values);
  const made = { type: arrowType(type) as never, length, nullCount, nullBitmap };
  if (type instanceof DuckDBDecimalType) return arrow.makeData({ ...made, data: decimals(values) as never });
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType) {
    const items: (DuckDBValue | null)[] = [];
    const valueOffsets = offsetsOf(values, (value) => {
      const list = (value as DuckDBListValue).items;
      for (const item of list) items.push(item);
      return list.length;
    });
    return arrow.makeData({ ...made, valueOffsets, child: arrowData(type.valueType, items) });
  }
  if (type instanceof DuckDBStructType) {
    const children = type.entryTypes.map((one, i) => {
      const name = type.entryNames[i] as string;
      return arrowData(
        one,
        values.map((value) => (value === null ? null : ((value as DuckDBStructValue).entries[name] ?? null))),
      );
    });
    return arrow.makeData({ ...made, children });
  }
  if (type instanceof DuckDBMapType) return mapData(type, values, made);
  const scalar = scalars[String(type)];
  if (!scalar) return bytesData(type, values, made);
  const data = scalar.array(length);
  for (let i = 0; i < length; i++) if (values[i] !== null) scalar.put(data as never, i, values[i] as never);
  return arrow.makeData({ ...made, data: data as never });
}

interface Made {
  readonly type: never;
  readonly length: number;
  readonly nullCount: number;
  readonly nullBitmap: Uint8Array;
}

function mapData(type: DuckDBMapType, values: Values, made: Made): arrow.Data {
  const keys: (DuckDBValue | null)[] = [];
  const held: (DuckDBValue | null)[] = [];
  const valueOffsets = offsetsOf(values, (value) => {
    const { entries } = value as DuckDBMapValue;
    for (const entry of entries) {
      keys.push(entry.key);
      held.push(entry.value);
    }
    return entries.length;
  });
  const child = arrow.makeData({
    type: entriesOf(type).type,
    length: keys.length,
    nullCount: 0,
    children: [arrowData(type.keyType, keys), arrowData(type.valueType, held)],
  });
  return arrow.makeData({ ...made, valueOffsets, child: child as never });
}

/** Texts, and bytes. */
function bytesData(type: DuckDBType, values: Values, made: Made): arrow.Data {
  const isText = String(type) !== 'BLOB';
  const parts: Uint8Array[] = [];
  if (isText) {
    // One text for all of them, and its lengths: to encode each by itself would take several times as long.
    const valueOffsets = offsetsOf(values, (value) => Buffer.byteLength(String(value)));
    return arrow.makeData({ ...made, valueOffsets, data: Buffer.from(values.join('')) });
  }
  const valueOffsets = offsetsOf(values, (value) => {
    const { bytes } = value as DuckDBBlobValue;
    parts.push(bytes);
    return bytes.length;
  });
  return arrow.makeData({ ...made, valueOffsets, data: Buffer.concat(parts) });
}

/** Where each begins, and the end of the last. */
function offsetsOf(values: Values, lengthOf: (value: DuckDBValue) => number): Int32Array {
  const offsets = new Int32Array(values.length + 1);
  let at = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (value !== null && value !== undefined) at += lengthOf(value);
    if (at > int32Max) throw new Error('a batch holds more than Arrow can count');
    offsets[i + 1] = at;
  }
  return offsets;
}

function decimals(values: Values): Uint32Array {
  const words = new BigInt64Array(values.length * 2);
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (value === null) continue;
    const unscaled = (value as DuckDBDecimalValue).value;
    words[i * 2] = BigInt.asIntN(64, unscaled);
    words[i * 2 + 1] = unscaled >> 64n;
  }
  return new Uint32Array(words.buffer);
}

function nullsOf(values: Values): { nullCount: number; nullBitmap: Uint8Array } {
  const nullBitmap = new Uint8Array((values.length + 7) >> 3);
  let nullCount = 0;
  for (let i = 0; i < values.length; i++) {
    if (values[i] === null) nullCount++;
    else (nullBitmap[i >> 3] as number) |= 1 << (i & 7);
  }
  return { nullCount, nullBitmap };
}
