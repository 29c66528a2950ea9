// The rows of a page of a result, decoded while they are read. A page has up to 8 MiB of text, and its values take several times that: decoded all
// at once, they outlive the collections of young objects, are moved to the old ones, and stay there until the whole heap is collected.
import { errorOf } from '../errors.ts';
import { parseExactJson } from './exact_json.ts';

export type PageRow = readonly unknown[];

interface Frame {
  readonly result?: Readonly<Record<string, unknown>> | null;
}

/** Of the text that is decoded at once. */
const partCharacters = 64 * 1024;
const rowsBegin = /"rows":\s*\[/;

/**
 * The value of a response whose result may have rows: they are a `PageRows` where the text has a line for each of them; otherwise an array, as
 * in any JSON. Throws SyntaxError.
 */
export function parsePage(text: string): unknown {
  // JSON escapes line breaks in strings: one in the text is between two tokens. What is not a row is on the first line or the last.
  const to = text.lastIndexOf('\n') + 1;
  const found = rowsBegin.exec(text.slice(0, text.indexOf('\n') + 1));
  if (!found || to < partCharacters) return parseExactJson(text);
  const from = found.index + found[0].length;
  const frame = frameOf(text.slice(0, from) + text.slice(to));
  const last = frame?.result?.rows;
  if (!Array.isArray(last)) return parseExactJson(text);
  return { ...frame, result: { ...frame?.result, rows: new PageRows(text, from, to, last) } };
}

function frameOf(text: string): Frame | null | undefined {
  try {
    return parseExactJson(text) as Frame | null;
  } catch {
    return undefined;
  }
}

/** Can be iterated more than once. Throws NO_ENVELOPE where the text turns out not to be JSON. */
export class PageRows implements Iterable<PageRow> {
  readonly #text: string;
  readonly #from: number;
  readonly #to: number;
  readonly #last: readonly PageRow[];

  /** `from`, `to`: where the text has rows, of which each ends with a comma. `last`: the rows that follow. */
  constructor(text: string, from: number, to: number, last: readonly PageRow[]) {
    this.#text = text;
    this.#from = from;
    this.#to = to;
    this.#last = last;
  }

  *[Symbol.iterator](): Generator<PageRow> {
    for (let at = this.#from; at < this.#to; ) {
      const part = this.#partFrom(at);
      at = part.end;
      yield* part.rows;
    }
    yield* this.#last;
  }

  #partFrom(start: number): { readonly rows: readonly PageRow[]; readonly end: number } {
    // A line that ends within a row, or a row that is longer than a part, needs more lines.
    for (let characters = partCharacters; ; characters *= 2) {
      const end = Math.min(this.#to, this.#text.indexOf('\n', start + characters) + 1 || this.#to);
      try {
        const rows = parseExactJson(`[${this.#text.slice(start, end).replace(/,\s*$/, '')}]`);
        return { rows: rows as readonly PageRow[], end };
      } catch (cause) {
        if (end < this.#to) continue;
        throw errorOf('NO_ENVELOPE', { status: 200, message: 'the rows of a page are not JSON', cause });
      }
    }
  }
}
