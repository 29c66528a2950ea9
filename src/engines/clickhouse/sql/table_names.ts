// Finds the names in a text at places where ClickHouse's grammar takes a table. It decides nothing about access: a name that it misses
// reaches the server as it was written and is refused by the check of the query tree (analysis/query_tree.ts); a name that it takes for a
// table by mistake does not exist. Keywords of ClickHouse are not reserved, so a few odd texts need quoted names.
import { foldedName } from './identifiers.ts';
import { isName, matchingBrackets, nameOf, type Token, upperWord } from './tokens.ts';

export interface NamedTable {
  /** As written, root first: `c.d.t`, `d.t` or `t`. */
  readonly parts: readonly string[];
  /** The indexes of its first and last token. */
  readonly first: number;
  readonly last: number;
  readonly hasAlias: boolean;
}

/** A place at which a common table expression is declared or used. */
interface CommonTablePlace {
  readonly index: number;
  /** The name in the spelling of its declaration. */
  readonly declared: string;
  readonly isUse: boolean;
  readonly hasAlias: boolean;
}

export interface ScannedNames {
  readonly tables: readonly NamedTable[];
  readonly commonTables: readonly CommonTablePlace[];
}

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(' '));
const tableFollows = wordsOf('FROM JOIN INTO UPDATE');
/** Keywords that end a list of tables. */
const listEnds = wordsOf(
  'WHERE PREWHERE HAVING WINDOW QUALIFY LIMIT OFFSET FETCH SELECT SETTINGS FORMAT SET VALUES RETURNING UNION INTERSECT EXCEPT',
);
/** Keywords that can stand where a table is expected, and are none. */
const notATable = new Set([
  ...listEnds,
  ...wordsOf('WITH AS ON USING FROM JOIN TABLE FUNCTION GROUP ORDER FINAL SAMPLE'),
]);
/** Keywords that can follow a table and are no alias of it. */
const noAlias = new Set([
  ...listEnds,
  ...wordsOf(
    'ALL ANTI ANY ARRAY ASOF BETWEEN BY CROSS ELSE END FINAL FROM FULL GLOBAL GROUP ILIKE INNER INTERPOLATE INTO IS JOIN LEFT LIKE LOCAL ' +
      'NATURAL NOT ON ORDER PARALLEL PASTE RIGHT SAMPLE SEMI THEN TOP USING WHEN WITH',
  ),
]);
/** Functions in whose arguments FROM names no table. */
const functionsWithFrom = wordsOf('EXTRACT SUBSTRING TRIM OVERLAY POSITION LTRIM RTRIM SUBSTR MID');

/** Keywords up to which a WITH declares names. */
const endsDeclarations = wordsOf('SELECT FROM WITH');

interface Level {
  /** Whether a table follows a comma. */
  list: boolean;
  readonly isCall: boolean;
}

/** The range of tokens in which a name is that of a common table expression. */
interface Scope {
  readonly declared: string;
  readonly from: number;
  readonly to: number;
}

export function scanTableNames(tokens: readonly Token[]): ScannedNames {
  return new NameScanner(tokens).scan();
}

