// How large and how deep a statement is, counted token by token before the engine binds it: what is far beyond what anybody writes
// costs the engine seconds that nothing can interrupt, or its stack. The limits are statement_limits.ts's.
import { statementLimits as limits } from './statement_limits.ts';

/** Words that end an operand: a chain of arrows does not pass them. */
const separators = new Set(
  'SELECT FROM WHERE AND OR AS ON WHEN THEN ELSE END BY HAVING LIMIT IN IS LIKE ILIKE BETWEEN USING UNION VALUES SET QUALIFY'.split(
    ' ',
  ),
);
const opening = new Set(['(', '[', '{']);
const closing = new Set([')', ']', '}']);
/** Words after which commas do not separate the columns of a SELECT any more. */
const afterColumns = new Set('FROM WHERE GROUP HAVING WINDOW QUALIFY ORDER LIMIT UNION EXCEPT INTERSECT'.split(' '));

/** What is between two brackets. */
interface Level {
  /** Arrows in the operand that is being read. */
  arrows: number;
  /** The most arrows in an operand before it. */
  arrowsBefore: number;
  /** Of the same: lambdas, in the operand and before it. */
  lambdas: number;
  lambdasBefore: number;
  /** Columns of the SELECT that is being read; 0: none is. */
  columns: number;
  /** Rows of the VALUES that is being read; undefined: none is. */
  rows: number | undefined;
}

const newLevel = (): Level => ({
  arrows: 0,
  arrowsBefore: 0,
  lambdas: 0,
  lambdasBefore: 0,
  columns: 0,
  rows: undefined,
});

export class StatementShape {
  readonly #levels: Level[] = [newLevel()];
  #parameters = 0;
  #joins = 0;
  #commonTables = 0;
  #before = '';

  /** `token`: a word in upper case, anything else as written. The limit that it exceeds, in words. */
  see(token: string): string | undefined {
    const before = this.#before;
    this.#before = token;
    if (token === '?' || /^\$[^$]+$/.test(token)) {
      this.#parameters++;
      return over(this.#parameters, limits.parameters, 'parameters');
    }
    if (opening.has(token)) return this.#open(token, before);
    if (closing.has(token)) return this.#close();
    if (token === ',') return this.#comma();
    const level = this.#level;
    if (token === 'JOIN') return over(++this.#joins, limits.joins, 'joins');
    if (token === '->') {
      level.arrows++;
      return this.#nested();
    }
    // A comprehension, [x + 1 FOR x IN list], is a lambda too.
    if (token === 'LAMBDA' || (token === 'FOR' && this.#levels.length > 1)) {
      level.lambdas++;
      return this.#nested();
    }
    if (separators.has(token)) operandEnds(level);
    if (token === 'SELECT') level.columns = 1;
    else if (afterColumns.has(token)) level.columns = 0;
    level.rows = token === 'VALUES' ? 0 : undefined;
    return undefined;
  }

  get #level(): Level {
    return this.#levels.at(-1) as Level;
  }

  #open(token: string, before: string): string | undefined {
    const level = this.#level;
    if (token === '(' && before === 'AS') this.#commonTables++;
    if (level.rows !== undefined) level.rows++;
    this.#levels.push(newLevel());
    return (
      over(this.#levels.length - 1, limits.bracketDepth, 'brackets inside one another') ??
      over(this.#commonTables, limits.commonTables, 'common table expressions') ??
      over(level.rows ?? 0, limits.valuesRows, 'rows of VALUES')
    );
  }

  #close(): string | undefined {
    if (this.#levels.length === 1) return undefined;
    const { arrows, arrowsBefore, lambdas, lambdasBefore } = this.#levels.pop() as Level;
    this.#level.arrows += Math.max(arrows, arrowsBefore);
    this.#level.lambdas += Math.max(lambdas, lambdasBefore);
    return this.#nested();
  }

  #comma(): string | undefined {
    const level = this.#level;
    operandEnds(level);
    if (level.columns === 0) return undefined;
    level.columns++;
    return over(level.columns, limits.selectColumns, 'columns of a SELECT');
  }

  #nested(): string | undefined {
    const { arrows, lambdas } = this.#level;
    if (arrows > limits.arrowsInChain)
      return `more than ${limits.arrowsInChain} arrows follow one another; use a path: json_extract(x, '$.a.b.c')`;
    return over(lambdas, limits.lambdaDepth, 'lambdas inside one another');
  }
}

function operandEnds(level: Level): void {
  level.arrowsBefore = Math.max(level.arrowsBefore, level.arrows);
  level.lambdasBefore = Math.max(level.lambdasBefore, level.lambdas);
  level.arrows = 0;
  level.lambdas = 0;
}

const over = (count: number, max: number, what: string): string | undefined =>
  count > max ? `the statement has more than ${max} ${what}` : undefined;
