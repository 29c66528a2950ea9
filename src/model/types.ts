// The logical types of columns: their structure, parser and canonical text, and the JSON form of their values (rest-standard B7). Each
// engine maps them to its own types.
import { nameFault } from './names.ts';

/** All kinds of types. An engine maps them in a `Record`, so that the compiler reports a missing one. */
export type TypeKind =
  | 'BOOLEAN'
  | 'TINYINT'
  | 'SMALLINT'
  | 'INT'
  | 'BIGINT'
  | 'LARGEINT'
  | 'FLOAT'
  | 'DOUBLE'
  | 'DECIMAL'
  | 'DATE'
  | 'DATETIME'
  | 'TIMESTAMPTZ'
  | 'CHAR'
  | 'VARCHAR'
  | 'STRING'
  | 'BINARY'
  | 'JSON'
  | 'UUID'
  | 'ARRAY'
  | 'MAP'
  | 'STRUCT';

export type ScalarKind = Exclude<TypeKind, 'DECIMAL' | 'CHAR' | 'VARCHAR' | 'ARRAY' | 'MAP' | 'STRUCT'>;

export type LogicalType =
  | { readonly kind: ScalarKind }
  | { readonly kind: 'DECIMAL'; readonly precision: number; readonly scale: number }
  | { readonly kind: 'CHAR' | 'VARCHAR'; readonly length: number }
  | { readonly kind: 'ARRAY'; readonly element: LogicalType }
  | { readonly kind: 'MAP'; readonly key: LogicalType; readonly value: LogicalType }
  | { readonly kind: 'STRUCT'; readonly fields: readonly { readonly name: string; readonly type: LogicalType }[] };

/** The JSON form of values, in requests and responses (rest-standard B7). */
export type JsonForm =
  | 'boolean'
  | 'number' // an exact JSON number, any width
  | 'float' // a JSON number, or "NaN", "Infinity", "-Infinity"
  | 'date' // "2026-01-31"
  | 'datetime' // "2026-01-31T10:00:00.123456", no zone
  | 'timestamp' // "2026-01-31T10:00:00.123456Z"
  | 'string'
  | 'base64'
  | 'json' // the value itself
  | 'uuid'
  | 'array'
  | 'entries' // [{"key": k, "value": v}, ...]
  | 'object';

export const jsonForms: Record<TypeKind, JsonForm> = {
  BOOLEAN: 'boolean',
  TINYINT: 'number',
  SMALLINT: 'number',
  INT: 'number',
  BIGINT: 'number',
  LARGEINT: 'number',
  FLOAT: 'float',
  DOUBLE: 'float',
  DECIMAL: 'number',
  DATE: 'date',
  DATETIME: 'datetime',
  TIMESTAMPTZ: 'timestamp',
  CHAR: 'string',
  VARCHAR: 'string',
  STRING: 'string',
  BINARY: 'base64',
  JSON: 'json',
  UUID: 'uuid',
  ARRAY: 'array',
  MAP: 'entries',
  STRUCT: 'object',
};

export const decimalPrecisionMax = 38;
/** For DECIMAL without precision and scale. */
const decimalDefault = { precision: 18, scale: 3 };
export const varcharLengthMax = 1_048_576;
export const typeDepthMax = 16;
const typeTextCharactersMax = 65_536;

/** Type names of other systems. Only DECIMAL, CHAR and VARCHAR accept arguments. */
const aliases: Record<string, TypeKind> = {
  BOOL: 'BOOLEAN',
  INT1: 'TINYINT',
  INT8: 'BIGINT',
  INT2: 'SMALLINT',
  SHORT: 'SMALLINT',
  INTEGER: 'INT',
  INT4: 'INT',
  SIGNED: 'INT',
  LONG: 'BIGINT',
  HUGEINT: 'LARGEINT',
  INT128: 'LARGEINT',
  REAL: 'FLOAT',
  FLOAT4: 'FLOAT',
  FLOAT8: 'DOUBLE',
  'DOUBLE PRECISION': 'DOUBLE',
  NUMERIC: 'DECIMAL',
  DEC: 'DECIMAL',
  TIMESTAMP: 'DATETIME',
  'TIMESTAMP WITHOUT TIME ZONE': 'DATETIME',
  'TIMESTAMP WITH TIME ZONE': 'TIMESTAMPTZ',
  CHARACTER: 'CHAR',
  'CHARACTER VARYING': 'VARCHAR',
  NVARCHAR: 'VARCHAR',
  TEXT: 'STRING',
  BLOB: 'BINARY',
  BYTEA: 'BINARY',
  BYTES: 'BINARY',
  VARBINARY: 'BINARY',
  JSONB: 'JSON',
  LIST: 'ARRAY',
  ROW: 'STRUCT',
};

