// Reads the outer form of a statement: a query, or the table, columns and expressions of an INSERT, UPDATE or DELETE. The server never gets
// the text of a statement that writes, only one that is built from these parts, so that no other clause can be in it.

import { sqlInvalid } from '../../sql/sql_invalid.ts';
import { refusedStatement } from './sql_failures.ts';
import type { NamedTable } from './table_names.ts';
import { isName, matchingBrackets, nameOf, type Token, upperWord } from './tokens.ts';

/** Tokens from `first` up to, without, `end`. */
export interface TokenRange {
  readonly first: number;
  readonly end: number;
}

export type StatementShape =
  | { readonly kind: 'select'; readonly query: TokenRange }
  | {
      readonly kind: 'insert';
      readonly target: NamedTable;
      readonly columns: readonly string[] | undefined;
      readonly source:
        | { readonly kind: 'query'; readonly query: TokenRange }
        | { readonly kind: 'values'; readonly rows: readonly (readonly TokenRange[])[] };
    }
  | {
      readonly kind: 'update';
      readonly target: NamedTable;
      readonly alias: string | undefined;
      readonly assignments: readonly { readonly column: string; readonly value: TokenRange }[];
      readonly where: TokenRange | undefined;
    }
  | {
      readonly kind: 'delete';
      readonly target: NamedTable;
      readonly alias: string | undefined;
      readonly where: TokenRange | undefined;
    };

const queryStarts = new Set(['SELECT', 'WITH', 'FROM']);

/** Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
export function readShape(sql: string, tokens: readonly Token[]): StatementShape {
  const [first] = tokens;
  const word = upperWord(first);
  if (word === 'INSERT' || word === 'UPDATE' || word === 'DELETE') return new ShapeReader(sql, tokens).read(word);
  if (!queryStarts.has(word) && first?.text !== '(') throw refusedStatement(sql.slice(first?.start));
  return { kind: 'select', query: { first: 0, end: tokens.length } };
}

class ShapeReader {
  readonly #sql: string;
  readonly #tokens: readonly Token[];
  readonly #matching: ReadonlyMap<number, number>;
  #at = 1;

  constructor(sql: string, tokens: readonly Token[]) {
    this.#sql = sql;
    this.#tokens = tokens;
    this.#matching = matchingBrackets(tokens);
  }

  read(kind: 'INSERT' | 'UPDATE' | 'DELETE'): StatementShape {
    if (kind === 'INSERT') return this.#insert();
    if (kind === 'DELETE') this.#take('FROM');
    const target = this.#table();
    const alias = this.#alias();
    if (kind === 'DELETE') return { kind: 'delete', target, alias, where: this.#where() };
    this.#take('SET');
    const assignments: { column: string; value: TokenRange }[] = [];
    do {
      const column = this.#identifier();
      if (!this.#accept('=')) throw this.#unexpected();
      assignments.push({ column, value: this.#expression() });
    } while (this.#accept(','));
    return { kind: 'update', target, alias, assignments, where: this.#where() };
  }

  #insert(): StatementShape {
    this.#take('INTO');
    this.#accept('TABLE');
    const target = this.#table();
    const columns = this.#isColumnList() ? this.#columns() : undefined;
    if (this.#accept('VALUES'))
      return { kind: 'insert', target, columns, source: { kind: 'values', rows: this.#rows() } };
    const word = upperWord(this.#tokens[this.#at]);
    if (!queryStarts.has(word) && this.#tokens[this.#at]?.text !== '(') throw this.#unexpected();
    const query = { first: this.#at, end: this.#tokens.length };
    return { kind: 'insert', target, columns, source: { kind: 'query', query } };
  }

  #table(): NamedTable {
    const first = this.#at;
    const parts = [this.#identifier()];
    while (this.#accept('.')) parts.push(this.#identifier());
    return { parts, first, last: this.#at - 1, hasAlias: false };
  }

  #alias(): string | undefined {
    if (this.#accept('AS')) return this.#identifier();
    const token = this.#tokens[this.#at];
    const isAlias = isName(token) && !['SET', 'WHERE', 'USING'].includes(upperWord(token));
    return isAlias ? this.#identifier() : undefined;
  }

  #isColumnList(): boolean {
    const inside = this.#tokens[this.#at + 1];
    return this.#tokens[this.#at]?.text === '(' && inside?.text !== '(' && !queryStarts.has(upperWord(inside));
  }

  #columns(): string[] {
    this.#take('(');
    const columns = [this.#identifier()];
    while (this.#accept(',')) columns.push(this.#identifier());
    this.#take(')');
    return columns;
  }

  #rows(): TokenRange[][] {
    const rows: TokenRange[][] = [];
    do {
      const close = this.#matching.get(this.#at);
      this.#take('(');
      const row = [this.#expression()];
      while (this.#accept(',')) row.push(this.#expression());
      if (this.#at !== close) throw this.#unexpected();
      this.#at++;
      rows.push(row);
    } while (this.#accept(','));
    if (this.#at < this.#tokens.length) throw this.#unexpected();
    return rows;
  }

  #where(): TokenRange | undefined {
    if (this.#at === this.#tokens.length) return undefined;
    this.#take('WHERE');
    const where = { first: this.#at, end: this.#tokens.length };
    if (where.first === where.end) throw this.#unexpected();
    return where;
  }

  /** Up to a comma, a closing bracket or WHERE outside of brackets. */
  #expression(): TokenRange {
    const first = this.#at;
    for (; this.#at < this.#tokens.length; this.#at++) {
      const token = this.#tokens[this.#at] as Token;
      if (token.text === '(' || token.text === '[') this.#at = this.#matching.get(this.#at) ?? this.#at;
      else if (token.kind === 'symbol' && [',', ')', ']'].includes(token.text)) break;
      else if (['WHERE', 'FROM'].includes(upperWord(token))) break;
    }
    if (this.#at === first) throw this.#unexpected();
    return { first, end: this.#at };
  }

  #identifier(): string {
    const token = this.#tokens[this.#at];
    if (!isName(token)) throw this.#unexpected();
    this.#at++;
    return nameOf(token);
  }

  #accept(text: string): boolean {
    const token = this.#tokens[this.#at];
    const isNext = token !== undefined && (token.kind === 'word' ? upperWord(token) : token.text) === text;
    if (isNext) this.#at++;
    return isNext;
  }

  #take(text: string): void {
    if (!this.#accept(text)) throw this.#unexpected();
  }

  #unexpected() {
    const token = this.#tokens[this.#at];
    const message = token
      ? `syntax error at or near ${JSON.stringify(token.text.slice(0, 80))}`
      : 'syntax error at the end of the text';
    return sqlInvalid(message, this.#sql, token?.start ?? this.#sql.length);
  }
}
