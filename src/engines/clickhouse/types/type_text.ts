// Parses the texts of ClickHouse's types, such as `Map(String, Tuple(a Nullable(Int32)))`.

/** An argument: a type, with the name of a field of a tuple before it, or another text such as a number. */
interface TypePart {
  readonly text: string;
  readonly label?: string;
  readonly type?: ServerType;
}

export interface ServerType {
  readonly name: string;
  readonly parts: readonly TypePart[];
}

/** A word, a quoted name, a string, a number or a sign. */
const tokenPattern =
  /`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.|'')*'|[A-Za-z_][A-Za-z0-9_]*|-?\d+|[^\s]/gsu;

/** Undefined if the text is no type. */
export function parseTypeText(text: string): ServerType | undefined {
  const parser = new TypeTextParser(text.match(tokenPattern) ?? []);
  const type = parser.type();
  return type && parser.isAtEnd ? type : undefined;
}

/** The name in a quoted or plain word. */
function nameIn(token: string): string {
  if (!/^[`"]/.test(token)) return token;
  return token.slice(1, -1).replaceAll(/\\(.)|``/gsu, (all, escaped: string | undefined) => escaped ?? all[0] ?? '');
}

class TypeTextParser {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#tokens.length;
  }

  type(): ServerType | undefined {
    const name = this.#tokens[this.#at];
    if (name === undefined || !/^[A-Za-z_]/.test(name)) return undefined;
    this.#at++;
    if (this.#tokens[this.#at] !== '(') return { name, parts: [] };
    this.#at++;
    const parts: TypePart[] = [];
    while (this.#tokens[this.#at] !== ')') {
      const part = this.#part();
      if (!part) return undefined;
      parts.push(part);
      if (this.#tokens[this.#at] === ',') this.#at++;
      else if (this.#tokens[this.#at] !== ')') return undefined;
    }
    this.#at++;
    return { name, parts };
  }

  #part(): TypePart | undefined {
    const start = this.#at;
    const [first, second] = [this.#tokens[start], this.#tokens[start + 1]];
    if (first === undefined) return undefined;
    const isLabelled = /^[A-Za-z_`"]/.test(first) && second !== undefined && /^[A-Za-z_]/.test(second);
    if (isLabelled) this.#at++;
    const type = this.type();
    if (type) {
      const text = this.#tokens.slice(start, this.#at).join('');
      return isLabelled ? { text, type, label: nameIn(first) } : { text, type };
    }
    this.#at = start;
    return this.#text();
  }

  /** Anything up to the next comma or the end of the arguments. */
  #text(): TypePart {
    const start = this.#at;
    for (let depth = 0; this.#at < this.#tokens.length; this.#at++) {
      const token = this.#tokens[this.#at];
      if (depth === 0 && (token === ',' || token === ')')) break;
      if (token === '(') depth++;
      if (token === ')') depth--;
    }
    return { text: this.#tokens.slice(start, this.#at).join('') };
  }
}
