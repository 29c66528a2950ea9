// How names and texts are written into DuckDB's SQL. Names are any Unicode without control characters (model/names.ts).
import type { DatabaseRef, TableRef } from '../engine.ts';

/** Always quoted, so that keywords, spaces, dots and case need no thought. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** Whether two names are one to DuckDB, which folds the case of ASCII letters alone. */
export function sameName(one: string, other: string): boolean {
  const fold = (name: string) => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  return fold(one) === fold(other);
}

export function qualifiedSchema(ref: DatabaseRef): string {
  return `${quoteIdentifier(ref.catalog.name)}.${quoteIdentifier(ref.database)}`;
}

export function qualifiedTable(ref: TableRef): string {
  return `${qualifiedSchema(ref)}.${quoteIdentifier(ref.table)}`;
}