const bareFieldName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Whether a type, or a type nested in it, satisfies the predicate. */
export function holdsType(type: LogicalType, predicate: (type: LogicalType) => boolean): boolean {
  if (predicate(type)) return true;
  switch (type.kind) {
    case 'ARRAY':
      return holdsType(type.element, predicate);
    case 'MAP':
      return holdsType(type.key, predicate) || holdsType(type.value, predicate);
    case 'STRUCT':
      return type.fields.some((field) => holdsType(field.type, predicate));
    default:
      return false;
  }
}

/** Whether its values consist of other values. */
export const isNested = ({ kind }: LogicalType): boolean => kind === 'ARRAY' || kind === 'MAP' || kind === 'STRUCT';

/** The canonical text of a type, as in records: `DECIMAL(18,2)`, `ARRAY<INT>`, `STRUCT<a: INT, b: STRING>`. */
export function formatType(type: LogicalType): string {
  switch (type.kind) {
    case 'DECIMAL':
      return `DECIMAL(${type.precision},${type.scale})`;
    case 'CHAR':
    case 'VARCHAR':
      return `${type.kind}(${type.length})`;
    case 'ARRAY':
      return `ARRAY<${formatType(type.element)}>`;
    case 'MAP':
      return `MAP<${formatType(type.key)}, ${formatType(type.value)}>`;
    case 'STRUCT':
      return `STRUCT<${type.fields.map((f) => `${formatFieldName(f.name)}: ${formatType(f.type)}`).join(', ')}>`;
    default:
      return type.kind;
  }
}

function formatFieldName(name: string): string {
  return bareFieldName.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** An invalid type text. The message is for the caller. */
export class TypeSyntaxError extends Error {
  override name = 'TypeSyntaxError';
}

/** Parses a type text with aliases, in upper or lower case. Throws TypeSyntaxError. */
export function parseType(text: string): LogicalType {
  if (text.length > typeTextCharactersMax) throw new TypeSyntaxError('the type is too long');
  const parser = new TypeParser(text);
  const type = parser.type(0);
  parser.end();
  return type;
}

class TypeParser {
  readonly #tokens: string[];
  #position = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    this.#tokens = text.match(/"(?:[^"]|"")*"|`[^`]*`|[\p{L}_][\p{L}\p{N}_]*|\d+|[^\s]/gu) ?? [];
  }

  end(): void {
    if (this.#position < this.#tokens.length)
      throw this.#syntaxError(`"${this.#tokens[this.#position]}" is unexpected`);
  }

  type(depth: number): LogicalType {
    if (depth > typeDepthMax) throw this.#syntaxError(`types can be nested at most ${typeDepthMax} levels deep`);
    let type = this.#simple(depth);
    while (this.#peek() === '[') {
      // DuckDB and PostgreSQL write ARRAY<INT> as INT[].
      this.#take('[');
      this.#take(']');
      if (++depth > typeDepthMax) throw this.#syntaxError(`types can be nested at most ${typeDepthMax} levels deep`);
      type = { kind: 'ARRAY', element: type };
    }
    return type;
  }

  #simple(depth: number): LogicalType {
    const kind = this.#kind();
    switch (kind) {
      case 'DECIMAL': {
        const digits = this.#numbers(2);
        // The defaults of CAST in SQL.
        const [precision = decimalDefault.precision, scale = digits.length > 0 ? 0 : decimalDefault.scale] = digits;
        if (precision < 1 || precision > decimalPrecisionMax || scale > precision) {
          throw this.#syntaxError(`DECIMAL(p,s) requires 1 <= p <= ${decimalPrecisionMax} and 0 <= s <= p`);
        }
        return { kind, precision, scale };
      }
      case 'CHAR':
      case 'VARCHAR': {
        const [length] = this.#numbers(1);
        if (length === undefined) return kind === 'CHAR' ? { kind, length: 1 } : { kind: 'STRING' };
        if (length < 1 || length > varcharLengthMax)
          throw this.#syntaxError(`${kind}(n) requires 1 <= n <= ${varcharLengthMax}`);
        return { kind, length };
      }
      case 'ARRAY':
        return { kind, element: this.#bracketed(() => this.type(depth + 1)) };
      case 'MAP':
        return this.#bracketed(() => {
          const key = this.type(depth + 1);
          this.#take(',');
          return { kind, key, value: this.type(depth + 1) };
        });
      case 'STRUCT':
        return { kind, fields: this.#bracketed(() => this.#fields(depth)) };
      default:
        return { kind };
    }
  }

  #kind(): TypeKind {
    const first = this.#next();
    // The longest sequence of words that is a type: DOUBLE PRECISION, TIMESTAMP WITH TIME ZONE.
    let found: { kind: TypeKind; words: number } | undefined;
    let words = first.toUpperCase();
    for (let n = 0; n < 4; n++) {
      if (n > 0) words += ` ${(this.#tokens[this.#position + n - 1] ?? '').toUpperCase()}`;
      const kind = aliases[words] ?? (Object.hasOwn(jsonForms, words) ? (words as TypeKind) : undefined);
      if (kind) found = { kind, words: n };
    }
    if (!found) throw this.#syntaxError(`"${first}" is not a type`);
    this.#position += found.words;
    return found.kind;
  }

  #numbers(countMax: number): number[] {
    if (this.#peek() !== '(') return [];
    this.#take('(');
    const numbers: number[] = [];
    do {
      const digits = this.#next();
      if (!/^\d+$/.test(digits)) throw this.#syntaxError(`"${digits}" is not a number`);
      numbers.push(Number(digits));
    } while (this.#peek() === ',' && numbers.length < countMax && this.#take(','));
    this.#take(')');
    return numbers;
  }

  #fields(depth: number): { name: string; type: LogicalType }[] {
    const fields: { name: string; type: LogicalType }[] = [];
    const seen = new Set<string>();
    do {
      const name = this.#fieldName();
      if (seen.has(name.toLowerCase())) throw this.#syntaxError(`the field "${name}" is repeated`);
      seen.add(name.toLowerCase());
      if (this.#peek() === ':') this.#take(':');
      fields.push({ name, type: this.type(depth + 1) });
    } while (this.#peek() === ',' && this.#take(','));
    return fields;
  }

  #fieldName(): string {
    const token = this.#next();
    const name = token.startsWith('"')
      ? token.slice(1, -1).replaceAll('""', '"')
      : token.startsWith('`')
        ? token.slice(1, -1)
        : token;
    if (!/^(?:["`].|[\p{L}_])/su.test(token)) throw this.#syntaxError(`"${token}" is not a field name`);
    const fault = nameFault(name);
    if (fault) throw this.#syntaxError(`"${token}" is not a field name: ${fault}`);
    return name;
  }

  /** Nested types are written in `<...>` or `(...)`. */
  #bracketed<T>(parseContent: () => T): T {
    const open = this.#next();
    if (open !== '<' && open !== '(') throw this.#syntaxError(`"<" was expected, not "${open}"`);
    const value = parseContent();
    this.#take(open === '<' ? '>' : ')');
    return value;
  }

  #peek(): string | undefined {
    return this.#tokens[this.#position];
  }

  #next(): string {
    const token = this.#tokens[this.#position++];
    if (token === undefined) throw this.#syntaxError('unexpected end');
    return token;
  }

  #take(expected: string): true {
    const token = this.#next();
    if (token !== expected) throw this.#syntaxError(`"${expected}" was expected, not "${token}"`);
    return true;
  }

  #syntaxError(reason: string): TypeSyntaxError {
    const truncated = this.#text.length > 80 ? `${this.#text.slice(0, 80)}...` : this.#text;
    return new TypeSyntaxError(`"${truncated}" is not a type: ${reason}`);
  }
}

