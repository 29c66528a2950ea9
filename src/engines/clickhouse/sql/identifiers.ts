// Quotes names and strings in SQL for ClickHouse.
import type { StoredNames } from '../connection/server.ts';

export const quoteIdentifier = (name: string): string => `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;

/** The name in a text of a server, in which a plain one is not quoted. */
export const unquoteIdentifier = (text: string): string =>
  text.startsWith('`') ? text.slice(1, -1).replaceAll(/\\(.)/g, '$1') : text;

export const quoteLiteral = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

export const qualifiedName = ({ database, table }: Pick<StoredNames, 'database' | 'table'>): string =>
  `${quoteIdentifier(database)}.${quoteIdentifier(table)}`;

/** Names of catalogs, databases and tables are compared without regard to case. */
export const foldedName = (name: string): string => name.toLowerCase();
