// The rows of a SELECT as a server streams them: JSON arrays, after a line of names and one of types.
import { formatType } from '../../../model/types.ts';
import type { ExecuteOptions, ResultColumn } from '../../engine.ts';
import { logicalTypeOf } from '../types/type_mapping.ts';

/** Rows as JSON arrays, separated by `,\n`, after a line of names and one of types; a last line shows that they are complete. */
export const rowsFormat = 'CustomSeparatedWithNamesAndTypes';
const terminator = ';';
const rowsFormatSettings = {
  format_custom_escaping_rule: 'JSON',
  format_custom_row_before_delimiter: '[',
  format_custom_field_delimiter: ',',
  format_custom_row_after_delimiter: ']',
  format_custom_row_between_delimiter: ',\n',
  format_custom_result_before_delimiter: '',
  format_custom_result_after_delimiter: `\n${terminator}`,
};

/** `rowsMax`: one row more shows that the result is truncated. */
export const rowsSettings = ({ numbers, rowsMax }: Pick<ExecuteOptions, 'numbers' | 'rowsMax'>) => ({
  ...rowsFormatSettings,
  output_format_json_quote_64bit_integers: numbers === 'string' ? 1 : 0,
  output_format_json_quote_decimals: numbers === 'string' ? 1 : 0,
  ...(rowsMax === undefined ? {} : { limit: rowsMax + 1 }),
  readonly: 1,
});

const newline = 10;
const comma = 44;

/** `types`: as the server names them. */
interface Header {
  readonly columns: readonly ResultColumn[];
  readonly types: readonly string[];
}

/** Cuts a stream into its rows, at most `rowsMax`. */
export class RowLines {
  readonly #rowsMax: number;
  /** The beginning of a line that is not complete yet. */
  #rest: Buffer[] = [];
  #names: readonly string[] | undefined;
  #header: Header | undefined;
  #rowCount = 0;
  #isTruncated = false;

  constructor(rowsMax: number | undefined) {
    this.#rowsMax = rowsMax ?? Number.POSITIVE_INFINITY;
  }

  get header(): Header | undefined {
    return this.#header;
  }

  get rowCount(): number {
    return this.#rowCount;
  }

  get isTruncated(): boolean {
    return this.#isTruncated;
  }

  /** Of a line that is not complete yet. */
  get pendingBytes(): number {
    return this.#rest.reduce((sum, { length }) => sum + length, 0);
  }

  /** @returns whole rows, each with `,\n` after it; undefined if the chunk completes none. */
  add(chunk: Buffer): { readonly rows: Buffer; readonly count: number } | undefined {
    if (!chunk.includes(newline)) {
      this.#rest.push(chunk);
      return undefined;
    }
    const all = this.#rest.length === 0 ? chunk : Buffer.concat([...this.#rest, chunk]);
    const end = all.lastIndexOf(newline) + 1;
    this.#rest = [all.subarray(end)];
    const begin = this.#header ? 0 : this.#readHeader(all.subarray(0, end));
    return begin < end ? this.#rowsOf(all.subarray(begin, end)) : undefined;
  }

  /** Throws if the rows are incomplete. */
  finish(): Header {
    if (Buffer.concat(this.#rest).toString() !== terminator || !this.#header)
      throw new Error('the rows of a result are incomplete');
    return this.#header;
  }

  /** Reads the lines of names and types. @returns where the rows begin. */
  #readHeader(lines: Buffer): number {
    let begin = 0;
    for (let end = lines.indexOf(newline); end >= 0 && !this.#header; end = lines.indexOf(newline, begin)) {
      const texts = JSON.parse(lines.toString('utf8', begin, end).replace(/,$/, '')) as readonly string[];
      begin = end + 1;
      if (!this.#names) {
        this.#names = texts;
        continue;
      }
      const columns = this.#names.map((name, index) => ({ name, type: typeText(texts[index] as string) }));
      this.#header = { columns, types: texts };
    }
    if (!this.#header) {
      this.#rest.unshift(lines.subarray(begin));
      return lines.length;
    }
    return begin;
  }

  /** @param lines whole rows; only the last row of the result does not end with a comma. */
  #rowsOf(lines: Buffer): { readonly rows: Buffer; readonly count: number } | undefined {
    // The last line before the terminator is empty if there are no rows.
    if (lines.length === 1) return undefined;
    let rows = lines;
    if (lines[lines.length - 2] !== comma)
      rows = Buffer.concat([lines.subarray(0, lines.length - 1), Buffer.from(',\n')]);
    let count = rowsIn(rows);
    if (this.#rowCount + count > this.#rowsMax) {
      this.#isTruncated = true;
      count = this.#rowsMax - this.#rowCount;
      rows = rows.subarray(0, endOfRow(rows, count));
    }
    this.#rowCount += count;
    return count === 0 ? undefined : { rows, count };
  }
}

/** The logical type; a type of the server that no logical type can represent keeps its name. */
function typeText(type: string): string {
  const logical = logicalTypeOf(type);
  return logical ? formatType(logical) : type;
}

function rowsIn(lines: Buffer): number {
  let count = 0;
  for (let at = lines.indexOf(newline); at >= 0; at = lines.indexOf(newline, at + 1)) count++;
  return count;
}

/** Where the row of this number, from 1, ends. */
function endOfRow(lines: Buffer, row: number): number {
  let end = 0;
  for (let count = 0; count < row; count++) end = lines.indexOf(newline, end) + 1;
  return end;
}
