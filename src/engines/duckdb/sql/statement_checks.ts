// Checks of a statement's text before the engine sees it: where the statement ends, and what must not even be bound, because
// binding alone reads files, runs other text or cannot be interrupted. plan.ts decides what a statement means.
import { Failure } from '../../../standard/failure.ts';
import { filesRefused, refusedStatement, sqlInvalid } from '../instance/sql_errors.ts';
import { catalogFileExtension } from '../storage/catalog_files.ts';
import { statementLimits } from './statement_limits.ts';
import { StatementShape } from './statement_shape.ts';

// A blank, a comment, a string, a quoted name, a word, a number, an arrow, or a single character. The engine treats Unicode spaces
// as spaces. No regular expression finds the end of nested comments and dollar-quoted strings.
const spaces = String.raw`\s\u0085\u200b-\u200f\u2028-\u202f\u205f-\u206f\ufeff`;
const letter = String.raw`(?:[A-Za-z_]|(?![${spaces}])[\u0080-\u{10ffff}])`;
const rest = String.raw`(?:[\w$]|(?![${spaces}])[\u0080-\u{10ffff}])`;
const token = new RegExp(
  [
    `[${spaces}]+`,
    String.raw`--[^\n\r]*`,
    String.raw`\/\*`,
    String.raw`[eE]'(?:\\[\s\S]|''|[^'\\])*'?`,
    `'(?:[^']|'')*'?`,
    `"(?:[^"]|"")*"?`,
    String.raw`\$(?:${letter}(?:\w|(?![${spaces}])[\u0080-\u{10ffff}])*)?\$`,
    String.raw`\$(?:\d+|${letter}${rest}*)`,
    `${letter}${rest}*`,
    String.raw`\d+`,
    '->>?',
    String.raw`[\s\S]`,
  ].join('|'),
  'uy',
);
const blank = new RegExp(String.raw`^(?:[${spaces}]|--|\/\*)`, 'u');
const word = new RegExp(`^${letter}`, 'u');

