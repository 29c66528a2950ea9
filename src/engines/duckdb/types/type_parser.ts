// Parses DuckDB's type texts (typeof, DESCRIBE, DuckDBType.toString) into a tree. See type_mapping.ts and json_sql.ts for their
// meaning. Total: an unknown text is a scalar of that name.

export type EngineType =
  | { readonly kind: 'scalar'; readonly name: string }
  | { readonly kind: 'decimal'; readonly precision: number; readonly scale: number }
  | { readonly kind: 'list'; readonly element: EngineType; readonly length?: number }
  | { readonly kind: 'map'; readonly key: EngineType; readonly value: EngineType }
  /** A field of a row(...) has no name and is accessed by position. */
  | { readonly kind: 'struct'; readonly fields: readonly { readonly name?: string; readonly type: EngineType }[] }
  | { readonly kind: 'union'; readonly members: readonly { readonly name?: string; readonly type: EngineType }[] };

const wordsOfNames = new Set(['WITH', 'TIME', 'ZONE', 'WITHOUT', 'LOCAL', 'PRECISION']);

export function parseEngineType(text: string): EngineType {
  const reader = new TypeTextReader(text);
  const type = reader.type();
  return type !== undefined && reader.ended ? type : { kind: 'scalar', name: text.toUpperCase() };
}

/** A method returns undefined if the text does not match; the whole text is then one unknown scalar. */
class TypeTextReader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = text.match(/"(?:[^"]|"")*"|'(?:[^']|'')*'|[\p{L}_$][\p{L}\p{N}_$]*|\d+|\S/gu) ?? [];
  }

  get ended(): boolean {
    return this.#at === this.#tokens.length;
  }

  type(): EngineType | undefined {
    let type = this.#simple();
    while (type !== undefined && this.#take('[')) {
      const length = this.#peek() === ']' ? undefined : Number(this.#next());
      if (!this.#take(']')) return undefined;
      type = { kind: 'list', element: type, ...(length === undefined ? {} : { length }) };
    }
    return type;
  }

  #simple(): EngineType | undefined {
    const first = this.#next();
    if (first === undefined) return undefined;
    let name = unquoted(first).toUpperCase();
    if (name === 'STRUCT' || name === 'UNION') {
      const fields = this.#fields();
      if (fields === undefined) return undefined;
      return name === 'STRUCT' ? { kind: 'struct', fields } : { kind: 'union', members: fields };
    }
    if (name === 'MAP') {
      if (!this.#take('(')) return undefined;
      const key = this.type();
      if (key === undefined || !this.#take(',')) return undefined;
      const value = this.type();
      return value !== undefined && this.#take(')') ? { kind: 'map', key, value } : undefined;
    }
    while (wordsOfNames.has(this.#peek()?.toUpperCase() ?? '')) name += ` ${this.#next()?.toUpperCase()}`;
    const args = this.#take('(') ? this.#arguments() : [];
    if (name === 'DECIMAL') return { kind: 'decimal', precision: Number(args[0] ?? 18), scale: Number(args[1] ?? 3) };
    return { kind: 'scalar', name };
  }

  #fields(): { name?: string; type: EngineType }[] | undefined {
    if (!this.#take('(')) return undefined;
    const fields: { name?: string; type: EngineType }[] = [];
    do {
      const named = this.#isNamed();
      const name = named ? unquoted(this.#next() ?? '') : undefined;
      const type = this.type();
      if (type === undefined) return undefined;
      fields.push(name === undefined ? { type } : { name, type });
    } while (this.#take(','));
    return this.#take(')') ? fields : undefined;
  }

  /** Whether a field has a name: `a INTEGER` has a type after its first word; `INTEGER` and `TIME WITH TIME ZONE` do not. */
  #isNamed(): boolean {
    const following = this.#tokens[this.#at + 1] ?? '';
    return /^["\p{L}_$]/u.test(following) && !['WITH', 'WITHOUT', 'PRECISION'].includes(following.toUpperCase());
  }

  /** Reads up to the matching closing parenthesis. */
  #arguments(): string[] {
    const args: string[] = [];
    for (let depth = 1; depth > 0; ) {
      const token = this.#next();
      if (token === undefined) break;
      if (token === '(') depth++;
      else if (token === ')') depth--;
      else if (token !== ',') args.push(token);
    }
    return args;
  }

  #peek(): string | undefined {
    return this.#tokens[this.#at];
  }

  #next(): string | undefined {
    return this.#tokens[this.#at++];
  }

  #take(expected: string): boolean {
    if (this.#tokens[this.#at] !== expected) return false;
    this.#at++;
    return true;
  }
}

function unquoted(token: string): string {
  return token.startsWith('"') ? token.slice(1, -1).replaceAll('""', '"') : token;
}
