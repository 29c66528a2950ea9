// Where the SQL of callers differs from ClickHouse's: functions about the caller and the namespace, the words of standard SQL for the time,
// and the names of our types in casts. Each is replaced in the text before a server gets it.
import { release } from '../../../model/release.ts';
import { type LogicalType, parseType, TypeSyntaxError } from '../../../model/types.ts';
import { callerFunctions } from '../../port/statements.ts';
import { quoteIdentifier, quoteLiteral } from './identifiers.ts';
import type { Replacement } from './rewritten_text.ts';
import { forbiddenFunction } from './sql_failures.ts';
import { isName, type Token, upperWord } from './tokens.ts';

/** The parameter that holds the caller. */
export const callerParameter = 'tabularium_caller';

export interface DialectContext {
  readonly catalog: string | undefined;
  readonly database: string | undefined;
  /** Undefined: functions about the caller are refused. */
  readonly caller: string | undefined;
  /** The engine's type for a logical type. */
  readonly typeText: (type: LogicalType) => string;
}

const literalOrNull = (text: string | undefined) => (text === undefined ? 'NULL' : quoteLiteral(text));

/** Functions without arguments that have another meaning than the server's. */
const contextFunctions: Readonly<Record<string, (context: DialectContext) => string>> = {
  VERSION: () => quoteLiteral(`Tabularium ${release}`),
  CURRENT_CATALOG: ({ catalog }) => literalOrNull(catalog),
  CURRENT_SCHEMA: ({ database }) => literalOrNull(database),
  CURRENT_DATABASE: ({ database }) => literalOrNull(database),
  CURRENTDATABASE: ({ database }) => literalOrNull(database),
  DATABASE: ({ database }) => literalOrNull(database),
  SCHEMA: ({ database }) => literalOrNull(database),
};

/** Functions of DuckDB and PostgreSQL without arguments that have another name on the servers. */
const renamedFunctions: Readonly<Record<string, string>> = {
  UUID: 'generateUUIDv4()',
  GEN_RANDOM_UUID: 'generateUUIDv4()',
  RANDOM: 'randCanonical()',
};

/** Words that are values without parentheses in standard SQL. */
const timeWords: Readonly<Record<string, string>> = {
  CURRENT_DATE: 'today()',
  CURRENT_TIMESTAMP: 'now64(6)',
  LOCALTIMESTAMP: 'now64(6)',
};

const callerWords: ReadonlySet<string> = new Set(callerFunctions.map((name) => name.toUpperCase()));

/** Also a name of columns, so that it is the function only with parentheses. */
const needsParentheses = 'USER';

/** The replacements, and whether the text uses `callerParameter`. Throws SQL_FORBIDDEN_FUNCTION. */
export function dialectReplacements(
  sql: string,
  tokens: readonly Token[],
  context: DialectContext,
): { readonly replacements: readonly Replacement[]; readonly usesCaller: boolean } {
  const replacements: Replacement[] = [];
  let usesCaller = false;
  const replace = (first: number, last: number, text: string) => {
    const start = (tokens[first] as Token).start;
    replacements.push({ start, end: (tokens[last] as Token).end, text });
  };
  /** Of each open bracket, whether it is that of a CAST. */
  const casts: boolean[] = [];
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i] as Token;
    if (token.kind === 'symbol') countBracket(casts, tokens, i);
    if (token.text === '::') {
      const type = typeAt(sql, tokens, i + 1, context);
      if (type) {
        replace(i + 1, type.last, type.text);
        i = type.last;
      }
      continue;
    }
    if (token.kind !== 'word') continue;
    const word = upperWord(token);
    if (tokens[i - 1]?.text === '.' || tokens[i + 1]?.text === '.') continue;
    const isCall = tokens[i + 1]?.text === '(' && tokens[i + 2]?.text === ')';
    const named = (text: string) => `(${text} AS ${quoteIdentifier(token.text.toLowerCase())})`;
    if (callerWords.has(word) && (isCall || (word !== needsParentheses && isValue(tokens, i)))) {
      if (context.caller === undefined)
        throw forbiddenFunction(
          token.text.toLowerCase(),
          'returns the caller, which a view or a default does not have',
        );
      usesCaller = true;
      replace(i, isCall ? i + 2 : i, named(`{${callerParameter}:String}`));
    } else if (isCall && Object.hasOwn(contextFunctions, word))
      replace(i, i + 2, named(contextFunctions[word]?.(context) ?? 'NULL'));
    else if (isCall && Object.hasOwn(renamedFunctions, word)) replace(i, i + 2, renamedFunctions[word] as string);
    else if (Object.hasOwn(timeWords, word) && tokens[i + 1]?.text !== '(' && isValue(tokens, i))
      replace(i, i, named(timeWords[word] as string));
    else if (tokens[i + 1]?.kind === 'string' && ['DATE', 'DATETIME', 'TIMESTAMP', 'TIMESTAMPTZ'].includes(word)) {
      const literal = tokens[i + 1] as Token;
      replace(i, i + 1, `CAST(${literal.text} AS ${context.typeText(parseType(word))})`);
    } else if (word === 'AS' && casts.at(-1)) {
      const type = typeAt(sql, tokens, i + 1, context);
      if (type && tokens[type.last + 1]?.text === ')') {
        replace(i + 1, type.last, type.text);
        i = type.last;
      }
    } else if (/[^A-Za-z0-9_$]/.test(token.text)) replace(i, i, quoteIdentifier(token.text));
  }
  return { replacements, usesCaller };
}

