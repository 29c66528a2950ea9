// Writes names and strings as DuckDB SQL. Names can contain any Unicode except control characters (see model/names.ts).
import type { DatabaseRef, TableRef } from '../../port/refs.ts';

/** Always quoted, so that keywords, spaces, dots and case need no special treatment. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** The folded form that DuckDB compares: only ASCII letters are folded. */
export const foldedName = (name: string): string => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** Whether DuckDB treats two names as the same. */
export const sameName = (name: string, other: string): boolean => foldedName(name) === foldedName(other);

export function qualifiedSchema(ref: DatabaseRef): string {
  return `${quoteIdentifier(ref.catalog.name)}.${quoteIdentifier(ref.database)}`;
}

export function qualifiedTable(ref: TableRef): string {
  return `${qualifiedSchema(ref)}.${quoteIdentifier(ref.table)}`;
}
