// The rows of a response in the JSON form of values (rest-standard B7). Servers write most types in it; the others are rewritten here: times,
// numbers that are not finite, binary values, JSON values and maps. Bytes are characters here (latin1), so that nothing is decoded.
import type { LogicalType } from '../../../model/types.ts';
import { logicalOf } from './type_mapping.ts';
import { parseTypeText, type ServerType } from './type_text.ts';

/** Rewrites one value from its first character on. @returns the place after it. */
type Rewrite = (rows: Rows, at: number) => number;

/** Rewrites whole rows; undefined if they can pass as they are. */
export type RowsRewriter = (rows: Buffer) => Buffer;

/** Which JSON values stay strings with their text: none; columns of them; those within other values too. */
type JsonTexts = 'none' | 'columns' | 'all';

/** @param types of the columns, as the server names them. */
export function rowsRewriter(types: readonly string[], jsonTexts: JsonTexts = 'none'): RowsRewriter | undefined {
  const rewrites = types.map((text) => {
    const type = parseTypeText(text);
    if (!type || (jsonTexts === 'columns' && logicalOf(type)?.kind === 'JSON')) return undefined;
    return rewriteOf(type, jsonTexts !== 'all');
  });
  if (rewrites.every((rewrite) => rewrite === undefined)) return undefined;
  return (rows) => {
    const text = new Rows(rows.toString('latin1'));
    for (let at = 0; at < text.length; ) at = text.row(at, rewrites);
    return Buffer.from(text.finish(), 'latin1');
  };
}

/** `embeds`: whether JSON values become parts of the row. */
function rewriteOf(type: ServerType, embeds: boolean): Rewrite | undefined {
  const { name, parts } = type;
  const part = (index: number) => {
    const inner = parts[index]?.type;
    return inner && rewriteOf(inner, embeds);
  };
  switch (name) {
    case 'Nullable':
    case 'LowCardinality':
    case 'Variant':
      return nullable(part(0));
    case 'SimpleAggregateFunction': {
      const marked: LogicalType['kind'] | undefined = logicalOf(type)?.kind;
      if (marked === 'BINARY') return nullable(binary);
      if (marked === 'JSON') return embeds ? nullable(json) : undefined;
      return part(1);
    }
    case 'Float32':
    case 'Float64':
    case 'BFloat16':
      return float;
    case 'DateTime':
    case 'DateTime64':
      return logicalOf(type)?.kind === 'TIMESTAMPTZ' ? timestamp : datetime;
    case 'Array':
      return elements(() => part(0));
    case 'Map':
      return elements(() => entry(part(0), part(1)));
    case 'Tuple':
      return tuple(parts.map((_, index) => part(index)));
    default:
      return undefined;
  }
}

const nullable = (rewrite: Rewrite | undefined): Rewrite | undefined =>
  rewrite && ((rows, at) => (rows.char(at) === 'n' ? at + 4 : rewrite(rows, at)));

/** `"inf"`, `"-inf"` and `"nan"`; a finite number passes. */
const float: Rewrite = (rows, at) => {
  if (rows.char(at) !== '"') return rows.afterValue(at);
  const end = rows.afterString(at);
  const text = rows.slice(at + 1, end - 1);
  rows.replace(at, end, text === 'nan' ? '"NaN"' : text === 'inf' ? '"Infinity"' : '"-Infinity"');
  return end;
};

/** `"2026-01-31T10:00:00.500000Z"` without superfluous digits. */
const timeWith =
  (zone: string): Rewrite =>
  (rows, at) => {
    const end = rows.afterString(at);
    const text = rows.slice(at, end);
    const point = text.indexOf('.');
    const short = point < 0 ? text.replace(/Z?"$/, '') : text.replace(/\.?0*Z?"$/, '');
    rows.replace(at, end, `${short}${zone}"`);
    return end;
  };
const datetime = timeWith('');
const timestamp = timeWith('Z');

const binary: Rewrite = (rows, at) => {
  const end = rows.afterString(at);
  const bytes = Buffer.from(unescaped(rows.slice(at + 1, end - 1)), 'latin1');
  rows.replace(at, end, `"${bytes.toString('base64')}"`);
  return end;
};

