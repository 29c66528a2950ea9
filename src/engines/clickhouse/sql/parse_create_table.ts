// Parses CREATE TABLE: the name, columns with our logical types, NOT NULL, defaults and keys. Nothing is bound, and no server sees the text.
import type { ColumnDefinition } from '../../../model/records.ts';
import { type LogicalType, parseType, TypeSyntaxError } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import type { ParsedCreateTable } from '../../port/statements.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import { statementLimits } from './statement_limits.ts';
import { isName, nameOf, type Token, tokensOf, upperWord } from './tokens.ts';

/** A default, with its place in the text. */
export interface ParsedDefault {
  readonly column: string;
  readonly type: LogicalType;
  readonly expression: string;
  readonly offset: number;
}

export interface ReadCreateTable {
  readonly parsed: ParsedCreateTable;
  readonly defaults: readonly ParsedDefault[];
}

/** Words that end the type, or the default, of a column. */
const columnWords: ReadonlySet<string> = new Set(
  'NOT NULL DEFAULT PRIMARY UNIQUE CHECK REFERENCES COLLATE CONSTRAINT GENERATED COMMENT CODEC TTL MATERIALIZED EPHEMERAL ALIAS STATISTICS'.split(
    ' ',
  ),
);
/** Types that parse in other engines and that no column has. */
const knownTypes =
  /^(?:time|timetz|interval|enum|bit|varint|union|point|geometry|uint\w*|u\w+int\w*|hugeint|date32|datetime64|int256|lowcardinality|nullable|fixedstring|ipv[46]|tuple|variant|dynamic|aggregatefunction|simpleaggregatefunction)\b/i;

const notSupported = (message: string): Failure => new Failure('SQL_NOT_SUPPORTED', message);

/** Throws SQL_INVALID or SQL_NOT_SUPPORTED. The defaults still have to be checked. */
export function parseCreateTable(sql: string): ReadCreateTable {
  return new CreateTableParser(sql).parse();
}

class CreateTableParser {
  readonly #sql: string;
  readonly #tokens: readonly Token[];
  #at = 0;
  readonly #columns: ColumnDefinition[] = [];
  readonly #names = new Map<string, string>();
  readonly #defaults: ParsedDefault[] = [];
  #primaryKey: readonly string[] = [];
  #uniqueKey: readonly string[] = [];

  constructor(sql: string) {
    this.#sql = sql;
    this.#tokens = tokensOf(sql);
  }