export interface Token {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The tokens of a text, without blanks and comments. */
export function* tokensOf(sql: string): Generator<Token> {
  for (let start = 0; start < sql.length; ) {
    token.lastIndex = start;
    const text = token.exec(sql)?.[0] ?? (sql[start] as string);
    let end = start + text.length;
    if (text === '/*') end = commentEnd(sql, start);
    else if (text.length > 1 && text.startsWith('$') && text.endsWith('$')) {
      const close = sql.indexOf(text, end);
      end = close < 0 ? sql.length : close + text.length;
    }
    if (!blank.test(text)) yield { start, end, text: end === start + text.length ? text : sql.slice(start, end) };
    start = end;
  }
}

/**
 * Comments can be nested; an unterminated one extends to the end of the text. Throws SQL_INVALID beyond the depth limit: the
 * engine's time grows with the square of the depth.
 */
function commentEnd(sql: string, start: number): number {
  const mark = /\/\*|\*\//g;
  mark.lastIndex = start + 2;
  for (let depth = 1; ; ) {
    const match = mark.exec(sql);
    if (!match) return sql.length;
    depth += match[0] === '/*' ? 1 : -1;
    if (depth === 0) return mark.lastIndex;
    if (depth > statementLimits.commentDepth)
      throw sqlInvalid(`comments are nested deeper than ${statementLimits.commentDepth}`, sql, match.index);
  }
}

/** The text without its final semicolon, so that it can be put in parentheses. The analysis has shown that nothing follows. */
export function withoutSemicolon(sql: string): string {
  if (!sql.includes(';')) return sql;
  for (const { start: at, text } of tokensOf(sql)) if (text === ';') return sql.slice(0, at);
  return sql;
}

/** Replaces each parameter (`?`, `$1`, `$name`). */
export function withParameters(sql: string, replace: (mark: string) => string): string {
  let result = '';
  let copiedTo = 0;
  for (const token of tokensOf(sql)) {
    if (token.text !== '?' && !/^\$[^$]+$/.test(token.text)) continue;
    result += sql.slice(copiedTo, token.start) + replace(token.text);
    copiedTo = token.end;
  }
  return result + sql.slice(copiedTo);
}

/**
 * The keyword of a statement that writes. It begins the text or follows the parentheses of a WITH; elsewhere it is a name, such as
 * that of a common table expression: WITH insert AS (...) MERGE INTO ...
 */
export function writingWord(sql: string): 'insert' | 'update' | 'delete' | 'merge' | undefined {
  let depth = 0;
  let previous = ';';
  for (const { text } of tokensOf(sql)) {
    if (text === '(') depth++;
    else if (text === ')') depth--;
    const verb =
      depth === 0 && (previous === ';' || previous === ')')
        ? (['insert', 'update', 'delete', 'merge'] as const).find((verb) => verb === text.toLowerCase())
        : undefined;
    if (verb) return verb;
    previous = text;
  }
  return undefined;
}

const refusedFirst =
  /^(?:create|alter|drop|truncate|use|begin|start|commit|rollback|abort|end|explain|show|describe|desc|attach|detach|copy|export|import|set|reset|pragma|call|install|load|update\s+extensions|checkpoint|force|prepare|execute|deallocate|vacuum|analyze|comment|grant|revoke)\b/i;

/** Throws SQL_NOT_SUPPORTED for statements that are never run: even binding one may have side effects. */
export function refuseOtherStatement(sql: string): void {
  const { value } = tokensOf(sql).next();
  const [first] = refusedFirst.exec(value ? sql.slice(value.start, value.start + 100) : '') ?? [];
  if (first !== undefined) throw refusedStatement(sql.slice(value?.start), first.toUpperCase());
}

/** After these keywords a name before a parenthesis is not a call: INSERT INTO query (a), WITH query (a) AS, FROM t AS query (a). */
const naming = new Set(['INTO', 'AS', 'WITH', 'RECURSIVE']);
/**
 * Throws SQL_INVALID or SQL_FORBIDDEN_FUNCTION for a text that must not be bound. `refused`: takes the name of a function in lower
 * case.
 */
export function refuseUnbindable(sql: string, refused: (name: string) => boolean): void {
  if (!sql.isWellFormed()) throw sqlInvalid('the text is not well-formed Unicode', sql, 0);
  const nul = sql.indexOf('\0');
  if (nul >= 0) throw sqlInvalid('a NUL character cannot be in SQL text', sql, nul);
  const shape = new StatementShape();
  const paths = new Paths();
  let previous = '';
  let name: Token | undefined;
  let qualifiers: string[] = [];
  for (const token of tokensOf(sql)) {
    const { text, start: at } = token;
    paths.add(text);
    if (text === '(' && name) refuseCall(nameIn(name.text), qualifiers, refused);
    if (text !== '.') {
      const isNamed = kindOf(text) === 'name';
      qualifiers = isNamed && previous === '.' && name === undefined ? qualifiers : [];
      if (isNamed) qualifiers.push(nameIn(text));
    }
    name = undefined;
    const upper = word.test(text) ? text.toUpperCase() : '';
    if (((upper !== '' && !text.endsWith("'")) || text.startsWith('"')) && !naming.has(previous)) name = token;
    const exceeded = shape.count(upper === '' ? text : upper);
    if (exceeded !== undefined) throw sqlInvalid(exceeded, sql, at);
    previous = text === '.' ? '.' : upper;
  }
}

const nameIn = (text: string) => (text.startsWith('"') ? contentOf(text) : text).toLowerCase();

/**
 * Refuses names in the engine's own schema, which contains the originals of guarded functions (see guarded_functions.ts). `names`:
 * the name of the function after its qualifiers.
 */
function refuseCall(name: string, names: readonly string[], refused: (name: string) => boolean): void {
  if (names.slice(0, -1).includes('system')) {
    throw new Failure('SQL_FORBIDDEN_FUNCTION', `write ${JSON.stringify(name)} without the schema "system"`, {
      function: name,
    });
  }
  if (!refused(name)) return;
  throw new Failure('SQL_FORBIDDEN_FUNCTION', `the function ${JSON.stringify(name)} is not allowed`, {
    function: name,
  });
}

/** The value of a string or quoted name, as the engine reads it. */
export function contentOf(text: string): string {
  if (text.length > 1 && text.startsWith('$') && text.endsWith('$')) {
    const mark = text.indexOf('$', 1) + 1;
    return text.slice(mark, Math.max(mark, text.length - mark));
  }
  const [quote] = /["']/.exec(text) ?? [];
  if (quote === undefined) return text;
  const inner = text.slice(text.indexOf(quote) + 1, -1).replaceAll(quote + quote, quote);
  return /^[eE]/.test(text) ? unescaped(inner) : inner;
}

const simpleEscapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

function unescaped(text: string): string {
  return text.replace(/\\(x[0-9a-f]{1,2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[0-7]{1,3}|[\s\S])/gi, (_, what: string) => {
    const hex = /^[xu]([0-9a-f]+)$/i.exec(what)?.[1];
    const code = hex ? Number.parseInt(hex, 16) : /^[0-7]/.test(what) ? Number.parseInt(what, 8) : undefined;
    if (code === undefined) return simpleEscapes[what] ?? what;
    return code > 0x10ffff ? '' : String.fromCodePoint(code);
  });
}

/**
 * Strings and names as the engine joins them: adjacent strings are concatenated, names are joined by dots. The engine may open the
 * files of catalogs, and reads the columns of a file if a table name is the path of a file: its error would reveal them.
 */
class Paths {
  #joined: 'text' | 'escaped text' | 'name' | undefined;
  #afterDot = false;
  #hasSlash = false;
  #tail = '';

  /** Throws SQL_NOT_SUPPORTED for what may be the path of a catalog's file. */
  add(text: string): void {
    const kind = kindOf(text);
    const isContinued = text.startsWith("'")
      ? this.#joined?.endsWith('text')
      : kind === 'name' && this.#joined === 'name' && this.#afterDot;
    this.#afterDot = text === '.';
    if (this.#afterDot) return;
    if (!isContinued) {
      this.#joined = kind;
      this.#hasSlash = false;
      this.#tail = '';
    }
    if (kind === undefined) return;
    const content = this.#joined === 'escaped text' && isContinued ? contentOf(`E${text}`) : contentOf(text);
    this.#hasSlash ||= /[/\\]/.test(content);
    const joined = `${this.#tail}${kind === 'name' ? '.' : ''}${content}`;
    if (this.#hasSlash && joined.toLowerCase().includes(catalogFileExtension)) throw filesRefused();
    this.#tail = joined.slice(-catalogFileExtension.length);
  }
}

function kindOf(text: string): 'text' | 'escaped text' | 'name' | undefined {
  if (/^[eE]'/.test(text)) return 'escaped text';
  if (/^(?:'|\$.*\$$)/s.test(text)) return 'text';
  return text.startsWith('"') || word.test(text) ? 'name' : undefined;
}
