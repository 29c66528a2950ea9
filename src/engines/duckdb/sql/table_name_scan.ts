// Finds the names in a text at places where a table can be named. It reads the text because a statement that cannot be bound has no
// plan, and because a plan does not show what binding folded into a constant. It never misses a table but may return names that are
// not tables. plan.ts decides what a statement does.
import { contentOf, tokensOf } from './statement_checks.ts';

const wordsOf = (text: string) => new Set(text.split(' '));
/** Keywords that a table follows. */
const tableFollows = wordsOf('FROM USING JOIN INTO UPDATE TABLE ONLY LATERAL PIVOT PIVOT_WIDER PIVOT_LONGER UNPIVOT');
/** The same at the beginning of a statement. */
const tableFollowsAtStart = wordsOf('SUMMARIZE DESCRIBE DESC SHOW');
/** Keywords that a list of tables follows, separated by commas. */
const listFollows = wordsOf('FROM USING JOIN');
/** Keywords that end such a list. All are reserved, so none can be a name in it. */
const listEnds = wordsOf('WHERE HAVING WINDOW QUALIFY LIMIT OFFSET SELECT RETURNING');
/** Keywords that end it before BY. */
const listEndsBeforeBy = wordsOf('GROUP ORDER');
const notATable = new Set([
  ...listEnds,
  ...listEndsBeforeBy,
  ...listFollows,
  ...wordsOf('WITH LATERAL ONLY ON AS NATURAL'),
]);
/** Functions whose arguments can contain FROM. */
const functionsWithFrom = wordsOf('EXTRACT SUBSTRING TRIM OVERLAY POSITION');
/** Keywords after which UPDATE does not name a table. */
const updateIsNoTable = wordsOf('DO THEN FOR');
const samples = /^(?:\d|\(|reservoir$|system$|bernoulli$)/i;

const isPart = (text: string) => /^(?:["'$]|[eE]'|[\p{L}_]|[\u0080-\u{10ffff}])/u.test(text) && text !== '$';
const isQuoted = (text: string) => /^(?:["'$]|[eE]')/.test(text);
const nameOf = (text: string) => (isQuoted(text) ? contentOf(text) : text);

/** The names as written, each split into its parts, root first: `c.d.t`, `d.t` or `t`. Names of common table expressions are omitted. */
export function scanTableNames(sql: string): string[][] {
  return new NameReader([...tokensOf(sql)].map(({ text }) => text)).read();
}

interface Level {
  list: boolean;
  readonly isCall: boolean;
}

/** The range of tokens in which a name refers to a common table expression. */
interface Scope {
  readonly from: number;
  readonly to: number;
}

class NameReader {
  readonly #tokens: readonly string[];
  /** The index of each bracket's counterpart. */
  readonly #matching: ReadonlyMap<number, number>;
  readonly #names: string[][] = [];
  readonly #scopes = new Map<string, Scope[]>();
  /** The index of the first semicolon after the WITH that was read last. */
  #semicolon = -1;
  #levels: Level[] = [];
  #opened: number[] = [];
  #expecting = false;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
    this.#matching = matchingBrackets(tokens);
  }

  read(): string[][] {
    this.#begin();
    for (let i = 0; i < this.#tokens.length; i++) {
      const text = this.#tokens[i] as string;
      const level = this.#levels.at(-1) as Level;
      if (isPart(text)) i = this.#name(i, level);
      else if (text === '(' || text === '[' || text === '{') {
        const isTable = text === '(' && this.#expecting && !this.#isColumnList(i);
        this.#levels.push({ list: isTable, isCall: text === '(' && functionsWithFrom.has(this.#upper(i - 1)) });
        this.#opened.push(i);
        this.#expecting = isTable;
      } else if (text === ')' || text === ']' || text === '}') {
        if (this.#levels.length > 1) this.#levels.pop();
        this.#opened.pop();
        this.#expecting = false;
      } else if (text === ';') this.#begin();
      // After a colon: a prefix alias stands before its table. Two colons are a cast.
      else {
        const isCast = text === ':' && (this.#tokens[i - 1] === ':' || this.#tokens[i + 1] === ':');
        this.#expecting = (text === ',' || (text === ':' && !isCast)) && level.list;
      }
    }
    return this.#names;
  }

  #begin(): void {
    this.#levels = [{ list: false, isCall: false }];
    this.#opened = [];
    this.#expecting = false;
  }

  readonly #upper = (i: number): string => this.#tokens[i]?.toUpperCase() ?? '';

  /** Reads a word, or names joined by dots. Returns the index of the last token. */
  #name(first: number, level: Level): number {
    const tokens = this.#tokens;
    let last = first;
    while (tokens[last + 1] === '.' && isPart(tokens[last + 2] ?? '')) last += 2;
    const word = first === last ? this.#upper(first) : '';
    if (this.#expecting && !notATable.has(word) && !this.#isOther(first, last)) {
      const parts = [];
      for (let i = first; i <= last; i += 2) parts.push(nameOf(tokens[i] as string));
      this.#names.push(parts);
    }
    if (word === 'WITH') this.#declare(first);
    if (listEnds.has(word) || (listEndsBeforeBy.has(word) && this.#upper(first + 1) === 'BY')) level.list = false;
    this.#expecting = this.#isBeforeTable(word, first, level);
    if (this.#expecting && listFollows.has(word)) level.list = true;
    return last;
  }

  #isBeforeTable(word: string, index: number, { isCall }: Level): boolean {
    const previous = this.#upper(index - 1);
    if (tableFollowsAtStart.has(word)) return ['', '(', ';', 'FROM'].includes(previous);
    if (!tableFollows.has(word)) return false;
    if (word === 'FROM') return !isCall && !(previous === 'DISTINCT' && ['IS', 'NOT'].includes(this.#upper(index - 2)));
    if (word === 'UPDATE') return !updateIsNoTable.has(previous);
    return word !== 'USING' || this.#upper(index + 1) !== 'SAMPLE' || !samples.test(this.#tokens[index + 2] ?? '');
  }

  /** Whether a name is a table function or a common table expression. The target of a statement that writes is neither. */
  #isOther(first: number, last: number): boolean {
    const previous = this.#upper(first - 1);
    if (previous === 'INTO' || previous === 'UPDATE' || this.#upper(first - 2) === 'DELETE') return false;
    if (this.#tokens[last + 1] === '(') return true;
    const name = nameOf(this.#tokens[first] as string).toLowerCase();
    return first === last && this.#scopesAt(name, first).some(({ from, to }) => from <= first && first <= to);
  }

  /** The scopes of a name, without those at the end that have ended: each is within those before it. */
  #scopesAt(name: string, index: number): Scope[] {
    const scopes = this.#scopes.get(name) ?? [];
    if (scopes.length === 0) this.#scopes.set(name, scopes);
    while ((scopes.at(-1)?.to ?? index) < index) scopes.pop();
    return scopes;
  }

  /** Whether the parentheses contain the columns of a join, USING (a, b): they never contain only a table. */
  #isColumnList(open: number): boolean {
    const close = this.#matching.get(open) ?? 0;
    for (let i = open + 1; i < close; i++) {
      const isExpected = (i - open) % 2 === 1 ? isPart(this.#tokens[i] as string) : this.#tokens[i] === ',';
      if (!isExpected || notATable.has(this.#upper(i))) return false;
    }
    return (close - open) % 2 === 0;
  }

  /** Records the names that a WITH defines: each is valid after its expression and, if recursive, inside of it after the last UNION. */
  #declare(index: number): void {
    const isRecursive =
      this.#upper(index + 1) === 'RECURSIVE' &&
      isPart(this.#tokens[index + 2] ?? '') &&
      this.#upper(index + 2) !== 'AS';
    const opened = this.#opened.at(-1);
    const to = (opened === undefined ? this.#semicolonAfter(index) : this.#matching.get(opened)) ?? this.#tokens.length;
    for (let i = index + (isRecursive ? 2 : 1); ; i++) {
      const text = this.#tokens[i] ?? '';
      const open = isPart(text) ? this.#bodyIndex(i + 1) : undefined;
      const close = open === undefined ? undefined : this.#matching.get(open);
      if (open === undefined || close === undefined) return;
      const from = isRecursive ? this.#lastUnion(open, close) : close;
      this.#scopesAt(nameOf(text).toLowerCase(), index).push({ from, to });
      i = close + 1;
      if (this.#tokens[i] !== ',') return;
    }
  }

  /** Or the end of the text. */
  #semicolonAfter(index: number): number {
    if (this.#semicolon < index) {
      const found = this.#tokens.indexOf(';', index);
      this.#semicolon = found < 0 ? this.#tokens.length : found;
    }
    return this.#semicolon;
  }

  /**
   * Skips what can stand between a name and its expression: column names, a key, MATERIALIZED. Returns the index of the opening
   * parenthesis.
   */
  #bodyIndex(index: number): number | undefined {
    let i = index;
    const skip = (...words: string[]) => {
      if (words.every((word, n) => this.#upper(i + n) === word)) i += words.length;
    };
    const skipBrackets = () => {
      if (this.#tokens[i] === '(') i = (this.#matching.get(i) ?? i) + 1;
    };
    skipBrackets();
    if (this.#upper(i) === 'USING') {
      skip('USING', 'KEY');
      skipBrackets();
    }
    if (this.#upper(i++) !== 'AS') return undefined;
    skip('NOT');
    skip('MATERIALIZED');
    return this.#tokens[i] === '(' ? i : undefined;
  }

  #lastUnion(open: number, close: number): number {
    let found = close;
    for (let i = open + 1; i < close; i = (this.#matching.get(i) ?? i) + 1) if (this.#upper(i) === 'UNION') found = i;
    return found;
  }
}

function matchingBrackets(tokens: readonly string[]): Map<number, number> {
  const found = new Map<number, number>();
  const open: number[] = [];
  for (const [i, text] of tokens.entries()) {
    if (text === '(' || text === '[' || text === '{') open.push(i);
    else if (text === ')' || text === ']' || text === '}') {
      const start = open.pop();
      if (start !== undefined) found.set(start, i);
    }
  }
  return found;
}
