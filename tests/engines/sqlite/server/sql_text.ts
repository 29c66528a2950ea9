// Reads SQL texts: tokens, the names at places where a table can be named, and fragments of statements. It decides nothing about access:
// the authorizer of a statement reports the tables that it uses (see statements.ts).
import { Failure } from '../../../../src/standard/failure.ts';

export interface Token {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** A name at a place where a table can be named. */
export interface NamedTable {
  /** As written, root first: `c.d.t`, `d.t` or `t`. */
  readonly parts: readonly string[];
  readonly start: number;
  readonly end: number;
  readonly hasAlias: boolean;
}

const tokenPattern =
  /\s+|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|[xX]?'(?:[^']|'')*'|[$:@][\p{L}\p{N}_]+|\?\d*|[\p{L}_][\p{L}\p{N}_$]*|\d[\p{L}\p{N}_.]*|[\s\S]/guy;
const blank = /^(?:\s|--|\/\*)/;

export function tokensOf(sql: string): Token[] {
  const tokens: Token[] = [];
  for (const { 0: text, index } of sql.matchAll(tokenPattern))
    if (!blank.test(text)) tokens.push({ text, start: index, end: index + text.length });
  return tokens;
}

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

const isName = (text: string | undefined): text is string => text !== undefined && /^["`[\p{L}_]/u.test(text);

export function nameIn(text: string): string {
  if (text.startsWith('"')) return text.slice(1, -1).replaceAll('""', '"');
  if (text.startsWith('`')) return text.slice(1, -1).replaceAll('``', '`');
  return text.startsWith('[') ? text.slice(1, -1) : text;
}

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(' '));
const tableFollows = wordsOf('FROM JOIN INTO UPDATE');
const listEnds = wordsOf('WHERE GROUP ORDER HAVING LIMIT WINDOW UNION INTERSECT EXCEPT RETURNING SELECT SET VALUES');
/** Words that cannot be an alias without AS. */
const noAlias = wordsOf(
  'WHERE GROUP ORDER HAVING LIMIT WINDOW UNION INTERSECT EXCEPT RETURNING SELECT SET VALUES ON USING JOIN LEFT RIGHT FULL INNER OUTER CROSS NATURAL INDEXED NOT DEFAULT WITH OFFSET',
);

/** Names of common table expressions. One hides a table of its name in the whole text. */
function commonTables(tokens: readonly Token[]): ReadonlySet<string> {
  const names = new Set<string>();
  const upper = (i: number) => tokens[i]?.text.toUpperCase() ?? '';
  for (let i = 0; i < tokens.length; i++) {
    if (!['WITH', 'RECURSIVE', ','].includes(upper(i)) || !isName(tokens[i + 1]?.text)) continue;
    let next = i + 2;
    if (upper(next) === '(') while (next < tokens.length && tokens[next++]?.text !== ')');
    if (upper(next) !== 'AS') continue;
    next++;
    if (upper(next) === 'NOT') next++;
    if (upper(next) === 'MATERIALIZED') next++;
    if (upper(next) === '(' && ['SELECT', 'WITH', 'VALUES'].includes(upper(next + 1)))
      names.add(nameIn(tokens[i + 1]?.text ?? '').toLowerCase());
  }
  return names;
}

/** Names of tables, without those of common table expressions and table functions. */
export function namedTables(sql: string): NamedTable[] {
  const tokens = tokensOf(sql);
  const common = commonTables(tokens);
  const found: NamedTable[] = [];
  /** Whether a comma is followed by a table, by depth of parentheses. */
  const lists = [false];
  let expecting = false;
  for (let i = 0; i < tokens.length; i++) {
    const { text, start } = tokens[i] as Token;
    const word = text.toUpperCase();
    if (text === '(') lists.push(expecting);
    else if (text === ')') {
      if (lists.length > 1) lists.pop();
      expecting = false;
    } else if (text === ',') expecting = lists.at(-1) ?? false;
    else if (tableFollows.has(word)) {
      const isConflict = word === 'UPDATE' && tokens[i - 1]?.text.toUpperCase() === 'DO';
      const isDistinct = word === 'FROM' && tokens[i - 1]?.text.toUpperCase() === 'DISTINCT';
      expecting = !isConflict && !isDistinct;
      if (expecting) lists[lists.length - 1] = word === 'FROM' || word === 'JOIN';
    } else if (listEnds.has(word)) {
      lists[lists.length - 1] = false;
      expecting = false;
    } else if (expecting && isName(text)) {
      let last = i;
      while (tokens[last + 1]?.text === '.' && isName(tokens[last + 2]?.text)) last += 2;
      const parts = tokens.slice(i, last + 1).flatMap((token, n) => (n % 2 === 0 ? [nameIn(token.text)] : []));
      const after = tokens[last + 1]?.text;
      const isTarget = ['INTO', 'UPDATE'].includes(tokens[i - 1]?.text.toUpperCase() ?? '');
      const isOther =
        !isTarget && (after === '(' || (parts.length === 1 && common.has((parts[0] ?? '').toLowerCase())));
      const hasAlias = isName(after) && !noAlias.has(after.toUpperCase());
      if (!isOther) found.push({ parts, start, end: tokens[last]?.end ?? start, hasAlias });
      i = last;
      expecting = false;
    } else expecting = false;
  }
  return found;
}

const statementWords = wordsOf('SELECT WITH VALUES INSERT UPDATE DELETE');

/** Throws SQL_NOT_SUPPORTED for a text that is not one query and not one INSERT, UPDATE or DELETE. */
export function requireOneStatement(sql: string): void {
  const tokens = tokensOf(sql);
  const [first] = tokens;
  if (!first) throw sqlInvalid('the statement is empty');
  if (!statementWords.has(first.text.toUpperCase()))
    throw new Failure('SQL_NOT_SUPPORTED', 'only SELECT, INSERT, UPDATE and DELETE can be run as SQL');
  const end = tokens.findIndex(({ text }) => text === ';');
  if (end >= 0 && end < tokens.length - 1) throw sqlInvalid('the text has more than one statement');
}

export const sqlInvalid = (message: string): Failure => new Failure('SQL_INVALID', message, { engineMessage: message });

/** The text without its final semicolon. */
export function withoutSemicolon(sql: string): string {
  const end = tokensOf(sql).find(({ text }) => text === ';');
  return end ? sql.slice(0, end.start) : sql;
}

/** Throws SQL_INVALID if a text cannot be an expression in parentheses: it would end them, or end the statement. */
export function requireEnclosed(text: string): void {
  let depth = 0;
  const tokens = tokensOf(text);
  for (const token of tokens) {
    if (token.text === '(') depth++;
    if (token.text === ')') depth--;
    if (depth < 0 || token.text === ';' || token.text === "'" || token.text === '"')
      throw sqlInvalid('the text must be a single expression');
  }
  if (depth !== 0 || tokens.length === 0) throw sqlInvalid('the text must be a single expression');
}

export const hasParameters = (sql: string): boolean => tokensOf(sql).some(({ text }) => /^(?:\?|[$:@].)/.test(text));
