// The names of catalogs, databases and tables on the servers. A catalog and a database are one database there; the two parts of its name
// are encoded so that they can be distinguished.
import type { TableName } from '../port/refs.ts';
import type { StoredNames } from './connection/server.ts';

const separator = '__';
export const localSuffix = '__local';

/** The database with what the adapter itself stores. */
export const internalDatabase = '_tabularium';

/** Encodes `%`, and underscores that could be read as a part of the separator. */
const encoded = (part: string): string => part.replaceAll('%', '%25').replaceAll(/_(?=_|$)|^_/g, '%5F');

const decoded = (part: string): string => part.replaceAll('%5F', '_').replaceAll('%25', '%');

export const storedDatabase = (catalog: string, database: string): string =>
  `${encoded(catalog)}${separator}${encoded(database)}`;

/** The database with the dropped tables of a catalog, by their ids. No catalog has such a name. */
export const hiddenDatabase = (catalogId: string): string => `${internalDatabase}_${catalogId}`;

/** The id of the catalog whose dropped tables a database has; undefined if it is none of those. */
export const hiddenCatalogOf = (stored: string): string | undefined =>
  /^_tabularium_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(stored)?.[1];

/** While a catalog is hidden, its databases begin with this instead of its name. */
export const hiddenPrefix = (catalogId: string): string => `${hiddenDatabase(catalogId)}${separator}`;

/** All databases of a catalog begin with this. */
export const databasePrefix = (catalog: string): string => `${encoded(catalog)}${separator}`;

export const namesOf = ({ catalog, database, table }: TableName): StoredNames => ({
  database: storedDatabase(catalog, database),
  table: encodedTable(table),
  localTable: `${encodedTable(table)}${localSuffix}`,
});

/** The local table under the Distributed one of this name. */
export const localTableOf = (table: string): string => `${table}${localSuffix}`;

export const isLocal = (stored: string): boolean => stored.endsWith(localSuffix);

/** A table whose name ends like that of a local table would be taken for one. */
const encodedTable = (table: string): string => table.replaceAll('%', '%25').replaceAll(/_(?=_)/g, '%5F');

/** The names of a database on the servers; undefined if it is none of a catalog. */
export function parsedDatabase(stored: string): { readonly catalog: string; readonly database: string } | undefined {
  const parts = stored.split(separator);
  if (parts.length !== 2 || parts.includes('')) return undefined;
  const [catalog = '', database = ''] = parts.map(decoded);
  return { catalog, database };
}

/** The name of a table of a user, from that of its table for reading or of its local table. */
export const parsedTable = (stored: string): string =>
  decoded(stored.endsWith(localSuffix) ? stored.slice(0, -localSuffix.length) : stored);

/** Directories of databases and tables are named with each special byte as three, and file systems allow 255. */
const fileNameBytesMax = 200;

/** Why a name cannot be used on the servers, or undefined. */
export function nameTooLong(name: string): string | undefined {
  const escaped = Buffer.from(encoded(name)).reduce((sum, byte) => sum + (isPlain(byte) ? 1 : 3), 0);
  return escaped > fileNameBytesMax / 2
    ? 'it is too long: a name can have at most 100 bytes on this engine, 33 of them special'
    : undefined;
}

const isPlain = (byte: number): boolean => /[A-Za-z0-9_]/.test(String.fromCharCode(byte)) && byte < 128;
