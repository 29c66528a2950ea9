// The checksum of a table (model/table_checksum.ts) from the texts of its values, as an import reads them.
import { hash } from 'node:crypto';
import {
  type ColumnChecksum,
  checksumNaN,
  checksumP,
  checksumQ,
  nestedText as signs,
  type TableChecksum,
} from '../../../model/table_checksum.ts';
import type { LogicalType } from '../../../model/types.ts';
import { parseJson } from '../../../standard/json/parse_json.ts';

/** Numbers with a smaller magnitude are added as doubles, which are exact up to 2^53. */
const smallMax = 2 ** 51;
const P = Number(checksumP);
const cachedTextsMax = 4096;
const cachedTextCharactersMax = 64;

type NumberOf = (text: string) => number | bigint;

export class TextChecksum {
  readonly #columns: readonly ColumnSum[];
  #rows = 0;

  constructor(types: readonly LogicalType[]) {
    this.#columns = types.map((type) => new ColumnSum(numberOf(type)));
  }

  get rows(): number {
    return this.#rows;
  }

  add(row: readonly (string | null)[]): void {
    this.#rows++;
    for (const [i, column] of this.#columns.entries()) column.add(row[i] ?? null);
  }

  get value(): TableChecksum {
    return { rows: this.#rows, columns: this.#columns.map((column) => column.value) };
  }
}

/** The sums of small numbers are doubles until they could become inexact. */
class ColumnSum {
  readonly #numberOf: NumberOf;
  #nulls = 0;
  #sums: [bigint, bigint, bigint] = [0n, 0n, 0n];
  #small: [number, number, number] = [0, 0, 0];

  constructor(toNumber: NumberOf) {
    this.#numberOf = toNumber;
  }

  add(text: string | null): void {
    if (text === null) {
      this.#nulls++;
      return;
    }
    const n = this.#numberOf(text);
    if (typeof n === 'bigint') {
      this.#sums[1] += n % checksumQ;
      this.#addRemainder(Number(n % checksumP));
    } else {
      this.#small[1] += n;
      this.#addRemainder(n % P);
    }
  }

  #addRemainder(remainder: number): void {
    const small = this.#small;
    small[0] += remainder;
    small[2] += squareModP(Math.abs(remainder));
    if (small.some((sum) => Math.abs(sum) > smallMax)) this.#flush();
  }

  #flush(): void {
    this.#small.forEach((sum, i) => {
      this.#sums[i as 0 | 1 | 2] += BigInt(sum);
    });
    this.#small = [0, 0, 0];
  }

  get value(): ColumnChecksum {
    this.#flush();
    return { nulls: this.#nulls, sums: this.#sums.map(String) };
  }
}

/** r² mod P for 0 <= r < 2^31, in two steps that doubles hold. */
function squareModP(r: number): number {
  const high = Math.floor(r / 65_536);
  return (((((high * r) % P) * 65_536) % P) + (r % 65_536) * r) % P;
}

/** The number of a value, by its text. */
export function numberOf(type: LogicalType): NumberOf {
  switch (type.kind) {
    case 'BOOLEAN':
      return (text) => (text === 'true' ? 1 : 0);
    case 'TINYINT':
    case 'SMALLINT':
    case 'INT':
      return Number;
    case 'BIGINT':
    case 'LARGEINT':
      return integerOf;
    case 'DECIMAL':
      return (text) => integerOf(text.replace('.', ''));
    case 'FLOAT':
      return (text) => bitsOf(Math.fround(Number(text)));
    case 'DOUBLE':
      return (text) => bitsOf(Number(text));
    case 'DATE':
      return daysOf;
    case 'DATETIME':
    case 'TIMESTAMPTZ':
      return microsecondsOf;
    case 'BINARY':
      return (text) => lastOfMd5(hash('md5', Buffer.from(text, 'base64'), 'buffer'));
    case 'ARRAY':
    case 'MAP':
    case 'STRUCT': {
      const write = nestedWriter(type);
      return (text) => md5Number(write(parseJson(text)));
    }
    default:
      return cachedMd5();
  }
}

function integerOf(text: string): number | bigint {
  const n = Number(text);
  return Math.abs(n) < smallMax ? n : BigInt(text);
}

const bits = new DataView(new ArrayBuffer(8));

