// Parses CREATE VIEW up to AS. The query after AS is checked like any other (analysis/statement_reader.ts).
import type { ParsedCreateView } from '../../port/views.ts';
import { columnNames, type NameTokens, parsedView, refuseModifiers } from '../../sql/create_view.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import { quoteIdentifier } from './identifiers.ts';
import { isName, nameOf, type Token, tokensOf, upperWord } from './tokens.ts';

const modifierWords = new Set([
  'OR',
  'REPLACE',
  'TEMP',
  'TEMPORARY',
  'LOCAL',
  'GLOBAL',
  'RECURSIVE',
  'MATERIALIZED',
  'LIVE',
  'WINDOW',
]);

/** Undefined if the text is not a CREATE VIEW statement. Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
export function parseCreateView(sql: string): ParsedCreateView | undefined {
  if (!/^create\b/i.test(sql.slice(blankEnd(sql)))) return undefined;
  const tokens = tokensOf(sql);
  const word = (i: number) => upperWord(tokens[i]);
  const viewIndex = tokens.findIndex((_, i) => i > 0 && !modifierWords.has(word(i)));
  if (word(viewIndex) !== 'VIEW') return undefined;
  const modifiers = tokens.slice(1, viewIndex).map((_, i) => word(i + 1));
  refuseModifiers(modifiers);
  let next = viewIndex + 1;
  // The HTTP method decides about an existing view.
  if (word(next) === 'IF' && word(next + 1) === 'NOT' && word(next + 2) === 'EXISTS') next += 3;
  const parts: string[] = [];
  for (let isMore = true; isMore && isName(tokens[next]); next += isMore ? 1 : 0) {
    parts.push(nameOf(tokens[next++] as Token));
    isMore = tokens[next]?.text === '.';
  }
  const columns = columnNames(tokens, next, nameTokens);
  if (columns && columns.length > 0) next += columns.length * 2 + 1;
  const query = tokens[next + 1];
  const isComplete = columns && parts.length > 0 && parts.length <= 3 && word(next) === 'AS' && query !== undefined;
  if (!isComplete) {
    const message = 'syntax error: the statement must be CREATE VIEW name [(columns)] AS query';
    throw sqlInvalid(message, sql, tokens[next]?.start ?? sql.length);
  }
  const text = sql.slice(query.start, tokens.at(-1)?.end);
  return parsedView({ parts, columns, query: text }, quoteIdentifier, (inside) => inside);
}

/** One at a time: as a repetition, each comment could also end with any later one, which takes a time without bounds. */
const blank = /\s+|--[^\n]*\n|\/\*[\s\S]*?\*\//y;

/** Where the white space and the comments before a statement end. */
function blankEnd(sql: string): number {
  let end = 0;
  for (blank.lastIndex = 0; blank.test(sql); ) end = blank.lastIndex;
  return end;
}

const nameTokens: NameTokens<Token> = { textOf: ({ text }) => text, isName, nameOf };
