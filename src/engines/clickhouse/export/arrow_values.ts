// Values of rows, in their JSON form, as Arrow vectors. 64-bit and wider numbers and JSON values are strings there.
import * as arrow from 'apache-arrow';
import type { LogicalType } from '../../../model/types.ts';

/** The type of Arrow that holds every value; values of LARGEINT have at most 38 digits. */
export function arrowTypeOf(type: LogicalType): arrow.DataType {
  switch (type.kind) {
    case 'BOOLEAN':
      return new arrow.Bool();
    case 'TINYINT':
      return new arrow.Int8();
    case 'SMALLINT':
      return new arrow.Int16();
    case 'INT':
      return new arrow.Int32();
    case 'BIGINT':
      return new arrow.Int64();
    case 'LARGEINT':
      return new arrow.Decimal(0, 38, 128);
    case 'DECIMAL':
      return new arrow.Decimal(type.scale, type.precision, 128);
    case 'FLOAT':
      return new arrow.Float32();
    case 'DOUBLE':
      return new arrow.Float64();
    case 'DATE':
      return new arrow.DateDay();
    case 'DATETIME':
      return new arrow.Timestamp(arrow.TimeUnit.MICROSECOND, null);
    case 'TIMESTAMPTZ':
      return new arrow.Timestamp(arrow.TimeUnit.MICROSECOND, 'UTC');
    case 'CHAR':
    case 'VARCHAR':
    case 'STRING':
    case 'UUID':
    case 'JSON':
      return new arrow.Utf8();
    case 'BINARY':
      return new arrow.Binary();
    case 'ARRAY':
      return new arrow.List(new arrow.Field('item', arrowTypeOf(type.element), true));
    case 'MAP':
      return new arrow.Map_(new arrow.Field('entries', entriesOf(type), false), false);
    case 'STRUCT':
      return new arrow.Struct(type.fields.map((field) => new arrow.Field(field.name, arrowTypeOf(field.type), true)));
  }
}

/** The entries of a map, which Arrow represents as a list of structs. */
const entriesOf = ({ key, value }: Extract<LogicalType, { kind: 'MAP' }>): arrow.Struct =>
  new arrow.Struct([
    new arrow.Field('key', arrowTypeOf(key), false),
    new arrow.Field('value', arrowTypeOf(value), true),
  ]);

type Values = readonly unknown[];

/** Throws RangeError if an integer has more digits than Arrow's type. */
export function arrowData(type: LogicalType, values: Values): arrow.Data {
  const length = values.length;
  const { nullBitmap, nullCount } = validityOf(values);
  const base = { type: arrowTypeOf(type), length, nullCount, nullBitmap };
  const make = (parts: object) => arrow.makeData({ ...base, ...parts } as never) as arrow.Data;
  switch (type.kind) {
    case 'BOOLEAN':
      return make({ data: bits(values, (value) => value === true) });
    case 'TINYINT':
      return make({ data: Int8Array.from(values, Number) });
    case 'SMALLINT':
      return make({ data: Int16Array.from(values, Number) });
    case 'INT':
      return make({ data: Int32Array.from(values, Number) });
    case 'FLOAT':
      return make({ data: Float32Array.from(values, Number) });
    case 'DOUBLE':
      return make({ data: Float64Array.from(values, Number) });
    case 'BIGINT':
      return make({ data: wide(values, BigInt) });
    case 'LARGEINT':
      return make({ data: decimals(values, 0) });
    case 'DECIMAL':
      return make({ data: decimals(values, type.scale) });
    case 'DATE':
      return make({
        data: Int32Array.from(values, (value) => (value === null ? 0 : Date.parse(String(value)) / dayMs)),
      });
    case 'DATETIME':
    case 'TIMESTAMPTZ':
      return make({ data: wide(values, microsecondsOf) });
    case 'BINARY':
      return make(bytes(values, 'base64'));
    case 'ARRAY': {
      const lists = values as readonly (Values | null)[];
      return make({ valueOffsets: offsetsOf(lists), child: arrowData(type.element, flat(lists)) });
    }
    case 'MAP': {
      const lists = values as readonly (readonly { readonly key: unknown; readonly value: unknown }[] | null)[];
      const entries = flat(lists);
      const children = [
        arrowData(
          type.key,
          entries.map(({ key }) => key),
        ),
        arrowData(
          type.value,
          entries.map(({ value }) => value),
        ),
      ];
      const entriesType = entriesOf(type);
      const child = arrow.makeData({ type: entriesType, length: entries.length, nullCount: 0, children });
      return make({ valueOffsets: offsetsOf(lists), child });
    }
    case 'STRUCT':
      return make({
        children: type.fields.map(({ name, type: field }, index) =>
          arrowData(
            field,
            values.map((value) => fieldOf(value, name, index)),
          ),
        ),
      });
    default:
      return make(bytes(values, 'utf8'));
  }
}

