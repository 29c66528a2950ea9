// Parses CREATE VIEW up to AS. The query after AS is checked like any other (see qualified_view_sql.ts).
import { Failure } from '../../../standard/failure.ts';
import type { ParsedCreateView } from '../../views.ts';
import { sqlInvalid } from '../instance/sql_errors.ts';
import { quoteIdentifier } from './identifiers.ts';
import { contentOf, type Token, tokensOf, withoutSemicolon } from './statement_checks.ts';

const isName = (text: string) => /^(?:"|[\p{L}_]|[\u0080-\u{10ffff}])/u.test(text);

/** Undefined if the text is not a CREATE VIEW statement. Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
export function parseCreateView(sql: string): ParsedCreateView | undefined {
  const tokens = headOf(sql);
  const word = (i: number) => tokens[i]?.text.toUpperCase() ?? '';
  if (word(0) !== 'CREATE') return undefined;
  const viewIndex = tokens.findIndex(({ text }) => text.toUpperCase() === 'VIEW');
  const modifiers = tokens.slice(1, viewIndex).map(({ text }) => text.toUpperCase());
  if (viewIndex < 1 || !modifiers.every((modifier) => knownModifiers.has(modifier))) return undefined;
  if (modifiers.length > 0)
    throw new Failure(
      'SQL_NOT_SUPPORTED',
      `CREATE ${modifiers.join(' ')} VIEW is not supported${modifiers[0] === 'OR' ? '; use PATCH to change a view' : ''}`,
    );
  let next = viewIndex + 1;
  if (word(next) === 'IF') next += 3; // Skips NOT EXISTS: the HTTP method decides about an existing view
  const parts: string[] = [];
  for (; isName(tokens[next]?.text ?? ''); next += 2) {
    parts.push(nameOf(tokens[next]?.text as string));
    if (tokens[next + 1]?.text !== '.') {
      next++;
      break;
    }
  }
  const columns = tokens[next]?.text === '(' ? columnNames(tokens, next + 1) : [];
  if (columns && columns.length > 0) next += columns.length * 2 + 1;
  const queryStart = columns && parts.length > 0 && parts.length <= 3 && word(next) === 'AS' && tokens[next + 1];
  if (!queryStart)
    throw sqlInvalid('the statement must be CREATE VIEW name [(columns)] AS query', sql, tokens[next]?.start);
  const query = sql.slice(queryStart.start);
  const names = columns.map(quoteIdentifier).join(', ');
  const view = parts.at(-1) as string;
  const [database, catalog] = parts.slice(0, -1).reverse();
  return {
    ...(catalog === undefined ? {} : { catalog }),
    ...(database === undefined ? {} : { database }),
    view,
    sql:
      columns.length === 0
        ? query
        : `SELECT * FROM (\n${withoutSemicolon(query)}\n) AS ${quoteIdentifier(view)}(${names})`,
  };
}

/**
 * The tokens up to the one after AS, and none of another statement: this runs in the server, which does not read whole statements,
 * as they can have a million tokens.
 */
function headOf(sql: string): Token[] {
  const tokens: Token[] = [];
  for (const token of tokensOf(sql)) {
    const previous = tokens.at(-1)?.text.toUpperCase();
    tokens.push(token);
    if (previous === 'AS' || tokens.length > headTokensMax) break;
    if (tokens.length === 1 && token.text.toUpperCase() !== 'CREATE') break;
  }
  return tokens;
}

/** More than a list of as many columns as a view can have. */
const headTokensMax = 50_000;
const knownModifiers = new Set(['OR', 'REPLACE', 'TEMP', 'TEMPORARY', 'LOCAL', 'GLOBAL', 'RECURSIVE', 'MATERIALIZED']);

const nameOf = (text: string) => (text.startsWith('"') ? contentOf(text) : text);

/** The names up to the closing parenthesis; undefined if the tokens are not a list of names. */
function columnNames(tokens: readonly { readonly text: string }[], start: number): string[] | undefined {
  const names: string[] = [];
  for (let i = start; ; i += 2) {
    const { text = '' } = tokens[i] ?? {};
    if (!isName(text)) return undefined;
    names.push(nameOf(text));
    const end = tokens[i + 1]?.text;
    if (end === ')') return names;
    if (end !== ',') return undefined;
  }
}
