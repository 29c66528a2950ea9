// The rows of a SELECT as a server streams them: JSON arrays, after a line of names and one of types.
import { formatType } from '../../../model/types.ts';
import type { ExecuteOptions, ResultColumn } from '../../port/statements.ts';
import { countedRows, type RowsRewriter } from '../types/json_rows.ts';
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

export interface AddedRows {
  readonly rows: Buffer;
  readonly count: number;
}

/** Cuts a stream into its rows, at most `rowsMax`. */
export class RowLines {
  readonly #rowsMax: number;
  readonly #rewriterOf: (types: readonly string[]) => RowsRewriter;
  #rewrite: RowsRewriter = countedRows;
  /** The beginning of a line that is not complete yet. */
  #rest: Buffer[] = [];
  #names: readonly string[] | undefined;
  #header: Header | undefined;
  #rowCount = 0;
  #isTruncated = false;

  /** `rewriterOf`: for columns of these types, as the server names them; absent: rows stay as they are. */
  constructor(rowsMax: number | undefined, rewriterOf: (types: readonly string[]) => RowsRewriter = () => countedRows) {
    this.#rowsMax = rowsMax ?? Number.POSITIVE_INFINITY;
    this.#rewriterOf = rewriterOf;
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

  /**
   * @param chunk is changed, and not used after this returns.
   * @returns whole rows, each with `,\n` after it, in up to two parts: only the row that began in an earlier chunk is copied.
   */
  add(chunk: Buffer): readonly AddedRows[] {
    const end = chunk.lastIndexOf(newline) + 1;
    if (end === 0) {
      this.#rest.push(Buffer.from(chunk));
      return [];
    }
    const begin = this.#rest.length === 0 ? 0 : chunk.indexOf(newline) + 1;
    const begun = Buffer.concat([...this.#rest, chunk.subarray(0, begin)]);
    this.#rest = end < chunk.length ? [Buffer.from(chunk.subarray(end))] : [];
    return [begun, chunk.subarray(begin, end)].flatMap((lines) => {
      const rows = this.#header ? lines : this.#withoutHeader(lines);
      return rows.length === 0 ? [] : this.#rowsOf(rows);
    });
  }

  /** Throws if the rows are incomplete. */
  finish(): Header {
    if (Buffer.concat(this.#rest).toString() !== terminator || !this.#header)
      throw new Error('the rows of a result are incomplete');
    return this.#header;
  }

  /** Reads the lines of names and types. @returns the lines after them. */
  #withoutHeader(lines: Buffer): Buffer {
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
      this.#rewrite = this.#rewriterOf(texts);
    }
    return lines.subarray(begin);
  }

  /** @param lines whole rows; only the last row of the result does not end with a comma. */
  #rowsOf(lines: Buffer): readonly AddedRows[] {
    // The last line before the terminator is empty if there are no rows.
    if (lines.length === 1 || this.#isTruncated) return [];
    let { rows, rowCount: count } = this.#rewrite(lines);
    if (rows[rows.length - 2] !== comma) rows = Buffer.concat([rows.subarray(0, rows.length - 1), Buffer.from(',\n')]);
    if (this.#rowCount + count > this.#rowsMax) {
      this.#isTruncated = true;
      count = this.#rowsMax - this.#rowCount;
      rows = rows.subarray(0, endOfRow(rows, count));
    }
    this.#rowCount += count;
    return count === 0 ? [] : [{ rows, count }];
  }
}

/** The logical type; a type of the server that no logical type can represent keeps its name. */
function typeText(type: string): string {
  const logical = logicalTypeOf(type);
  return logical ? formatType(logical) : type;
}

/** Where the row of this number, from 1, ends. */
function endOfRow(lines: Buffer, row: number): number {
  let end = 0;
  for (let count = 0; count < row; count++) end = lines.indexOf(newline, end) + 1;
  return end;
}
