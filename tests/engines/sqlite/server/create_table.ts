// Parses CREATE TABLE: names, columns with their types, NOT NULL, defaults and keys. Nothing is bound.
import type { ParsedCreateTable } from '../../../../src/engines/port/statements.ts';
import type { ColumnDefinition } from '../../../../src/model/records.ts';
import { parseType } from '../../../../src/model/types.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { nameIn, sqlInvalid, type Token, tokensOf } from './sql_text.ts';

/** Words that end the type, or the default, of a column. */
const columnWords: ReadonlySet<string> = new Set([
  'NOT',
  'NULL',
  'DEFAULT',
  'PRIMARY',
  'UNIQUE',
  'CHECK',
  'REFERENCES',
]);

/** Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
export function parseCreateTable(sql: string): ParsedCreateTable {
  return new CreateTableParser(sql).parse();
}

class CreateTableParser {
  readonly #sql: string;
  readonly #tokens: readonly Token[];
  #at = 0;
  readonly #columns: ColumnDefinition[] = [];
  #primaryKey: readonly string[] = [];
  #uniqueKey: readonly string[] = [];

  constructor(sql: string) {
    this.#sql = sql;
    this.#tokens = tokensOf(sql);
  }

  parse(): ParsedCreateTable {
    this.#take('CREATE');
    this.#take('TABLE');
    const ifNotExists = this.#accept('IF');
    if (ifNotExists) {
      this.#take('NOT');
      this.#take('EXISTS');
    }
    const parts = [this.#name()];
    while (this.#accept('.')) parts.push(this.#name());
    const [table = '', database, catalog] = parts.toReversed();
    this.#take('(');
    do this.#element();
    while (this.#accept(','));
    this.#take(')');
    this.#accept(';');
    if (this.#at < this.#tokens.length) throw this.#unexpected();
    return {
      ...(catalog === undefined ? {} : { catalog }),
      ...(database === undefined ? {} : { database }),
      table,
      ifNotExists,
      definition: { columns: this.#columns, primaryKey: this.#primaryKey, uniqueKey: this.#uniqueKey },
    };
  }

  #element(): void {
    if (this.#accept('PRIMARY')) {
      this.#take('KEY');
      this.#primaryKey = this.#names();
    } else if (this.#upper() === 'UNIQUE') {
      this.#at++;
      this.#uniqueKey = this.#names();
    } else this.#column();
  }

  #column(): void {
    const name = this.#name();
    const type = parseType(this.#textUntilWord());
    let nullable = true;
    let defaultValue: string | undefined;
    for (;;) {
      if (this.#accept('NOT')) {
        this.#take('NULL');
        nullable = false;
      } else if (this.#accept('DEFAULT')) defaultValue = this.#textUntilWord();
      else if (this.#accept('PRIMARY')) {
        this.#take('KEY');
        this.#primaryKey = [name];
        nullable = false;
      } else if (this.#accept('UNIQUE')) this.#uniqueKey = [name];
      else if (!this.#accept('NULL')) break;
    }
    if (['CHECK', 'REFERENCES'].includes(this.#upper()))
      throw new Failure('SQL_NOT_SUPPORTED', `${this.#upper()} is not supported`);
    this.#columns.push({ name, type, nullable, ...(defaultValue === undefined ? {} : { defaultValue }) });
  }

  #names(): string[] {
    this.#take('(');
    const names = [this.#name()];
    while (this.#accept(',')) names.push(this.#name());
    this.#take(')');
    return names;
  }

  /** The text up to a word of the column, a comma or the end of the list. */
  #textUntilWord(): string {
    const first = this.#tokens[this.#at];
    let depth = 0;
    for (; this.#at < this.#tokens.length; this.#at++) {
      const word = this.#upper();
      if (depth === 0 && (word === ',' || word === ')' || columnWords.has(word))) break;
      if ('(<'.includes(word)) depth++;
      if (')>'.includes(word)) depth--;
    }
    const last = this.#tokens[this.#at - 1];
    if (!first || !last || last.end <= first.start) throw this.#unexpected();
    return this.#sql.slice(first.start, last.end);
  }

  #name(): string {
    const text = this.#tokens[this.#at]?.text ?? '';
    if (!/^["`[\p{L}_]/u.test(text)) throw this.#unexpected();
    this.#at++;
    return nameIn(text);
  }

  readonly #upper = (): string => this.#tokens[this.#at]?.text.toUpperCase() ?? '';

  #accept(word: string): boolean {
    if (this.#upper() !== word) return false;
    this.#at++;
    return true;
  }

  #take(word: string): void {
    if (!this.#accept(word)) throw this.#unexpected();
  }

  #unexpected(): Failure {
    const text = this.#tokens[this.#at]?.text;
    return sqlInvalid(text === undefined ? 'the text ends too early' : `unexpected ${text}`);
  }
}
