// Turns an error of a server about a statement into the failure for the caller: in the caller's names, with the line and column in the
// caller's text.
import { Failure } from '../../../standard/failure.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import { ClickHouseError, callerMessage, serverFailure } from '../connection/clickhouse_error.ts';
import type { RewrittenText } from './rewritten_text.ts';
import { isName, nameOf, type Token } from './tokens.ts';

export interface SentText {
  /** The text of the caller. */
  readonly sql: string;
  readonly tokens: readonly Token[];
  /** What was sent of it, after `prefix`. */
  readonly rewritten: RewrittenText;
  readonly prefix: string;
  /** Puts the names of callers in the place of stored ones. */
  readonly publicText: (text: string) => string;
}

const syntaxError = 62;
/** About the size and depth of the text. */
const tooLarge: ReadonlySet<number> = new Set([161, 167, 168, 306, 396]);
/** Defects and conditions of a server that are not about the statement. */
const notAboutTheText: ReadonlySet<number> = new Set([49, 74, 75, 76, 95, 107, 173, 228, 246, 271, 1000, 1001, 1002]);

/** Errors that are not about the statement are returned as they are, or as the failures of `serverFailure`. */
export function statementFailure(error: unknown, sent: SentText): unknown {
  const failure = serverFailure(error);
  if (!(failure instanceof ClickHouseError)) return failure;
  const { code, message } = failure;
  if (notAboutTheText.has(code))
    return new Failure('WAREHOUSE_FAILED', 'a server of the warehouse failed at the statement', {}, { cause: failure });
  const { sql, tokens } = sent;
  if (code === syntaxError) {
    const offset = syntaxOffset(message, sent);
    const token = tokens.find(({ end }) => offset !== undefined && end > offset);
    return sqlInvalid(
      token
        ? `syntax error at or near ${JSON.stringify(token.text.slice(0, 80))}`
        : 'syntax error at the end of the text',
      sql,
      token?.start ?? offset,
    );
  }
  if (tooLarge.has(code)) return sqlInvalid('the statement is too large or too deeply nested', sql, undefined);
  const text = sent.publicText(callerMessage(failure)).replace(/\s+/g, ' ').slice(0, 2000);
  return sqlInvalid(text, sql, offsetOfName(text, tokens));
}

/** `failed at position 48 (x)`: counted in bytes from 1, in the text that was sent. */
function syntaxOffset(message: string, { sql, rewritten, prefix }: SentText): number | undefined {
  const [, position] = /failed at position (\d+)/.exec(message) ?? [];
  if (position === undefined) return undefined;
  const bytes = Buffer.from(prefix + rewritten.text).subarray(0, Number(position) - 1);
  const offset = bytes.toString().length - prefix.length;
  return Math.min(rewritten.originalOffset(Math.max(0, offset)), sql.length);
}

/** The first place of a name that the message quotes. */
function offsetOfName(message: string, tokens: readonly Token[]): number | undefined {
  const [, quoted] = /[`'"]([^`'"]+)[`'"]/.exec(message) ?? [];
  if (quoted === undefined) return undefined;
  const wanted = quoted.split('.').at(-1);
  return tokens.find((token) => isName(token) && nameOf(token) === wanted)?.start;
}
