// The rows of a response in the JSON form of values (rest-standard B7). Servers write most types in it; the others are rewritten here: times,
// numbers that are not finite, binary values, JSON values and maps. The bytes are changed where they are, because rows are many and most values
// only get shorter.
import type { LogicalType } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import { logicalOf } from './type_mapping.ts';
import { parseTypeText, type ServerType } from './type_text.ts';

/** Rewrites one value from its first byte on. @returns the place after it. */
type Rewrite = (rows: Rows, at: number) => number;

export interface RewrittenRows {
  readonly rows: Buffer;
  readonly rowCount: number;
}

/** Rewrites whole lines of rows, in their bytes. */
export type RowsRewriter = (rows: Buffer) => RewrittenRows;

/** Which JSON values stay strings with their text: none; columns of them; those within other values too. */
type JsonTexts = 'none' | 'columns' | 'all';

interface RewriterOptions {
  readonly jsonTexts?: JsonTexts;
  /** Up to so many superfluous bytes of a time become spaces after it, because moving all bytes of a row takes longer than to rewrite it. */
  readonly blanksMax?: number;
  /** Whether numbers of 64 bits and more, and decimals, are strings. */
  readonly numbers?: 'number' | 'string';
}

type RewriteOptions = Pick<RewriterOptions, 'numbers'> & {
  /** Whether JSON values become parts of the row. */
  readonly embeds: boolean;
};

/** @param types of the columns, as the server names them. */
export function rowsRewriter(
  types: readonly string[],
  { jsonTexts = 'none', blanksMax = 0, numbers = 'number' }: RewriterOptions = {},
): RowsRewriter {
  const rewrites = types.map((text) => {
    const type = parseTypeText(text);
    if (!type || (jsonTexts === 'columns' && logicalOf(type)?.kind === 'JSON')) return undefined;
    return rewriteOf(type, { embeds: jsonTexts !== 'all', numbers });
  });
  const changed = rewrites.slice(0, rewrites.findLastIndex((rewrite) => rewrite !== undefined) + 1);
  if (changed.length === 0) return countedRows;
  return (bytes) => {
    const rows = new Rows(bytes, blanksMax);
    let rowCount = 0;
    for (let at = 0; at < bytes.length; rowCount++) at = rows.row(at, changed);
    return { rows: rows.finish(), rowCount };
  };
}

/** As they are. Lines are short: a call for each of them would take longer. */
export const countedRows: RowsRewriter = (rows) => {
  const words = wordsOf(rows);
  const wordsEnd = rows.length - wordBytes;
  let rowCount = 0;
  let at = 0;
  for (; at <= wordsEnd; at += wordBytes) {
    const word = words.getInt32(at, true) ^ newlines;
    // A bit for each byte that is 0.
    let bits = ~(((word & lowBits) + lowBits) | word | lowBits);
    for (; bits !== 0; bits &= bits - 1) rowCount++;
  }
  for (; at < rows.length; at++) if (rows[at] === newline) rowCount++;
  return { rows, rowCount };
};

function rewriteOf(type: ServerType, options: RewriteOptions): Rewrite | undefined {
  const { name, parts } = type;
  const part = (index: number) => {
    const inner = parts[index]?.type;
    return inner && rewriteOf(inner, options);
  };
  switch (name) {
    case 'Nullable':
    case 'LowCardinality':
    case 'Variant':
      return nullable(part(0));
    case 'SimpleAggregateFunction': {
      const marked: LogicalType['kind'] | undefined = logicalOf(type)?.kind;
      if (marked === 'BINARY') return nullable(binary);
      if (marked === 'JSON') return options.embeds ? nullable(json) : undefined;
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
      return map(keyOf(parts[0]?.type, part(0), options), entry(part(0), part(1)), part(1));
    case 'Tuple':
      return tuple(parts.map((_, index) => part(index)));
    default:
      return undefined;
  }
}

const nullable = (rewrite: Rewrite | undefined): Rewrite | undefined =>
  rewrite === undefined || readNull.has(rewrite)
    ? rewrite
    : (rows, at) => (rows.bytes[at] === letterN ? at + 4 : rewrite(rows, at));

/** `"inf"`, `"-inf"` and `"nan"`; a finite number passes. */
const float: Rewrite = (rows, at) => {
  if (rows.bytes[at] !== quote) return rows.afterNumber(at);
  const end = rows.afterString(at);
  const text = rows.slice(at + 1, end - 1);
  rows.replace(at, end, text === 'nan' ? '"NaN"' : text === 'inf' ? '"Infinity"' : '"-Infinity"');
  return end;
};

/** Where the fraction begins in `"2026-01-31T10:00:00.500000Z"`. */
const pointOfTime = 20;

const datetime: Rewrite = (rows, at) => rows.time(at, false);
const timestamp: Rewrite = (rows, at) => rows.time(at, true);
/** They read null themselves. */
const readNull: ReadonlySet<Rewrite> = new Set([float, datetime, timestamp]);

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
    const isObject = rows.bytes[at] === openBrace;
    const keyAt = isObject ? rows.afterString(at + 1) + 1 : at + 1;
    rows.replace(at, keyAt, '{"key":');
    const keyEnd = key ? key(rows, keyAt) : rows.afterValue(keyAt);
    const valueAt = isObject ? rows.afterString(keyEnd + 1) + 1 : keyEnd + 1;
    rows.replace(keyEnd, valueAt, ',"value":');
    const end = value ? value(rows, valueAt) : rows.afterValue(valueAt);
    if (!isObject) rows.replace(end, end + 1, '}');
    return end + 1;
  };

