// The types of columns in PostgreSQL, and how their values are read.
import { sql } from 'kysely';
import { types } from 'pg';
import type { ColumnTypes } from '../migrations/migration.ts';

/** `collate "C"` compares the bytes of UTF-8, whose order is that of code points, whatever the collation of the database is. */
export const postgresqlColumnTypes: ColumnTypes = {
  name: sql`text collate "C"`,
  integer: 'bigint',
  double: 'double precision',
  increasing: (column) => column.generatedAlwaysAsIdentity(),
};

type Parser = (text: string) => unknown;

/** Throws RangeError if the value is not an integer that a number represents exactly. */
function parseInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value))
    throw new RangeError(`the store contains ${text}, which is not an integer below 2^53`);
  return value;
}

/** A sum of `bigint` has the type `numeric`. */
const parsers = new Map<number, Parser>([
  [types.builtins.INT8, parseInteger],
  [types.builtins.NUMERIC, parseInteger],
]);

export const columnValues = {
  getTypeParser: (oid: number, format?: 'text' | 'binary'): Parser =>
    parsers.get(oid) ?? (types.getTypeParser(oid, format as 'text') as Parser),
};
