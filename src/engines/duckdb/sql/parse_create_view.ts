// Reads the head of a CREATE VIEW statement. What follows AS is the query, which is judged as any query is (qualified_view_sql.ts).
import { Failure } from '../../../standard/failure.ts';
import type { ParsedCreateView } from '../../views.ts';
import { sqlInvalid } from '../instance/sql_errors.ts';
import { quoteIdentifier } from './identifiers.ts';
import { contentOf, tokensOf, withoutEnd } from './statement_checks.ts';

const isName = (text: string) => /^(?:"|[\p{L}_]|[\u0080-\u{10ffff}])/u.test(text);

/** Undefined where the text is no CREATE VIEW. Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
export function parseCreateView(sql: string): ParsedCreateView | undefined {
  const tokens = [...tokensOf(sql)];
  const word = (i: number) => tokens[i]?.text.toUpperCase() ?? '';
  if (word(0) !== 'CREATE') return undefined;
  const at = tokens.findIndex(({ text }) => text.toUpperCase() === 'VIEW');
  const between = tokens.slice(1, at).map(({ text }) => text.toUpperCase());
  if (at < 1 || !between.every((one) => prefixes.has(one))) return undefined;
  if (between.length > 0)
    throw new Failure(
      'SQL_NOT_SUPPORTED',
      `CREATE ${between.join(' ')} VIEW is not offered${between[0] === 'OR' ? '; PATCH changes a view' : ''}`,
    );
  let next = at + 1;
  if (word(next) === 'IF') next += 3; // NOT EXISTS: whether it may be there is the method's to say
  const parts: string[] = [];
  for (; isName(tokens[next]?.text ?? ''); next += 2) {
    parts.push(nameOf(tokens[next]?.text as string));
    if (tokens[next + 1]?.text !== '.') {
      next++;
      break;
    }
  }
  const columns = tokens[next]?.text === '(' ? columnsAt(tokens, next + 1) : [];
  if (columns && columns.length > 0) next += columns.length * 2 + 1;
  const fits = columns && parts.length > 0 && parts.length <= 3 && word(next) === 'AS' && tokens[next + 1];
  if (!fits) throw sqlInvalid('a CREATE VIEW is CREATE VIEW name [(columns)] AS query', sql, tokens[next]?.at);
  const query = withoutEnd(sql.slice(fits.at));
  const names = columns.map(quoteIdentifier).join(', ');
  const view = parts.at(-1) as string;
  const [database, catalog] = parts.slice(0, -1).reverse();
  return {
    ...(catalog === undefined ? {} : { catalog }),
    ...(database === undefined ? {} : { database }),
    view,
    sql:
      columns.length === 0 ? sql.slice(fits.at) : `SELECT * FROM (\n${query}\n) AS ${quoteIdentifier(view)}(${names})`,
  };
}

const prefixes = new Set(['OR', 'REPLACE', 'TEMP', 'TEMPORARY', 'LOCAL', 'GLOBAL', 'RECURSIVE', 'MATERIALIZED']);

const nameOf = (text: string) => (text.startsWith('"') ? contentOf(text) : text);

/** Names up to the closing bracket; undefined where it is no list of names. */
function columnsAt(tokens: readonly { readonly text: string }[], start: number): string[] | undefined {
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