function bitsOf(value: number): bigint {
  if (Number.isNaN(value)) return checksumNaN;
  bits.setFloat64(0, value);
  return bits.getBigInt64(0);
}

const dayMs = 86_400_000;

/** Milliseconds since 1970 of a date; `Date.UTC` takes the years below 100 for others. */
function dateMs(text: string): number {
  const year = Number(text.slice(0, 4));
  const [month, day] = [Number(text.slice(5, 7)) - 1, Number(text.slice(8, 10))];
  return year >= 100 ? Date.UTC(year, month, day) : new Date(0).setUTCFullYear(year, month, day);
}

const daysOf = (text: string): number => dateMs(text) / dayMs;

/** `2026-01-31T10:00:00.123456`, with or without Z. */
function microsecondsOf(text: string): number | bigint {
  const seconds = Number(text.slice(11, 13)) * 3600 + Number(text.slice(14, 16)) * 60 + Number(text.slice(17, 19));
  const fraction = text.charCodeAt(19) === 0x2e ? text.slice(20).replace('Z', '').padEnd(6, '0') : '0';
  const ms = dateMs(text) + seconds * 1000;
  const n = ms * 1000 + Number(fraction);
  return Math.abs(n) < smallMax ? n : BigInt(ms) * 1000n + BigInt(fraction);
}

const lastOfMd5 = (digest: Buffer): bigint => digest.readBigUInt64LE(8);
const md5Number = (text: string): bigint => lastOfMd5(hash('md5', text, 'buffer'));

/** Texts that repeat are hashed once, because a hash takes longer than all else. */
function cachedMd5(): NumberOf {
  const known = new Map<string, bigint>();
  return (text) => {
    if (text.length > cachedTextCharactersMax) return md5Number(text);
    const found = known.get(text);
    if (found !== undefined) return found;
    const n = md5Number(text);
    if (known.size < cachedTextsMax) known.set(text, n);
    return n;
  };
}

type Write = (value: unknown) => string;

function nestedWriter(type: LogicalType): Write {
  const write = presentWriter(type);
  return (value) => (value === null || value === undefined ? signs.null : write(value));
}

function presentWriter(type: LogicalType): Write {
  switch (type.kind) {
    case 'ARRAY': {
      const item = nestedWriter(type.element);
      return (value) => inside(signs.array, (value as readonly unknown[]).map(item));
    }
    case 'MAP': {
      const [key, entry] = [nestedWriter(type.key), nestedWriter(type.value)];
      return (value) => {
        const entries = value as readonly { readonly key: unknown; readonly value: unknown }[];
        return inside(
          signs.map,
          entries.map((each) => `${key(each.key)}${signs.entry}${entry(each.value)}`),
        );
      };
    }
    case 'STRUCT': {
      const fields = type.fields.map((field) => [field.name, nestedWriter(field.type)] as const);
      return (value) => {
        const struct = value as Readonly<Record<string, unknown>>;
        return inside(
          signs.struct,
          fields.map(([name, field]) => field(struct[name])),
        );
      };
    }
    case 'BINARY':
      return (value) => withLength(Buffer.from(String(value), 'base64').toString('hex'));
    case 'CHAR':
    case 'VARCHAR':
    case 'STRING':
    case 'UUID':
      return (value) => withLength(String(value));
    case 'JSON':
      return (value) => withLength(JSON.stringify(value));
    case 'DECIMAL':
      return (value) => String(integerOf(unscaled(textOf(value), type.scale)));
    default: {
      const toNumber = numberOf(type);
      return (value) => String(toNumber(textOf(value)));
    }
  }
}

/** The digits of a decimal, with those of its scale. */
function unscaled(text: string, scale: number): string {
  const [whole = '', fraction = ''] = text.split('.');
  return whole + fraction.padEnd(scale, '0');
}

const inside = ([open, close]: readonly [string, string] | string, items: readonly string[]): string =>
  `${open}${items.map((item) => `${item}${signs.item}`).join('')}${close}`;
const withLength = (text: string): string => `${Buffer.byteLength(text)}${signs.length}${text}`;
/** Numbers that a double does not hold are raw JSON. */
const textOf = (value: unknown): string => (JSON.isRawJSON(value) ? value.rawJSON : String(value));
