// The rows of a SELECT as a server streams them, into the pages of a result. The server writes them in the form in which they are delivered;
// only types that it writes in another form are rewritten (types/json_rows.ts).
import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { formatType } from '../../../model/types.ts';
import type { ExecuteOptions, ResultColumn, StatementResult } from '../../engine.ts';
import { PagedFile, type PageEnd, rowsFile } from '../../results/paged_file.ts';
import { type RowsRewriter, rowsRewriter } from '../types/json_rows.ts';
import { logicalTypeOf } from '../types/type_mapping.ts';

/** Rows as JSON arrays, separated by `,\n`, after a line of names and one of types; a last line shows that they are complete. */
export const rowsFormat = 'CustomSeparatedWithNamesAndTypes';
const terminator = ';';
export const rowsFormatSettings = {
  format_custom_escaping_rule: 'JSON',
  format_custom_row_before_delimiter: '[',
  format_custom_field_delimiter: ',',
  format_custom_row_after_delimiter: ']',
  format_custom_row_between_delimiter: ',\n',
  format_custom_result_before_delimiter: '',
  format_custom_result_after_delimiter: `\n${terminator}`,
};

/** A result of at most this size is not written to a file. */
const inlineBytesMax = 256 * 1024;
const newline = 10;
const comma = 44;

type Options = Pick<ExecuteOptions, 'resultPath' | 'pageBytesMax' | 'onPage' | 'rowsMax'>;

/** Reads the stream to its end. Throws if the response is incomplete; the file is removed then. */
export async function readResult(stream: Readable, options: Options): Promise<StatementResult> {
  const reader = new ResultReader(options);
  try {
    for await (const chunk of stream) await reader.add(chunk as Buffer);
    return await reader.finish();
  } catch (error) {
    await reader.discard();
    throw error;
  }
}

class ResultReader {
  readonly #path: string;
  readonly #file: PagedFile;
  readonly #inlineBytesMax: number;
  readonly #rowsMax: number;
  /** The beginning of a line that is not complete yet. */
  #rest: Buffer = Buffer.alloc(0);
  #names: readonly string[] | undefined;
  #columns: readonly ResultColumn[] | undefined;
  #rewrite: RowsRewriter | undefined;
  #rowCount = 0;
  #isTruncated = false;

  constructor({ resultPath, pageBytesMax, onPage, rowsMax }: Options) {
    const path = rowsFile(resultPath);
    this.#path = path;
    this.#rowsMax = rowsMax ?? Number.POSITIVE_INFINITY;
    const report = onPage && ((page: PageEnd) => onPage({ columns: this.#columns ?? [], path, ...page }));
    this.#file = new PagedFile({ path, pageBytesMax, onPage: report });
    this.#inlineBytesMax = Math.min(inlineBytesMax, pageBytesMax);
  }

  async add(chunk: Buffer): Promise<void> {
    const all = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const end = all.lastIndexOf(newline) + 1;
    this.#rest = all.subarray(end);
    const begin = this.#columns ? 0 : this.#header(all.subarray(0, end));
    if (begin < end) await this.#append(all.subarray(begin, end));
  }

  async finish(): Promise<StatementResult> {
    if (this.#rest.toString() !== terminator || !this.#columns) throw new Error('the rows of a result are incomplete');
    const rows: StatementResult['rows'] =
      this.#file.bytes <= this.#inlineBytesMax
        ? { kind: 'text', text: this.#file.unwritten().slice(0, -2) }
        : { kind: 'file', path: this.#path, ...(await this.#file.finish()) };
    return { columns: this.#columns, rowCount: this.#rowCount, truncated: this.#isTruncated, rows };
  }

  async discard(): Promise<void> {
    await this.#file.close();
    await rm(this.#path, { force: true });
  }

  /** Reads the lines of names and types. @returns where the rows begin. */
  #header(lines: Buffer): number {
    let begin = 0;
    for (let end = lines.indexOf(newline); end >= 0 && !this.#columns; end = lines.indexOf(newline, begin)) {
      const texts = JSON.parse(lines.toString('utf8', begin, end).replace(/,$/, '')) as readonly string[];
      begin = end + 1;
      if (!this.#names) {
        this.#names = texts;
        continue;
      }
      this.#columns = this.#names.map((name, index) => ({ name, type: typeText(texts[index] as string) }));
      this.#rewrite = rowsRewriter(texts);
    }
    if (!this.#columns) {
      this.#rest = Buffer.concat([lines.subarray(begin), this.#rest]);
      return lines.length;
    }
    return begin;
  }

  /** @param lines whole rows; only the last row of the result does not end with a comma. */
  async #append(lines: Buffer): Promise<void> {
    let rows = lines;
    if (lines[lines.length - 2] !== comma)
      rows = Buffer.concat([lines.subarray(0, lines.length - 1), Buffer.from(',\n')]);
    let count = rowsIn(rows);
    if (this.#rowCount + count > this.#rowsMax) {
      this.#isTruncated = true;
      count = this.#rowsMax - this.#rowCount;
      rows = rows.subarray(0, endOfRow(rows, count));
      if (count === 0) return;
    }
    this.#rowCount += count;
    await this.#file.append([this.#rewrite ? this.#rewrite(rows) : rows], count);
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