/** A text that is no JSON, as an expression of a caller can make it, stays a string. Line breaks would end the row. */
const json: Rewrite = (rows, at) => {
  const end = rows.afterString(at);
  const text = unescaped(rows.slice(at + 1, end - 1));
  if (isJson(text)) rows.replace(at, end, text.replaceAll(/[\n\r]/g, ' '));
  return end;
};

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** The bytes of a JSON string. Servers escape control characters, and line separators of Unicode. */
const unescaped = (text: string): string =>
  text.includes('\\')
    ? text.replaceAll(/\\(?:u(....)|(.))/gs, (_, code: string | undefined, escaped: string) =>
        code === undefined ? (escapes[escaped] ?? escaped) : bytesOf(Number.parseInt(code, 16)),
      )
    : text;

const bytesOf = (codePoint: number): string => Buffer.from(String.fromCodePoint(codePoint)).toString('latin1');

const elements = (elementOf: () => Rewrite | undefined): Rewrite | undefined => {
  const element = elementOf();
  return element && ((rows, at) => rows.list(at, () => element));
};

/** An entry of a map is `{"keys":k,"values":v}`, of older servers `[k,v]`. */
const entry =
  (key: Rewrite | undefined, value: Rewrite | undefined): Rewrite =>
  (rows, at) => {
    const isObject = rows.char(at) === '{';
    const keyAt = isObject ? rows.afterString(at + 1) + 1 : at + 1;
    rows.replace(at, keyAt, '{"key":');
    const keyEnd = key ? key(rows, keyAt) : rows.afterValue(keyAt);
    const valueAt = isObject ? rows.afterString(keyEnd + 1) + 1 : keyEnd + 1;
    rows.replace(keyEnd, valueAt, ',"value":');
    const end = value ? value(rows, valueAt) : rows.afterValue(valueAt);
    if (!isObject) rows.replace(end, end + 1, '}');
    return end + 1;
  };

function tuple(fields: readonly (Rewrite | undefined)[]): Rewrite | undefined {
  if (fields.every((field) => field === undefined)) return undefined;
  return (rows, at) => {
    if (rows.char(at) === '[') return rows.list(at, (index) => fields[index]);
    let place = at + 1;
    for (const field of fields) {
      place = rows.afterString(place) + 1;
      place = (field ? field(rows, place) : rows.afterValue(place)) + 1;
    }
    return place;
  };
}

const comma = 44;

/** A text of rows, the places in it, and what is replaced. */
class Rows {
  readonly #text: string;
  #copiedTo = 0;
  readonly #parts: string[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  get length(): number {
    return this.#text.length;
  }

  char(at: number): string | undefined {
    return this.#text[at];
  }

  slice(from: number, to: number): string {
    return this.#text.slice(from, to);
  }

  replace(from: number, to: number, text: string): void {
    this.#parts.push(this.#text.slice(this.#copiedTo, from), text);
    this.#copiedTo = to;
  }

  finish(): string {
    this.#parts.push(this.#text.slice(this.#copiedTo));
    return this.#parts.join('');
  }

  /** One row, from its `[`. @returns the place after its line. */
  row(at: number, rewrites: readonly (Rewrite | undefined)[]): number {
    const end = this.list(at, (index) => rewrites[index]);
    return this.#text.indexOf('\n', end) + 1 || this.#text.length;
  }

  list(at: number, rewriteOf: (index: number) => Rewrite | undefined): number {
    let place = at + 1;
    if (this.#text[place] === ']') return place + 1;
    for (let index = 0; ; index++) {
      const rewrite = rewriteOf(index);
      place = rewrite ? rewrite(this, place) : this.afterValue(place);
      if (this.#text.charCodeAt(place++) !== comma) return place;
    }
  }

  afterString(at: number): number {
    for (let quote = at; ; ) {
      quote = this.#text.indexOf('"', quote + 1);
      if (quote < 0) throw new Error('a string of a response does not end');
      let slashes = 0;
      while (this.#text[quote - 1 - slashes] === '\\') slashes++;
      if (slashes % 2 === 0) return quote + 1;
    }
  }

  afterValue(at: number): number {
    const first = this.#text[at];
    if (first === '"') return this.afterString(at);
    let place = at;
    for (let depth = 0; place < this.#text.length; place++) {
      const char = this.#text[place];
      if (char === '"') place = this.afterString(place) - 1;
      else if (char === '[' || char === '{') depth++;
      else if (char === ']' || char === '}') {
        if (depth === 0) return place;
        if (--depth === 0) return place + 1;
      } else if (char === ',' && depth === 0) return place;
    }
    return place;
  }
}
