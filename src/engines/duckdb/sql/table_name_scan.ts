// Which names in a text stand where a table is named. Read off the text, because a statement that cannot be bound has no plan,
// and because a plan does not show what its binding made a constant of. No table is left out; a name that is none may be in. What
// a statement does is its plan's to say (plan.ts).
import { contentOf, tokensOf } from './statement_checks.ts';

const wordsOf = (text: string) => new Set(text.split(' '));
/** After these a table is named. */
const before = wordsOf('FROM USING JOIN INTO UPDATE TABLE ONLY LATERAL PIVOT PIVOT_WIDER PIVOT_LONGER UNPIVOT');
/** And after these, where a statement begins. */
const beforeAtStart = wordsOf('SUMMARIZE DESCRIBE DESC SHOW');
/** After these more than one: commas go on. */
const lists = wordsOf('FROM USING JOIN');
/** These end such a list. All are reserved: none can be the name of something in it. */
const ends = wordsOf('WHERE HAVING WINDOW QUALIFY LIMIT OFFSET SELECT RETURNING');
/** These too, before BY. */
const endsBeforeBy = wordsOf('GROUP ORDER');
const noTable = new Set([...ends, ...endsBeforeBy, ...lists, ...wordsOf('WITH LATERAL ONLY ON AS NATURAL')]);
/** Functions whose arguments may have a FROM between them. */
const withFrom = wordsOf('EXTRACT SUBSTRING TRIM OVERLAY POSITION');
/** UPDATE after these names no table. */
const beforeSet = wordsOf('DO THEN FOR');
const samples = /^(?:\d|\(|reservoir$|system$|bernoulli$)/i;

const isPart = (text: string) => /^(?:["'$]|[eE]'|[\p{L}_]|[\u0080-\u{10ffff}])/u.test(text) && text !== '$';
const isQuoted = (text: string) => /^(?:["'$]|[eE]')/.test(text);
const nameOf = (text: string) => (isQuoted(text) ? contentOf(text) : text);

/** Each name in its parts, root first, as it is written: `c.d.t`, `d.t` or `t`. Names of common table expressions are none. */
export function scanTableNames(sql: string): string[][] {
  return new NameReader([...tokensOf(sql)].map(({ text }) => text)).read();
}

interface Level {
  list: boolean;
  readonly isCall: boolean;
}

/** The name of a common table expression, and between which tokens it means that. */
interface Scope {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

class NameReader {
  readonly #tokens: readonly string[];
  /** By the place of a bracket: that of the other one. */
  readonly #ends: ReadonlyMap<number, number>;
  readonly #names: string[][] = [];
  readonly #scopes: Scope[] = [];
  #levels: Level[] = [];
  #opened: number[] = [];
  #expecting = false;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
    this.#ends = endsOf(tokens);
  }

  read(): string[][] {
    this.#begin();
    for (let i = 0; i < this.#tokens.length; i++) {
      const text = this.#tokens[i] as string;
      const level = this.#levels.at(-1) as Level;
      if (isPart(text)) i = this.#name(i, level);
      else if (text === '(' || text === '[' || text === '{') {
        const isTable = text === '(' && this.#expecting && !this.#isColumnList(i);
        this.#levels.push({ list: isTable, isCall: text === '(' && withFrom.has(this.#upper(i - 1)) });
        this.#opened.push(i);
        this.#expecting = isTable;
      } else if (text === ')' || text === ']' || text === '}') {
        if (this.#levels.length > 1) this.#levels.pop();
        this.#opened.pop();
        this.#expecting = false;
      } else if (text === ';') this.#begin();
      // A colon: an alias may stand before what it is for. Two are a cast.
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

  /** A word, or names with points between them. Returns the place of the last. */
  #name(first: number, level: Level): number {
    const tokens = this.#tokens;
    let last = first;
    while (tokens[last + 1] === '.' && isPart(tokens[last + 2] ?? '')) last += 2;
    const word = first === last ? this.#upper(first) : '';
    if (this.#expecting && !noTable.has(word) && !this.#isOther(first, last)) {
      const parts = [];
      for (let i = first; i <= last; i += 2) parts.push(nameOf(tokens[i] as string));
      this.#names.push(parts);
    }
    if (word === 'WITH') this.#declare(first);
    if (ends.has(word) || (endsBeforeBy.has(word) && this.#upper(first + 1) === 'BY')) level.list = false;
    this.#expecting = this.#isBeforeTable(word, first, level);
    if (this.#expecting && lists.has(word)) level.list = true;
    return last;
  }

  #isBeforeTable(word: string, at: number, { isCall }: Level): boolean {
    const previous = this.#upper(at - 1);
    if (beforeAtStart.has(word)) return ['', '(', ';', 'FROM'].includes(previous);
    if (!before.has(word)) return false;
    if (word === 'FROM') return !isCall && !(previous === 'DISTINCT' && ['IS', 'NOT'].includes(this.#upper(at - 2)));
    if (word === 'UPDATE') return !beforeSet.has(previous);
    return word !== 'USING' || this.#upper(at + 1) !== 'SAMPLE' || !samples.test(this.#tokens[at + 2] ?? '');
  }

  /** A function that makes rows, or the name of a common table expression. What a statement writes to is neither. */
  #isOther(first: number, last: number): boolean {
    const previous = this.#upper(first - 1);
    if (previous === 'INTO' || previous === 'UPDATE' || this.#upper(first - 2) === 'DELETE') return false;
    if (this.#tokens[last + 1] === '(') return true;
    const name = nameOf(this.#tokens[first] as string).toLowerCase();
    return first === last && this.#scopes.some((one) => one.name === name && one.from <= first && first <= one.to);
  }

  /** USING (a, b) of a join: a table does not stand in brackets alone. */
  #isColumnList(open: number): boolean {
    const close = this.#ends.get(open) ?? 0;
    for (let i = open + 1; i < close; i++) {
      const fits = (i - open) % 2 === 1 ? isPart(this.#tokens[i] as string) : this.#tokens[i] === ',';
      if (!fits || noTable.has(this.#upper(i))) return false;
    }
    return (close - open) % 2 === 0;
  }

  /** The names that a WITH gives: each means its expression after that, and in itself after the last UNION if it is recursive. */
  #declare(at: number): void {
    const isRecursive =
      this.#upper(at + 1) === 'RECURSIVE' && isPart(this.#tokens[at + 2] ?? '') && this.#upper(at + 2) !== 'AS';
    const opened = this.#opened.at(-1);
    const end = opened === undefined ? this.#tokens.indexOf(';', at) : this.#ends.get(opened);
    const to = end === undefined || end < 0 ? this.#tokens.length : end;
    for (let i = at + (isRecursive ? 2 : 1); ; i++) {
      const text = this.#tokens[i] ?? '';
      const open = isPart(text) ? this.#bodyOf(i + 1) : undefined;
      const close = open === undefined ? undefined : this.#ends.get(open);
      if (open === undefined || close === undefined) return;
      this.#scopes.push({
        name: nameOf(text).toLowerCase(),
        from: isRecursive ? this.#lastUnion(open, close) : close,
        to,
      });
      i = close + 1;
      if (this.#tokens[i] !== ',') return;
    }
  }

  /** What may stand between a name and its expression: names of columns, a key, how it is to be kept. */
  #bodyOf(at: number): number | undefined {
    let i = at;
    const skip = (...words: string[]) => {
      if (words.every((word, n) => this.#upper(i + n) === word)) i += words.length;
    };
    const skipBrackets = () => {
      if (this.#tokens[i] === '(') i = (this.#ends.get(i) ?? i) + 1;
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
    for (let i = open + 1; i < close; i = (this.#ends.get(i) ?? i) + 1) if (this.#upper(i) === 'UNION') found = i;
    return found;
  }
}

function endsOf(tokens: readonly string[]): Map<number, number> {
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