const dayMs = 24 * 60 * 60 * 1000;

/** Structs without names of fields are arrays. */
function fieldOf(value: unknown, name: string, index: number): unknown {
  if (value === null) return null;
  return (Array.isArray(value) ? value[index] : (value as Readonly<Record<string, unknown>>)[name]) ?? null;
}

function validityOf(values: Values): { readonly nullBitmap: Uint8Array | null; readonly nullCount: number } {
  const nullCount = values.reduce<number>((sum, value) => sum + (value === null ? 1 : 0), 0);
  return { nullCount, nullBitmap: nullCount === 0 ? null : bits(values, (value) => value !== null) };
}

function bits(values: Values, isSet: (value: unknown) => boolean): Uint8Array {
  const packed = new Uint8Array((values.length + 7) >> 3);
  for (const [i, value] of values.entries()) if (isSet(value)) packed[i >> 3] = (packed[i >> 3] ?? 0) | (1 << (i & 7));
  return packed;
}

const wide = (values: Values, read: (text: string) => bigint): BigInt64Array =>
  BigInt64Array.from(values, (value) => (value === null ? 0n : read(String(value))));

/** `2026-01-31T10:00:00.5Z` or without the zone, since 1970. */
function microsecondsOf(text: string): bigint {
  const [, fraction = ''] = /\.(\d+)/.exec(text) ?? [];
  return BigInt(Date.parse(`${text.slice(0, 19)}Z`)) * 1000n + BigInt(fraction.padEnd(6, '0'));
}

const decimalMax = 10n ** 38n;

function decimals(values: Values, scale: number): Uint32Array {
  const words = new BigInt64Array(values.length * 2);
  for (const [i, value] of values.entries()) {
    if (value === null) continue;
    const [whole = '', fraction = ''] = String(value).split('.');
    const unscaled = BigInt(`${whole}${fraction.padEnd(scale, '0')}`);
    if (unscaled >= decimalMax || unscaled <= -decimalMax) throw new RangeError('an integer has more than 38 digits');
    words[i * 2] = BigInt.asIntN(64, unscaled);
    words[i * 2 + 1] = unscaled >> 64n;
  }
  return new Uint32Array(words.buffer);
}

function bytes(values: Values, encoding: 'utf8' | 'base64') {
  const parts = values.map((value) => (value === null ? empty : Buffer.from(String(value), encoding)));
  return { valueOffsets: offsetsOf(parts), data: Buffer.concat(parts) };
}
const empty = Buffer.alloc(0);

function offsetsOf(lists: readonly ({ readonly length: number } | null)[]): Int32Array {
  const offsets = new Int32Array(lists.length + 1);
  for (const [i, list] of lists.entries()) offsets[i + 1] = (offsets[i] ?? 0) + (list?.length ?? 0);
  return offsets;
}

const flat = <T>(lists: readonly (readonly T[] | null)[]): T[] => lists.flatMap((list) => list ?? []);