const integerOrder: readonly TypeKind[] = ['TINYINT', 'SMALLINT', 'INT', 'BIGINT', 'LARGEINT'];
const integerDigits: Partial<Record<TypeKind, number>> = { TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 19, LARGEINT: 39 };

/** Whether every value of `from` is a value of `to`, so that changing the type is lossless. */
export function widens(from: LogicalType, to: LogicalType): boolean {
  if (formatType(from) === formatType(to)) return true;
  const rank = integerOrder.indexOf(from.kind);
  if (rank >= 0) {
    if (integerOrder.includes(to.kind)) return integerOrder.indexOf(to.kind) > rank;
    if (to.kind === 'DECIMAL') return to.precision - to.scale >= (integerDigits[from.kind] ?? Number.POSITIVE_INFINITY);
    if (to.kind === 'DOUBLE') return rank <= integerOrder.indexOf('INT');
    if (to.kind === 'FLOAT') return rank <= integerOrder.indexOf('SMALLINT');
    return to.kind === 'STRING';
  }
  if (from.kind === 'FLOAT') return to.kind === 'DOUBLE';
  if (from.kind === 'DECIMAL' && to.kind === 'DECIMAL') {
    return to.scale >= from.scale && to.precision - to.scale >= from.precision - from.scale;
  }
  if (from.kind === 'CHAR' || from.kind === 'VARCHAR') {
    return to.kind === 'STRING' || ((to.kind === 'VARCHAR' || to.kind === 'CHAR') && to.length >= from.length);
  }
  if (from.kind === 'DATE') return to.kind === 'DATETIME';
  if (from.kind === 'ARRAY' && to.kind === 'ARRAY') return widens(from.element, to.element);
  if (from.kind === 'MAP' && to.kind === 'MAP') return widens(from.key, to.key) && widens(from.value, to.value);
  return to.kind === 'STRING' && (from.kind === 'UUID' || from.kind === 'BOOLEAN');
}