/** Keywords before which a value can stand, or after which one can. */
const beforeValue = new Set(
  'SELECT WHERE HAVING ON AND OR NOT IN LIKE ILIKE BETWEEN WHEN THEN ELSE CASE BY DISTINCT ALL IS LIMIT PREWHERE QUALIFY WITH SET VALUES FROM'.split(
    ' ',
  ),
);

/** Whether the word at the index can be a value: it is neither an alias nor a table. */
function isValue(tokens: readonly Token[], index: number): boolean {
  const previous = tokens[index - 1];
  if (previous === undefined) return true;
  if (previous.kind === 'symbol') return previous.text !== ')' && previous.text !== ']';
  const word = upperWord(previous);
  return beforeValue.has(word) && word !== 'FROM';
}

function countBracket(casts: boolean[], tokens: readonly Token[], index: number): void {
  const { text } = tokens[index] as Token;
  if (text === '(' || text === '[') casts.push(/^(?:TRY_)?CAST$/.test(upperWord(tokens[index - 1])));
  else if (text === ')' || text === ']') casts.pop();
}

/** The text of a logical type is not longer. */
const typeTokensMax = 2000;
const closing: Readonly<Record<string, string>> = { '(': ')', '<': '>' };

/**
 * One of our types, written in upper or lower case, and the index of its last token. ClickHouse's own names, such as `Int64`, stay as they
 * are.
 */
function typeAt(
  sql: string,
  tokens: readonly Token[],
  first: number,
  { typeText }: DialectContext,
): { readonly text: string; readonly last: number } | undefined {
  if (tokens[first]?.kind !== 'word') return undefined;
  let last = first;
  while (/^(?:PRECISION|VARYING|WITH|WITHOUT|TIME|ZONE)$/.test(upperWord(tokens[last + 1]))) last++;
  const open = tokens[last + 1]?.text ?? '';
  if (Object.hasOwn(closing, open)) {
    let depth = 0;
    do {
      if (last - first > typeTokensMax) return undefined;
      const { text = '' } = tokens[++last] ?? {};
      if (text === '(' || text === '<') depth++;
      else if (text === ')' || text === '>') depth--;
      else if (text === '') return undefined;
    } while (depth > 0);
  }
  while (tokens[last + 1]?.text === '[' && tokens[last + 2]?.text === ']') last += 2;
  const text = sql.slice((tokens[first] as Token).start, (tokens[last] as Token).end);
  const words = tokens.slice(first, last + 1).filter((token) => isName(token) && token.kind === 'word');
  const isOurs = words.some((token) => token.text === token.text.toUpperCase()) || /^[a-z ]+\b/.test(text);
  if (!isOurs || /[A-Z][a-z]/.test(words[0]?.text ?? '')) return undefined;
  try {
    return { text: typeText(parseType(text)), last };
  } catch (error) {
    if (error instanceof TypeSyntaxError) return undefined;
    throw error;
  }
}
