// Writes the rows of a result, which arrive as lines, into pages in the spool of the server, and the rejected rows of a load into a file.
import { createWriteStream, type WriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import type { ExecuteOptions, ResultColumn, StatementResult } from '../../../src/engines/port/statements.ts';
import { PagedFile, type PageEnd, rowsFile } from '../../../src/engines/results/paged_file.ts';

/** A result of at most this size is not written to a file. */
const inlineBytesMax = 512 * 1024;

export class ResultRows {
  readonly #path: string;
  readonly #file: PagedFile;
  readonly #inlineBytesMax: number;
  columns: readonly ResultColumn[] = [];

  constructor({ resultPath, pageBytesMax, onPage }: Pick<ExecuteOptions, 'resultPath' | 'pageBytesMax' | 'onPage'>) {
    const path = rowsFile(resultPath);
    this.#path = path;
    const report = onPage && ((page: PageEnd) => onPage({ columns: this.columns, path, ...page }));
    this.#file = new PagedFile({ path, pageBytesMax, onPage: report });
    this.#inlineBytesMax = Math.min(inlineBytesMax, pageBytesMax);
  }

  /** The first line has the columns. */
  async add(line: string): Promise<void> {
    if (line.startsWith('[')) await this.#file.append([Buffer.from(`${line},\n`)], 1);
    else ({ columns: this.columns } = JSON.parse(line) as { columns: readonly ResultColumn[] });
  }

  async finish(): Promise<StatementResult['rows']> {
    if (this.#file.bytes <= this.#inlineBytesMax) return { kind: 'text', text: this.#file.unwritten().slice(0, -2) };
    return { kind: 'file', path: this.#path, ...(await this.#file.finish()) };
  }

  async discard(): Promise<void> {
    await this.#file.close();
    await rm(this.#path, { force: true });
  }
}

/** Each line is a JSON array of one object. */
export class RejectedRowsFile {
  readonly #path: string;
  #stream: WriteStream | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  add(line: string): void {
    this.#stream ??= createWriteStream(this.#path, { mode: 0o600 });
    this.#stream.write(`${line.slice(1, -1)}\n`);
  }

  async finish(): Promise<void> {
    if (!this.#stream) return;
    this.#stream.end();
    await finished(this.#stream);
  }
}