class NameScanner {
  readonly #tokens: readonly Token[];
  readonly #matching: ReadonlyMap<number, number>;
  readonly #tables: NamedTable[] = [];
  readonly #commonTables: CommonTablePlace[] = [];
  readonly #scopes = new Map<string, Scope[]>();
  readonly #levels: Level[] = [{ list: false, isCall: false }];
  readonly #opened: number[] = [];
  #isExpecting = false;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
    this.#matching = matchingBrackets(tokens);
  }

  scan(): ScannedNames {
    for (let i = 0; i < this.#tokens.length; i++) {
      const token = this.#tokens[i] as Token;
      const level = this.#levels.at(-1) as Level;
      if (isName(token)) i = this.#name(i, level);
      else if (token.text === '(' || token.text === '[') {
        const isTable = token.text === '(' && this.#isExpecting;
        this.#levels.push({ list: isTable, isCall: functionsWithFrom.has(upperWord(this.#tokens[i - 1])) });
        this.#opened.push(i);
        this.#isExpecting = isTable;
      } else if (token.text === ')' || token.text === ']') {
        if (this.#levels.length > 1) this.#levels.pop();
        this.#opened.pop();
        this.#isExpecting = false;
      } else this.#isExpecting = token.text === ',' && level.list;
    }
    return { tables: this.#tables, commonTables: this.#commonTables };
  }

  readonly #upper = (i: number): string => upperWord(this.#tokens[i]);

  /** Reads a word, or names joined by dots. Returns the index of the last token. */
  #name(first: number, level: Level): number {
    let last = first;
    while (this.#tokens[last + 1]?.text === '.' && isName(this.#tokens[last + 2])) last += 2;
    const word = first === last ? this.#upper(first) : '';
    if (this.#isExpecting && (word === 'TABLE' || word === 'FUNCTION') && this.#upper(first - 1) === 'INTO')
      return last;
    if (this.#isExpecting && !notATable.has(word)) this.#found(first, last);
    if (word === 'WITH') {
      this.#declare(first);
      level.list = false;
    }
    if (listEnds.has(word) || ((word === 'GROUP' || word === 'ORDER') && this.#upper(first + 1) === 'BY'))
      level.list = false;
    // Without parentheses, the commas after USING are between columns.
    if (word === 'USING' && this.#tokens[first + 1]?.text !== '(') level.list = false;
    this.#isExpecting = this.#isBeforeTable(word, first, level);
    if (word === 'JOIN' && this.#upper(first - 1) === 'ARRAY') level.list = false;
    else if (this.#isExpecting && (word === 'FROM' || word === 'JOIN')) level.list = true;
    return last;
  }

  #isBeforeTable(word: string, index: number, { isCall }: Level): boolean {
    if (!tableFollows.has(word)) return false;
    const previous = this.#upper(index - 1);
    if (word === 'FROM')
      return !isCall && previous !== 'FILL' && !(previous === 'DISTINCT' && this.#isComparison(index - 2));
    if (word === 'UPDATE') return index === 0;
    return word !== 'JOIN' || previous !== 'ARRAY';
  }

  readonly #isComparison = (index: number): boolean => ['IS', 'NOT'].includes(this.#upper(index));

  #found(first: number, last: number): void {
    const next = this.#tokens[last + 1];
    const isTarget = ['INTO', 'UPDATE', 'TABLE'].includes(this.#upper(first - 1));
    if (!isTarget && next?.text === '(') return; // a table function
    const parts: string[] = [];
    for (let i = first; i <= last; i += 2) parts.push(nameOf(this.#tokens[i] as Token));
    const scope = isTarget || parts.length > 1 ? undefined : this.#scopeOf(parts[0] as string, first);
    const hasAlias =
      next !== undefined && (next.kind === 'quoted' || (next.kind === 'word' && !noAlias.has(upperWord(next))));
    if (scope) {
      this.#commonTables.push({ index: first, declared: scope.declared, isUse: true, hasAlias });
      return;
    }
    this.#tables.push({ parts, first, last, hasAlias });
  }

  readonly #scopeOf = (name: string, index: number): Scope | undefined =>
    this.#scopesAt(name, index).findLast(({ from, to }) => from <= index && index <= to);

  /** The scopes of a name, without those at the end that have ended: each is within those before it. */
  #scopesAt(name: string, index: number): Scope[] {
    const folded = foldedName(name);
    const scopes = this.#scopes.get(folded) ?? [];
    if (scopes.length === 0) this.#scopes.set(folded, scopes);
    while ((scopes.at(-1)?.to ?? index) < index) scopes.pop();
    return scopes;
  }

  /** Records the names that a WITH declares, up to the next WITH: each is valid after its query and, if recursive, inside of it. */
  #declare(index: number): void {
    const isRecursive = this.#upper(index + 1) === 'RECURSIVE' && this.#upper(index + 2) !== 'AS';
    const opened = this.#opened.at(-1);
    const to = (opened === undefined ? undefined : this.#matching.get(opened)) ?? this.#tokens.length;
    let start = index + (isRecursive ? 2 : 1);
    for (let i = start; i < to; i++) {
      const text = this.#tokens[i]?.text;
      if (i === start) {
        const close = this.#queryOf(i);
        if (close !== undefined) {
          const declared = nameOf(this.#tokens[i] as Token);
          this.#scopesAt(declared, index).push({ declared, from: isRecursive ? i : close, to });
          this.#commonTables.push({ index: i, declared, isUse: false, hasAlias: true });
          i = close;
          continue;
        }
      }
      if (text === '(' || text === '[') i = this.#matching.get(i) ?? i;
      else if (text === ',') start = i + 1;
      else if (this.#tokens[i - 1]?.text !== '.' && endsDeclarations.has(this.#upper(i))) return;
    }
  }

  /** The index of the bracket that closes the query of `name [(columns)] AS [[NOT] MATERIALIZED] (query)`. */
  #queryOf(index: number): number | undefined {
    if (!isName(this.#tokens[index])) return undefined;
    let i = index + 1;
    if (this.#tokens[i]?.text === '(') i = (this.#matching.get(i) ?? i) + 1;
    if (this.#upper(i++) !== 'AS') return undefined;
    if (this.#upper(i) === 'NOT') i++;
    if (this.#upper(i) === 'MATERIALIZED') i++;
    return this.#tokens[i]?.text === '(' ? this.#matching.get(i) : undefined;
  }
}
