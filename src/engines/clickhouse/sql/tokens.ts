// Splits the SQL of callers into tokens, as ClickHouse's lexer does. What that lexer could read in another way than this one is refused, so
// that both agree on every text that passes: heredocs, escapes in quoted names, typographic quotation marks, `{` and comments with `#`.
import { Failure } from '../../../standard/failure.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import { statementLimits } from './statement_limits.ts';

export type TokenKind = 'word' | 'quoted' | 'string' | 'number' | 'parameter' | 'symbol';

export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

const tokenPattern =
  /(\s+|--[^\n]*|\/\*[\s\S]*?\*\/)|([\p{L}_][\p{L}\p{N}\p{M}_$]*)|("(?:[^"\\]|"")*"|`(?:[^`\\]|``)*`)|('(?:[^'\\]|\\[\s\S]|'')*')|(0[xX][0-9a-fA-F]+|\d[\d_]*(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|(\$[A-Za-z0-9_]+(?!\$)(?![\p{L}\p{N}])|\?)|(::|->|<=>|<=|>=|<>|!=|==|\|\||[-+*/%<>=,.:()[\]!;^])/uy;
const kinds: readonly (TokenKind | undefined)[] = [
  undefined,
  undefined,
  'word',
  'quoted',
  'string',
  'number',
  'parameter',
  'symbol',
];

/** In names, it could change the meaning of the texts in which the server describes a statement. */
const refusedInNames = /[\u0000-\u001f\u007f]|, [a-z_ ]+: /;

const matching: Readonly<Record<string, string>> = { ')': '(', ']': '[' };

/**
 * The tokens without white space and comments, and without a semicolon at the end, which a fragment must not have. Brackets are balanced.
 * Throws SQL_INVALID, or
 * SQL_NOT_SUPPORTED for what is not read.
 */
export function tokensOf(sql: string, { isFragment = false } = {}): Token[] {
  if (sql.length > statementLimits.characters)
    throw new Failure('SQL_INVALID', `the statement has more than ${statementLimits.characters} characters`, {
      line: 1,
      column: 1,
    });
  const tokens: Token[] = [];
  const open: Token[] = [];
  for (let position = 0; position < sql.length; ) {
    tokenPattern.lastIndex = position;
    const match = tokenPattern.exec(sql);
    if (!match) throw unreadable(sql, position);
    const [text] = match;
    const start = position;
    position += text.length;
    if (match[1] !== undefined) continue;
    const kind = kinds[match.findIndex((group, i) => i > 0 && group !== undefined)] as TokenKind;
    const token: Token = { kind, text, start, end: position };
    if (kind === 'quoted' && (refusedInNames.test(text) || text.length === 2))
      throw refused(
        sql,
        start,
        `the name ${JSON.stringify(text.slice(0, 80))} is empty or has characters that are not supported`,
      );
    if (kind === 'symbol') checkBracket(sql, token, open);
    tokens.push(token);
    if (tokens.length > statementLimits.tokens)
      throw sqlInvalid(`the statement has more than ${statementLimits.tokens} tokens`, sql, start);
  }
  const unclosed = open.at(-1);
  if (unclosed) throw sqlInvalid(`"${unclosed.text}" is not closed`, sql, unclosed.start);
  while (!isFragment && tokens.at(-1)?.text === ';') tokens.pop();
  const semicolon = tokens.find(({ text }) => text === ';');
  if (semicolon)
    throw new Failure('SQL_NOT_SUPPORTED', 'a request runs a single statement, but the text contains several');
  if (tokens.length === 0) throw sqlInvalid('the text contains no statement', sql, 0);
  return tokens;
}

function checkBracket(sql: string, token: Token, open: Token[]): void {
  if (token.text === '(' || token.text === '[') {
    open.push(token);
    if (open.length > statementLimits.bracketDepth)
      throw sqlInvalid(`brackets are nested more than ${statementLimits.bracketDepth} levels deep`, sql, token.start);
  }
  const opening = matching[token.text];
  if (opening !== undefined && open.pop()?.text !== opening)
    throw sqlInvalid(`"${token.text}" closes no bracket`, sql, token.start);
}

function unreadable(sql: string, position: number): Failure {
  const rest = sql.slice(position, position + 2);
  if (rest.startsWith("'")) return sqlInvalid('the string is not closed', sql, position);
  if (rest === '/*') return sqlInvalid('the comment is not closed', sql, position);
  if (/^["`]/.test(rest))
    return refused(sql, position, 'the quoted name is not closed, or has a backslash, which is not supported');
  if (rest.startsWith('{')) return refused(sql, position, '"{" is not supported: write parameters as $1 or $name');
  if (rest.startsWith('$')) return refused(sql, position, '"$" is not supported here: quote texts with \'');
  return sqlInvalid(
    `unexpected ${JSON.stringify(String.fromCodePoint(sql.codePointAt(position) ?? 0))}`,
    sql,
    position,
  );
}

const refused = (sql: string, offset: number, message: string): Failure => {
  const { message: located } = sqlInvalid(message, sql, offset);
  return new Failure('SQL_NOT_SUPPORTED', located);
};

/** The name of a word or quoted token. */
export function nameOf({ kind, text }: Token): string {
  if (kind !== 'quoted') return text;
  const quote = text[0] as string;
  return text.slice(1, -1).replaceAll(quote + quote, quote);
}

export const isName = (token: Token | undefined): token is Token & { readonly kind: 'word' | 'quoted' } =>
  token?.kind === 'word' || token?.kind === 'quoted';

/** The word in upper case; empty for what is not a word. */
export const upperWord = (token: Token | undefined): string => (token?.kind === 'word' ? token.text.toUpperCase() : '');

/** The index of each bracket's counterpart. */
export function matchingBrackets(tokens: readonly Token[]): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  const open: number[] = [];
  for (const [i, { kind, text }] of tokens.entries()) {
    if (kind !== 'symbol') continue;
    if (text === '(' || text === '[') open.push(i);
    else if (text === ')' || text === ']') {
      const start = open.pop();
      if (start === undefined) continue;
      found.set(start, i);
      found.set(i, start);
    }
  }
  return found;
}
