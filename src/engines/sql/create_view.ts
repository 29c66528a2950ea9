// What the parsers of CREATE VIEW share: the tokens around the query, and the view that they describe.
import { Failure } from '../../standard/failure.ts';
import type { ParsedCreateView } from '../port/views.ts';

/** How an engine reads its tokens. */
export interface NameTokens<T> {
  readonly textOf: (token: T) => string;
  readonly isName: (token: T) => boolean;
  readonly nameOf: (token: T) => string;
}

/** Throws SQL_NOT_SUPPORTED if words in upper case stand between CREATE and VIEW. */
export function refuseModifiers(modifiers: readonly string[]): void {
  if (modifiers.length > 0)
    throw new Failure(
      'SQL_NOT_SUPPORTED',
      `CREATE ${modifiers.join(' ')} VIEW is not supported${modifiers[0] === 'OR' ? '; use PATCH to change a view' : ''}`,
    );
}

/** The names in parentheses, none if there are no parentheses; undefined if the tokens in them are not a list of names. */
export function columnNames<T>(tokens: readonly T[], open: number, reading: NameTokens<T>): string[] | undefined {
  const { textOf, isName, nameOf } = reading;
  const textAt = (i: number): string | undefined => {
    const token = tokens[i];
    return token === undefined ? undefined : textOf(token);
  };
  if (textAt(open) !== '(') return [];
  const names: string[] = [];
  for (let i = open + 1; ; i += 2) {
    const token = tokens[i];
    if (token === undefined || !isName(token)) return undefined;
    names.push(nameOf(token));
    const end = textAt(i + 1);
    if (end === ')') return names;
    if (end !== ',') return undefined;
  }
}

export interface ViewParts {
  /** One to three names: the view's is the last. */
  readonly parts: readonly string[];
  /** Empty: those of the query. */
  readonly columns: readonly string[];
  readonly query: string;
}

/** `inParentheses`: the query as it may stand in them. */
export function parsedView(
  { parts, columns, query }: ViewParts,
  quote: (name: string) => string,
  inParentheses: (query: string) => string,
): ParsedCreateView {
  const view = parts.at(-1) as string;
  const [database, catalog] = parts.slice(0, -1).reverse();
  return {
    ...(catalog === undefined ? {} : { catalog }),
    ...(database === undefined ? {} : { database }),
    view,
    sql:
      columns.length === 0
        ? query
        : `SELECT * FROM (\n${inParentheses(query)}\n) AS ${quote(view)}(${columns.map(quote).join(', ')})`,
  };
}
