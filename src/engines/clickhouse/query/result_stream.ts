// The rows of a SELECT as a server streams them, into the pages of a result. The server writes them in the form in which they are delivered;
// only types that it writes in another form are rewritten (types/json_rows.ts).
import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { ExecuteOptions, StatementResult } from '../../port/statements.ts';
import { PagedFile, type PageEnd, rowsFile } from '../../results/paged_file.ts';
import { readToEnd } from '../connection/read_to_end.ts';
import { ResponseBody } from '../connection/response_body.ts';
import { type RowsRewriter, rowsRewriter } from '../types/json_rows.ts';
import { RowLines } from './row_lines.ts';

/** A result of at most this size is not written to a file. */
const inlineBytesMax = 256 * 1024;
/** Superfluous bytes of a time that are left as spaces in a larger result: they cost a client less than moving the rest of every row costs here. */
const blanksMax = 2;
type Options = Pick<ExecuteOptions, 'resultPath' | 'pageBytesMax' | 'onPage' | 'rowsMax' | 'numbers'>;

/** Reads the stream to its end. Throws the error with which a server ends it, or if it is incomplete; the file is removed then. */
export async function readResult(stream: Readable, options: Options): Promise<StatementResult> {
  const reader = new ResultReader(options);
  if (stream instanceof ResponseBody) stream.lend();
  try {
    return await readToEnd(
      stream,
      (chunk) => reader.add(chunk),
      () => reader.finish(),
    );
  } catch (error) {
    await reader.discard();
    throw error;
  }
}

class ResultReader {
  readonly #path: string;
  readonly #file: PagedFile;
  readonly #inlineBytesMax: number;
  readonly #lines: RowLines;

  constructor({ resultPath, pageBytesMax, onPage, rowsMax, numbers }: Options) {
    const path = rowsFile(resultPath);
    this.#path = path;
    this.#lines = new RowLines(rowsMax, (types) => this.#rewriterOf(types, numbers));
    const report = onPage && ((page: PageEnd) => onPage({ columns: this.#lines.header?.columns ?? [], path, ...page }));
    this.#file = new PagedFile({ path, pageBytesMax, onPage: report, keepsRecent: true });
    this.#inlineBytesMax = Math.min(inlineBytesMax, pageBytesMax);
  }

  #rewriterOf(types: readonly string[], numbers: Options['numbers']): RowsRewriter {
    const [exact, quick] = [rowsRewriter(types, { numbers }), rowsRewriter(types, { numbers, blanksMax })];
    return (rows) => (this.#file.bytes < inlineBytesMax ? exact : quick)(rows);
  }

  /** `chunk`: valid only during the call, in which it is changed. */
  add(chunk: Buffer): Promise<void> | undefined {
    let written: Promise<void> | undefined;
    for (const { rows, count } of this.#lines.add(chunk)) written = this.#file.append([rows], count) ?? written;
    return written;
  }

  async finish(): Promise<StatementResult> {
    const { columns } = this.#lines.finish();
    const rows: StatementResult['rows'] =
      this.#file.bytes <= this.#inlineBytesMax
        ? { kind: 'text', text: this.#file.unwritten().slice(0, -2) }
        : { kind: 'file', path: this.#path, ...(await this.#file.finish()) };
    return { columns, rowCount: this.#lines.rowCount, truncated: this.#lines.isTruncated, rows };
  }

  async discard(): Promise<void> {
    await this.#file.close();
    await rm(this.#path, { force: true });
  }
}
