// Measures the size and depth of a statement token by token before the engine binds it: extreme statements take seconds that cannot
// be interrupted, or overflow the engine's stack. See statement_limits.ts for the limits.
import { statementLimits as limits } from './statement_limits.ts';

/** Keywords that end an operand: a chain of arrows does not continue after them. */
const separators = new Set(
  'SELECT FROM WHERE AND OR AS ON WHEN THEN ELSE END BY HAVING LIMIT IN IS LIKE ILIKE BETWEEN USING UNION VALUES SET QUALIFY'.split(
    ' ',
  ),
);
const opening = new Set(['(', '[', '{']);
const closing = new Set([')', ']', '}']);
/** Keywords after which commas no longer separate the columns of a SELECT. */
const afterColumns = new Set('FROM WHERE GROUP HAVING WINDOW QUALIFY ORDER LIMIT UNION EXCEPT INTERSECT'.split(' '));

/** Counters for the text between two brackets. */
interface Level {
  /** Arrows in the current operand. */
  arrows: number;
  /** The maximum of arrows in a preceding operand. */
  arrowsBefore: number;
  /** Lambdas in the current operand, and the maximum of a preceding one. */
  lambdas: number;
  lambdasBefore: number;
  /** Columns of the current SELECT; 0 outside of its column list. */
  columns: number;
  /** Rows of the current VALUES; undefined outside of VALUES. */
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

  /** Counts a token: a keyword in upper case, any other token as written. Returns a message if it exceeds a limit. */
  count(token: string): string | undefined {
    const before = this.#before;
    this.#before = token;
    if (token === '?' || /^\$[^$]+$/.test(token)) {
      this.#parameters++;
      return exceeded(this.#parameters, limits.parameters, 'parameters');
    }
    if (opening.has(token)) return this.#open(token, before);
    if (closing.has(token)) return this.#close();
    if (token === ',') return this.#comma();
    const level = this.#level;
    if (token === 'JOIN') return exceeded(++this.#joins, limits.joins, 'joins');
    if (token === '->') {
      level.arrows++;
      return this.#nested();
    }
    // A list comprehension, [x + 1 FOR x IN list], is a lambda as well.
    if (token === 'LAMBDA' || (token === 'FOR' && this.#levels.length > 1)) {
      level.lambdas++;
      return this.#nested();
    }
    if (separators.has(token)) endOperand(level);
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
      exceeded(this.#levels.length - 1, limits.bracketDepth, 'nested brackets') ??
      exceeded(this.#commonTables, limits.commonTables, 'common table expressions') ??
      exceeded(level.rows ?? 0, limits.valuesRows, 'rows of VALUES')
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
    endOperand(level);
    if (level.columns === 0) return undefined;
    level.columns++;
    return exceeded(level.columns, limits.selectColumns, 'columns of a SELECT');
  }

  #nested(): string | undefined {
    const { arrows, lambdas } = this.#level;
    if (arrows > limits.arrowsInChain)
      return `more than ${limits.arrowsInChain} arrows in a row; use a path: json_extract(x, '$.a.b.c')`;
    return exceeded(lambdas, limits.lambdaDepth, 'nested lambdas');
  }
}

function endOperand(level: Level): void {
  level.arrowsBefore = Math.max(level.arrowsBefore, level.arrows);
  level.lambdasBefore = Math.max(level.lambdasBefore, level.lambdas);
  level.arrows = 0;
  level.lambdas = 0;
}

const exceeded = (count: number, max: number, what: string): string | undefined =>
  count > max ? `the statement has more than ${max} ${what}` : undefined;
