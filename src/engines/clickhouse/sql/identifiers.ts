// Quotes names and strings in SQL for ClickHouse.
import type { StoredNames } from '../connection/server.ts';

export const quoteIdentifier = (name: string): string => `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;

export const quoteLiteral = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

export const qualifiedName = ({ database, table }: Pick<StoredNames, 'database' | 'table'>): string =>
  `${quoteIdentifier(database)}.${quoteIdentifier(table)}`;

/** Names of catalogs, databases and tables are compared without regard to case. */
export const foldedName = (name: string): string => name.toLowerCase();
