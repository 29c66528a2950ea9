// Checksums of tables that do not depend on the engine: two engines that hold the same rows, in any order, compute the same values. They
// show that a copy in another engine is complete and exact. Each engine computes them from its own data, and an
// import from the values of its source.
import type { ColumnDefinition } from './records.ts';

/*
 * The definition. Each value that is not null has a number n. BOOLEAN: 0 or 1; integers: the value; DECIMAL: the unscaled integer; DATE:
 * days since 1970-01-01; DATETIME and TIMESTAMPTZ: microseconds since then, infinite ones ±(2^63 - 1); FLOAT and DOUBLE: the bits of the
 * value as an IEEE 754 double, read as a signed integer, of NaN 0x7FF8000000000000. All others: the last 8 bytes of the MD5 of their
 * bytes, read as an unsigned little-endian integer. The bytes of CHAR, VARCHAR, STRING and JSON are the text in UTF-8, those of UUID the
 * text in lower case, and those of ARRAY, MAP and STRUCT the text that `nestedText` describes.
 *
 * A column has the number of its nulls and three sums over its numbers, with remainders that have the sign of n: of n mod P, of n mod Q,
 * and of (n mod P)² mod P.
 */

/** 2^31 - 1 */
export const checksumP = 2_147_483_647n;
/** 2^61 - 1 */
export const checksumQ = 2_305_843_009_213_693_951n;
/** Whether a number, as decimal text, differs from its remainder by P. */
export const isBeyondP = (n: string): boolean => BigInt(n) >= checksumP || BigInt(n) <= -checksumP;
export const checksumNaN = 0x7ff8000000000000n;
export const checksumInfinity = 9_223_372_036_854_775_807n;

/**
 * How a value of a nested type is written as text: null is `n`; a scalar with a number of its own is that number; other scalars are the
 * length of their bytes, `:` and the bytes (BINARY: hexadecimal in lower case); an array is `[` its items, each followed by `,`, `]`; a
 * map is `{` its entries in their order, each `key=value,`, `}`; a struct is `(` its fields in their order, each followed by `,`, `)`.
 */
export const nestedText = {
  null: 'n',
  array: '[]',
  map: '{}',
  struct: '()',
  item: ',',
  entry: '=',
  length: ':',
} as const;

export interface ColumnChecksum {
  readonly nulls: number;
  /** Decimal texts. */
  readonly sums: readonly string[];
}

export interface TableChecksum {
  readonly rows: number;
  /** In the order of the request. */
  readonly columns: readonly ColumnChecksum[];
}

export interface ChecksumDifference {
  /** Null: the numbers of rows differ. */
  readonly column: string | null;
}

/** The first difference between the checksums of two tables; undefined if there is none. */
export function checksumDifference(
  columns: readonly Pick<ColumnDefinition, 'name'>[],
  a: TableChecksum,
  b: TableChecksum,
): ChecksumDifference | undefined {
  if (a.rows !== b.rows) return { column: null };
  const differs = columns.find(({ name: _ }, i) => JSON.stringify(a.columns[i]) !== JSON.stringify(b.columns[i]));
  return differs && { column: differs.name };
}
