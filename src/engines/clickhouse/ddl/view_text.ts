// The text of a view as a server reports it: finds the tables that it names, and puts queries without rows in their place, so that a server
// can bind it to tables that do not exist yet.
import type { BoundColumn } from '../query/bound_statement.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import type { TablePlace } from './server_tables.ts';

/** What a server writes: texts, quoted names, words, numbers and single characters. */
const piecePattern =
  /'(?:[^'\\]|\\[\s\S]|'')*'|(`(?:[^`\\]|\\[\s\S])*`|"(?:[^"\\]|\\[\s\S])*"|[A-Za-z_]\w*)|\d\w*|[\s\S]/g;
const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', '0': '\0' };

interface Piece {
  readonly text: string;
  /** Of a name, without quotes. */
  readonly name: string | undefined;
}

function piecesOf(text: string): readonly Piece[] {
  return [...text.matchAll(piecePattern)].map(([piece, name]) => ({ text: piece, name: name && unquoted(name) }));
}

const unquoted = (name: string): string =>
  /^[`"]/.test(name) ? name.slice(1, -1).replaceAll(/\\([\s\S])/g, (_, char: string) => escapes[char] ?? char) : name;

export const placeKey = ({ database, table }: TablePlace): string => JSON.stringify([database, table]);

/**
 * Replaces each `database.table` for which `replacement` returns a text. A column cannot be taken for a table: columns are qualified by
 * aliases, and no alias has the name of a database without the query failing afterwards.
 */
export function replaceTables(text: string, replacement: (key: string) => string | undefined): string {
  const pieces = piecesOf(text);
  const written: string[] = [];
  for (let i = 0; i < pieces.length; i++) {
    const [before, first, dot, last, after] = [i - 1, i, i + 1, i + 2, i + 3].map((index) => pieces[index]);
    const isPair =
      first?.name !== undefined &&
      dot?.text === '.' &&
      last?.name !== undefined &&
      before?.text !== '.' &&
      after?.text !== '.';
    const found = isPair ? replacement(placeKey({ database: first.name ?? '', table: last.name ?? '' })) : undefined;
    written.push(found ?? first?.text ?? '');
    if (found !== undefined) i += 2;
  }
  return written.join('');
}

export function tablesIn(text: string): ReadonlySet<string> {
  const found = new Set<string>();
  replaceTables(text, (key) => {
    found.add(key);
    return undefined;
  });
  return found;
}

/** A query without rows that has these columns, none of them a constant. */
export function emptyQuery(columns: readonly BoundColumn[]): string {
  const structure = columns.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`).join(', ');
  return `(SELECT * FROM null(${quoteLiteral(structure)}))`;
}