/** A map is a list of entries, of servers that lack the setting an object whose keys are texts. */
const map =
  (keyText: Rewrite, element: Rewrite, value: Rewrite | undefined): Rewrite =>
  (rows, at) => {
    const { bytes } = rows;
    if (bytes[at] !== openBrace) return rows.list(at, () => element);
    rows.replace(at, at + 1, '[');
    let place = at + 1;
    while (bytes[place] === quote) {
      rows.replace(place, place, '{"key":');
      const keyEnd = keyText(rows, place);
      rows.replace(keyEnd, keyEnd + 1, ',"value":');
      const end = value ? value(rows, keyEnd + 1) : rows.afterValue(keyEnd + 1);
      rows.replace(end, end, '}');
      place = bytes[end] === comma ? end + 1 : end;
    }
    rows.replace(place, place + 1, ']');
    return place + 1;
  };

const wideNumber = /^(?:U?Int(?:64|128|256)|Decimal)/;
const bareValue = /^(?:U?Int|Decimal|Float|BFloat|Bool)/;
const nestedType = /^(?:Array|Map|Tuple)$/;

/** Rewrites the text of a key of an object, which is in quotes. */
function keyOf(type: ServerType | undefined, key: Rewrite | undefined, options: RewriteOptions): Rewrite {
  const { name, parts } = type ?? { name: '', parts: [] };
  if (name === 'LowCardinality') return keyOf(parts[0]?.type, key, options);
  if (nestedType.test(name))
    return () => {
      throw new Failure('SQL_NOT_SUPPORTED', 'servers of this version cannot return maps whose keys are nested values');
    };
  if (!bareValue.test(name) || (options.numbers === 'string' && wideNumber.test(name)))
    return (rows, at) => (key ? key(rows, at) : rows.afterString(at));
  return (rows, at) => {
    const end = rows.afterString(at);
    // Numbers that are not finite are strings.
    if (key === float && !/[0-9]/.test(rows.slice(at + 1, end - 1))) return float(rows, at);
    rows.remove(at, at + 1);
    rows.remove(end - 1, end);
    return end;
  };
}

function tuple(fields: readonly (Rewrite | undefined)[]): Rewrite | undefined {
  if (fields.every((field) => field === undefined)) return undefined;
  return (rows, at) => {
    if (rows.bytes[at] === openBracket) return rows.list(at, (index) => fields[index]);
    let place = at + 1;
    for (const field of fields) {
      place = rows.afterString(place) + 1;
      place = (field ? field(rows, place) : rows.afterValue(place)) + 1;
    }
    return place;
  };
}

const [newline, space, quote, comma, dot, zero] = [0x0a, 0x20, 0x22, 0x2c, 0x2e, 0x30];
const [letterZ, openBracket, backslash, closeBracket, letterN, openBrace, closeBrace] = [
  0x5a, 0x5b, 0x5c, 0x5d, 0x6e, 0x7b, 0x7d,
];
/** Newlines are searched in four bytes at a time, which takes half of the time. */
const wordBytes = 4;
const [newlines, ones, lowBits, highBits] = [0x0a0a0a0a, 0x01010101, 0x7f7f7f7f, 0x80808080];
const wordsOf = (bytes: Buffer): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
/** A string that does not end within this is searched for its end by a call, which is faster for long ones. */
const shortBytes = 64;

/**
 * The bytes of rows, the places in them, and what is replaced. Places count in the bytes as they came; what was changed moves forward, to places
 * that are no longer read. Texts have a character for each byte (latin1).
 */
class Rows {
  readonly bytes: Buffer;
  readonly #words: DataView;
  /** Where the bytes go that are kept next. */
  #end = 0;
  /** The first byte that was not kept or left out yet. */
  #next = 0;
  /** Where the bytes begin that are not in `#parts`. */
  #begin = 0;
  readonly #parts: Buffer[] = [];
  readonly #blanksMax: number;

  constructor(bytes: Buffer, blanksMax: number) {
    this.bytes = bytes;
    this.#words = wordsOf(bytes);
    this.#blanksMax = blanksMax;
  }

  slice(from: number, to: number): string {
    return this.bytes.toString('latin1', from, to);
  }

