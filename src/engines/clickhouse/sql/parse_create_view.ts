// Parses CREATE VIEW up to AS. The query after AS is checked like any other (analysis/statement_reader.ts).
import { Failure } from '../../../standard/failure.ts';
import type { ParsedCreateView } from '../../views.ts';
import { quoteIdentifier } from './identifiers.ts';
import { sqlInvalid } from './sql_failures.ts';
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
  if (!/^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*create\b/i.test(sql)) return undefined;
  const tokens = tokensOf(sql);
  const word = (i: number) => upperWord(tokens[i]);
  const viewIndex = tokens.findIndex((_, i) => i > 0 && !modifierWords.has(word(i)));
  if (word(viewIndex) !== 'VIEW') return undefined;
  const modifiers = tokens.slice(1, viewIndex).map((_, i) => word(i + 1));
  if (modifiers.length > 0)
    throw new Failure(
      'SQL_NOT_SUPPORTED',
      `CREATE ${modifiers.join(' ')} VIEW is not supported${modifiers[0] === 'OR' ? '; use PATCH to change a view' : ''}`,
    );
  let next = viewIndex + 1;
  // The HTTP method decides about an existing view.
  if (word(next) === 'IF' && word(next + 1) === 'NOT' && word(next + 2) === 'EXISTS') next += 3;
  const parts: string[] = [];
  for (let isMore = true; isMore && isName(tokens[next]); next += isMore ? 1 : 0) {
    parts.push(nameOf(tokens[next++] as Token));
    isMore = tokens[next]?.text === '.';
  }
  const columns = columnNames(tokens, next);
  if (columns && columns.length > 0) next += columns.length * 2 + 1;
  const query = tokens[next + 1];
  const isComplete = columns && parts.length > 0 && parts.length <= 3 && word(next) === 'AS' && query !== undefined;
  if (!isComplete) {
    const message = 'syntax error: the statement must be CREATE VIEW name [(columns)] AS query';
    throw sqlInvalid(message, sql, tokens[next]?.start ?? sql.length);
  }
  const text = sql.slice(query.start, tokens.at(-1)?.end);
  const view = parts.at(-1) as string;
  const [database, catalog] = parts.slice(0, -1).reverse();
  return {
    ...(catalog === undefined ? {} : { catalog }),
    ...(database === undefined ? {} : { database }),
    view,
    sql:
      columns.length === 0
        ? text
        : `SELECT * FROM (\n${text}\n) AS ${quoteIdentifier(view)}(${columns.map(quoteIdentifier).join(', ')})`,
  };
}

/** The names in parentheses, none if there are no parentheses; undefined if the tokens in them are not a list of names. */
function columnNames(tokens: readonly Token[], open: number): string[] | undefined {
  if (tokens[open]?.text !== '(') return [];
  const names: string[] = [];
  for (let i = open + 1; ; i += 2) {
    const token = tokens[i];
    if (!isName(token)) return undefined;
    names.push(nameOf(token));
    const end = tokens[i + 1]?.text;
    if (end === ')') return names;
    if (end !== ',') return undefined;
  }
}