  parse(): ReadCreateTable {
    this.#head();
    const ifNotExists = this.#accept('IF');
    if (ifNotExists) {
      this.#take('NOT');
      this.#take('EXISTS');
    }
    const parts = [this.#name()];
    while (this.#accept('.')) parts.push(this.#name());
    if (parts.length > 3) throw this.#invalid('syntax error: a table name has at most three parts');
    const [table = '', database, catalog] = parts.toReversed();
    if (this.#upper() === 'AS')
      throw notSupported('CREATE TABLE ... AS SELECT is not supported here: use POST .../tables with `asSelect`');
    this.#take('(');
    do this.#element();
    while (this.#accept(','));
    this.#take(')');
    if (this.#at < this.#tokens.length)
      throw notSupported(
        `the clause ${this.#upper() || this.#tokens[this.#at]?.text} is not supported: use the fields of the table`,
      );
    if (this.#columns.length === 0) throw this.#invalid('a table needs at least one column');
    const primaryKey = this.#exactNames(this.#primaryKey);
    const columns = this.#columns.map((column) => ({
      ...column,
      nullable: column.nullable && !primaryKey.includes(column.name),
    }));
    return {
      parsed: {
        ...(catalog === undefined ? {} : { catalog }),
        ...(database === undefined ? {} : { database }),
        table,
        ifNotExists,
        definition: { columns, primaryKey, uniqueKey: this.#exactNames(this.#uniqueKey) },
      },
      defaults: this.#defaults,
    };
  }

  #head(): void {
    if (!this.#accept('CREATE')) throw notSupported('only a CREATE TABLE statement is allowed here');
    if (this.#upper() === 'OR') throw notSupported('CREATE OR REPLACE is not supported: drop the table first');
    if (['TEMP', 'TEMPORARY', 'LOCAL', 'GLOBAL'].includes(this.#upper()))
      throw notSupported('temporary tables are not supported');
    if (!this.#accept('TABLE')) throw notSupported('only a CREATE TABLE statement is allowed here');
  }

  #element(): void {
    const word = this.#upper();
    const next = this.#upper(1) || (this.#tokens[this.#at + 1]?.text ?? '');
    if (word === 'PRIMARY' && next === 'KEY') {
      this.#at += 2;
      this.#setPrimaryKey(this.#columnList());
    } else if (word === 'UNIQUE' && next === '(') {
      this.#at++;
      this.#setUniqueKey(this.#columnList());
    } else if (word === 'FOREIGN' && next === 'KEY') throw foreignKeys();
    else if (['CONSTRAINT', 'CHECK', 'INDEX', 'PROJECTION'].includes(word) && next !== '') {
      throw notSupported(`${word} is not supported in a table`);
    } else this.#column();
  }

  #column(): void {
    if (this.#columns.length >= statementLimits.columns)
      throw this.#invalid(`a table can have at most ${statementLimits.columns} columns`);
    const nameToken = this.#tokens[this.#at];
    const name = this.#name();
    if (this.#names.has(name.toLowerCase()))
      throw this.#invalid(`the column ${JSON.stringify(name)} is repeated`, nameToken);
    this.#names.set(name.toLowerCase(), name);
    const type = this.#type();
    let nullable = true;
    let defaultValue: string | undefined;
    for (;;) {
      if (this.#accept('NOT')) {
        this.#take('NULL');
        nullable = false;
      } else if (this.#accept('DEFAULT')) {
        const offset = this.#tokens[this.#at]?.start ?? this.#sql.length;
        const expression = this.#textUntilWord();
        // DEFAULT NULL is the same as no default.
        if (/^null$/i.test(expression)) continue;
        defaultValue = expression;
        this.#defaults.push({ column: name, type, expression, offset });
      } else if (this.#accept('PRIMARY')) {
        this.#take('KEY');
        this.#setPrimaryKey([name]);
      } else if (this.#accept('UNIQUE')) this.#setUniqueKey([name]);
      else if (!this.#accept('NULL')) break;
    }
    const rest = this.#upper();
    if (rest === 'REFERENCES') throw foreignKeys();
    if (columnWords.has(rest)) throw notSupported(`${rest} is not supported in a column`);
    this.#columns.push({ name, type, nullable, ...(defaultValue === undefined ? {} : { defaultValue }) });
  }

  #type(): LogicalType {
    const first = this.#tokens[this.#at];
    const text = this.#textUntilWord();
    try {
      return parseType(text);
    } catch (error) {
      if (!(error instanceof TypeSyntaxError)) throw error;
      if (knownTypes.test(text)) throw notSupported(`the type ${text.slice(0, 80)} is not supported`);
      throw this.#invalid(error.message, first);
    }
  }

  #setPrimaryKey(names: readonly string[]): void {
    if (this.#primaryKey.length > 0) throw this.#invalid('a table has at most one primary key');
    this.#primaryKey = names;
  }

  #setUniqueKey(names: readonly string[]): void {
    if (this.#uniqueKey.length > 0) throw notSupported('a table has at most one UNIQUE key besides its primary key');
    this.#uniqueKey = names;
  }

  #exactNames(names: readonly string[]): string[] {
    return names.map((name) => {
      const exact = this.#names.get(name.toLowerCase());
      if (exact === undefined)
        throw this.#invalid(`the key has a column ${JSON.stringify(name)} that the table does not have`);
      return exact;
    });
  }

  #columnList(): string[] {
    this.#take('(');
    const names = [this.#name()];
    while (this.#accept(',')) names.push(this.#name());
    this.#take(')');
    return names;
  }

  /** The text up to a word of the column, a comma or the end of the list. */
  #textUntilWord(): string {
    const first = this.#tokens[this.#at];
    const start = this.#at;
    let depth = 0;
    for (; this.#at < this.#tokens.length; this.#at++) {
      const token = this.#tokens[this.#at] as Token;
      const { text } = token;
      if (depth === 0 && (text === ',' || text === ')')) break;
      if (depth === 0 && this.#at > start && columnWords.has(upperWord(token)) && !this.#isInExpression()) break;
      if (text === '(' || text === '[' || text === '<') depth++;
      if (text === ')' || text === ']' || (text === '>' && depth > 0)) depth--;
    }
    const last = this.#tokens[this.#at - 1];
    if (!first || !last || this.#at === start) throw this.#unexpected();
    return this.#sql.slice(first.start, last.end);
  }

  /** `IS NULL`, `IS NOT NULL`, `x NOT IN` and `AND NOT x` are parts of an expression. */
  #isInExpression(): boolean {
    const previous = upperWord(this.#tokens[this.#at - 1]);
    if (['IS', 'AND', 'OR', 'WHEN', 'THEN', 'ELSE', 'CASE', 'NOT'].includes(previous)) return true;
    return this.#upper() === 'NOT' && ['IN', 'LIKE', 'ILIKE', 'BETWEEN'].includes(this.#upper(1));
  }

  #name(): string {
    const token = this.#tokens[this.#at];
    if (!isName(token)) throw this.#unexpected();
    this.#at++;
    return nameOf(token);
  }

  readonly #upper = (ahead = 0): string => upperWord(this.#tokens[this.#at + ahead]);

  #accept(text: string): boolean {
    const token = this.#tokens[this.#at];
    if ((upperWord(token) || token?.text) !== text) return false;
    this.#at++;
    return true;
  }

  #take(text: string): void {
    if (!this.#accept(text)) throw this.#unexpected();
  }

  #invalid(message: string, token = this.#tokens[this.#at]): Failure {
    return sqlInvalid(message, this.#sql, token?.start ?? 0);
  }

  #unexpected(): Failure {
    const token = this.#tokens[this.#at];
    return token
      ? sqlInvalid(`syntax error at or near ${JSON.stringify(token.text.slice(0, 80))}`, this.#sql, token.start)
      : sqlInvalid('syntax error at the end of the text', this.#sql, this.#sql.length);
  }
}

const foreignKeys = () => notSupported('foreign keys are not supported; leave out FOREIGN KEY and REFERENCES');
