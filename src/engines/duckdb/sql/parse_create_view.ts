// Parses CREATE VIEW up to AS. The query after AS is checked like any other (see qualified_view_sql.ts).
import type { ParsedCreateView } from '../../port/views.ts';
import { columnNames, type NameTokens, parsedView, refuseModifiers } from '../../sql/create_view.ts';
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
  refuseModifiers(modifiers);
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
  const columns = columnNames(tokens, next, nameTokens);
  if (columns && columns.length > 0) next += columns.length * 2 + 1;
  const queryStart = columns && parts.length > 0 && parts.length <= 3 && word(next) === 'AS' && tokens[next + 1];
  if (!queryStart)
    throw sqlInvalid('the statement must be CREATE VIEW name [(columns)] AS query', sql, tokens[next]?.start);
  return parsedView({ parts, columns, query: sql.slice(queryStart.start) }, quoteIdentifier, withoutSemicolon);
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

const nameTokens: NameTokens<Token> = {
  textOf: ({ text }) => text,
  isName: ({ text }) => isName(text),
  nameOf: ({ text }) => nameOf(text),
};
