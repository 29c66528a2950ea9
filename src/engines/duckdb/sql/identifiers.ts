// How names and texts are written into DuckDB's SQL. Names are any Unicode without control characters (model/names.ts).
import type { DatabaseRef, TableRef } from '../../engine.ts';

/** Always quoted, so that keywords, spaces, dots and case need no thought. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** As DuckDB folds names: the case of ASCII letters alone. */
export const foldedName = (name: string): string => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** Whether two names are one to DuckDB. */
export const sameName = (one: string, other: string): boolean => foldedName(one) === foldedName(other);

export function qualifiedSchema(ref: DatabaseRef): string {
  return `${quoteIdentifier(ref.catalog.name)}.${quoteIdentifier(ref.database)}`;
}

export function qualifiedTable(ref: TableRef): string {
  return `${qualifiedSchema(ref)}.${quoteIdentifier(ref.table)}`;
}
