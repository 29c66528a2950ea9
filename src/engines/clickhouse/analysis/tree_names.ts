// The names of tables in a query tree: there a database and a table are joined with a dot, so that with dots in names, two tables can have one name.
import { Failure } from '../../../standard/failure.ts';
import type { StoredNames } from '../connection/server.ts';
import { parsedDatabase } from '../names.ts';
import { type NamedTable, scanTableNames } from '../sql/table_names.ts';
import { isName, nameOf, type Token, tokensOf } from '../sql/tokens.ts';

type Place = Pick<StoredNames, 'database' | 'table'>;

/** As a tree names it. */
export const treeName = ({ database, table }: Place): string => `${database}.${table}`;

const isAmbiguous = (name: string): boolean => name.indexOf('.') !== name.lastIndexOf('.');

export const ambiguousName = (): Failure =>
  new Failure('SQL_NOT_SUPPORTED', 'a table name is ambiguous; write table names in full: catalog.database.table');

/**
 * Throws SQL_NOT_SUPPORTED if a text has the name of a table as it is stored, at a place at which no table was expected, where it reaches the
 * server as it is: its name in the tree could be that of another table, for which the statement is authorized.
 */
export function refuseStoredNames(tokens: readonly Token[], expected: readonly NamedTable[]): void {
  const known = new Set(expected.map(({ first }) => first));
  tokens.forEach((token, index) => {
    const table = tokens[index + 2];
    if (!isName(token) || !table || !isName(table) || tokens[index + 1]?.text !== '.') return;
    if (known.has(index) || tokens[index - 1]?.text === '.') return;
    const place = { database: nameOf(token), table: nameOf(table) };
    if (isAmbiguous(treeName(place)) && parsedDatabase(place.database)) throw ambiguousName();
  });
}

/** The table of a name in the tree of a query that a server has stored. `query`: its text. Throws SQL_NOT_SUPPORTED if that is not clear. */
export function placeInStored(name: string, query: string): Place {
  const dot = name.indexOf('.');
  if (!isAmbiguous(name)) return { database: name.slice(0, dot), table: name.slice(dot + 1) };
  const places = new Map<string, Place>();
  for (const { parts } of scanTableNames(tokensOf(query)).tables) {
    const [database = '', table = ''] = parts;
    if (parts.length === 2 && treeName({ database, table }) === name) places.set(database, { database, table });
  }
  const [place, ...others] = places.values();
  if (!place || others.length > 0) throw ambiguousName();
  return place;
}