  remove(from: number, to: number): void {
    if (this.#end !== this.#next) this.bytes.copyWithin(this.#end, this.#next, from);
    this.#end += from - this.#next;
    this.#next = to;
  }

  replace(from: number, to: number, text: string): void {
    this.remove(from, to);
    if (this.#end + text.length <= to) {
      this.#end += this.bytes.write(text, this.#end, 'latin1');
      return;
    }
    this.#parts.push(this.bytes.subarray(this.#begin, this.#end), Buffer.from(text, 'latin1'));
    this.#begin = this.#end = to;
  }

  finish(): Buffer {
    this.remove(this.bytes.length, this.bytes.length);
    const rest = this.bytes.subarray(this.#begin, this.#end);
    return this.#parts.length === 0 ? rest : Buffer.concat([...this.#parts, rest]);
  }

  /**
   * One row, from its `[`. `rewrites`: of its first columns; later ones pass. The usual values are read here, because a call for each takes longer.
   * @returns the place after its line.
   */
  row(at: number, rewrites: readonly (Rewrite | undefined)[]): number {
    const { bytes } = this;
    let place = at + 1;
    for (let i = 0; i < rewrites.length; i++) {
      const rewrite = rewrites[i];
      let first = bytes[place];
      if (first === space) first = bytes[++place];
      if (rewrite === datetime) place = this.time(place, false);
      else if (rewrite !== undefined && (rewrite !== float || first === quote)) place = rewrite(this, place);
      else if (first === quote) place = this.afterString(place);
      else if (first === openBracket || first === openBrace) place = this.afterValue(place);
      else
        for (let byte = first; byte !== comma && byte !== closeBracket && byte !== undefined; ) byte = bytes[++place];
      place++;
    }
    return this.#afterLine(place);
  }

  #afterLine(at: number): number {
    const { bytes } = this;
    const wordsEnd = bytes.length - wordBytes;
    let place = at;
    for (; place <= wordsEnd; place += wordBytes) {
      const word = this.#words.getInt32(place, true) ^ newlines;
      // Not 0 if one of its bytes is.
      if (((word - ones) & ~word & highBits) !== 0) break;
    }
    while (place < bytes.length && bytes[place] !== newline) place++;
    return place + 1;
  }

  /** A text of a time, whose superfluous digits are removed. */
  time(at: number, isZoned: boolean): number {
    const { bytes } = this;
    if (bytes[at] === letterN) return at + 4;
    const point = at + pointOfTime;
    let end = point;
    while (bytes[end] !== quote && end < bytes.length) end++;
    let last = bytes[end - 1] === letterZ ? end - 2 : end - 1;
    if (bytes[point] === dot) {
      while (bytes[last] === zero) last--;
      if (last === point) last--;
    }
    if (isZoned) bytes[++last] = letterZ;
    bytes[++last] = quote;
    if (end - last > this.#blanksMax) this.remove(last + 1, end + 1);
    else while (last < end) bytes[++last] = space;
    return end + 1;
  }

  list(at: number, rewriteOf: (index: number) => Rewrite | undefined): number {
    let place = at + 1;
    if (this.bytes[place] === closeBracket) return place + 1;
    for (let index = 0; ; index++) {
      const rewrite = rewriteOf(index);
      place = rewrite ? rewrite(this, this.#afterSpace(place)) : this.afterValue(place);
      if (this.bytes[place++] !== comma) return place;
    }
  }

  /** Some formats write a space after a comma. */
  #afterSpace(at: number): number {
    return this.bytes[at] === space ? at + 1 : at;
  }

  afterString(at: number): number {
    const { bytes } = this;
    const near = Math.min(bytes.length, at + shortBytes);
    let place = at + 1;
    for (; place < near; place++) {
      const byte = bytes[place];
      if (byte === quote) return place + 1;
      if (byte === backslash) place++;
    }
    // The byte at `place` is not escaped.
    for (let end = place - 1; ; ) {
      end = bytes.indexOf(quote, end + 1);
      if (end < 0) throw new Error('a string of a response does not end');
      let slashes = 0;
      while (end - 1 - slashes >= place && bytes[end - 1 - slashes] === backslash) slashes++;
      if (slashes % 2 === 0) return end + 1;
    }
  }

  /** The place after a value that has no quotes and brackets. */
  afterNumber(at: number): number {
    const { bytes } = this;
    let place = at;
    while (place < bytes.length) {
      const byte = bytes[place];
      if (byte === comma || byte === closeBracket || byte === closeBrace) break;
      place++;
    }
    return place;
  }

  afterValue(at: number): number {
    const { bytes } = this;
    const start = this.#afterSpace(at);
    const first = bytes[start];
    if (first === quote) return this.afterString(start);
    if (first !== openBracket && first !== openBrace) return this.afterNumber(start);
    let depth = 1;
    let place = start + 1;
    while (depth > 0) {
      const byte = bytes[place];
      if (byte === undefined) throw new Error('a value of a response does not end');
      if (byte === quote) {
        place = this.afterString(place);
        continue;
      }
      if (byte === openBracket || byte === openBrace) depth++;
      else if (byte === closeBracket || byte === closeBrace) depth--;
      place++;
    }
    return place;
  }
}
