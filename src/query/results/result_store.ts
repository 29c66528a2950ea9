// Results that are fetched page by page: one file of rows a task, cut at the byte offsets that the engine gave, and a small
// description beside it. Knows nothing of tasks but their ids.
import { open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ResultColumn, StatementResult } from '../../engines/engine.ts';
import { storageFailure } from '../../files/receiving.ts';
import { Failure } from '../../standard/failure.ts';

interface Description {
  readonly columns: readonly ResultColumn[];
  readonly rowCount: number;
  /** Where each page begins; the last entry is the file's length. */
  readonly offsets: readonly number[];
}

export interface ResultPage {
  readonly columns: readonly ResultColumn[];
  /** JSON arrays joined by commas. */
  readonly rows: Uint8Array;
  readonly page: number;
  readonly pageCount: number;
}

const aheadMs = 2000;

export class ResultStore {
  readonly #directory: string;
  /** The last descriptions read: the pages of one result are asked for one after the other. */
  readonly #known = new Map<string, Description>();
  #ahead: { readonly taskId: string; readonly page: number; readonly rows: Promise<Buffer> } | undefined;
  #aheadTimer: NodeJS.Timeout | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Takes the result over (its file is moved). `durable`: it survives the machine, as what a task acknowledged must. */
  async save(
    taskId: string,
    result: StatementResult,
    options: { readonly durable: boolean },
  ): Promise<{ pageCount: number }> {
    try {
      return await this.#save(taskId, result, options);
    } catch (error) {
      // Half of it is of no use, and takes the room that there is too little of.
      await this.remove(taskId);
      if (result.rows.kind === 'file') await rm(result.rows.path, { force: true });
      return storageFailure(error);
    }
  }

  async #save(
    taskId: string,
    result: StatementResult,
    options: { readonly durable: boolean },
  ): Promise<{ pageCount: number }> {
    const path = this.#path(taskId, 'rows');
    const { rows } = result;
    if (rows.kind === 'file') await rename(rows.path, path);
    else await writeFile(path, rows.text);
    const offsets = rows.kind === 'file' ? rows.offsets : [0, Buffer.byteLength(rows.text)];
    const description: Description = { columns: result.columns, rowCount: result.rowCount, offsets };
    await writeFile(this.#path(taskId, 'json'), JSON.stringify(description));
    if (options.durable) await Promise.all([sync(path), sync(this.#path(taskId, 'json'))]);
    return { pageCount: offsets.length - 1 };
  }

  /** Throws RESULT_EXPIRED where the result is no longer kept, OBJECT_NOT_FOUND where it has no such page. */
  async page(taskId: string, page: number): Promise<ResultPage> {
    const { columns, offsets } = await this.#describe(taskId);
    const pageCount = offsets.length - 1;
    const [start, end] = [offsets[page], offsets[page + 1]];
    if (start === undefined || end === undefined) {
      throw new Failure('OBJECT_NOT_FOUND', `the result has pages 0 to ${pageCount - 1}`, {
        category: 'pages',
        name: String(page),
      });
    }
    const ahead = this.#ahead;
    const rows = await (ahead?.taskId === taskId && ahead.page === page ? ahead.rows : this.#read(taskId, start, end));
    this.#readAhead(taskId, page + 1, end, offsets[page + 2]);
    return { columns, rows: withoutSeparator(rows), page, pageCount };
  }

  /** Pages are asked for one after the other: the next is read while this one is sent. Only one is kept so. */
  #readAhead(taskId: string, page: number, start: number, end: number | undefined): void {
    clearTimeout(this.#aheadTimer);
    this.#ahead = undefined;
    if (end === undefined) return;
    const rows = this.#read(taskId, start, end);
    rows.catch(() => undefined);
    this.#ahead = { taskId, page, rows };
    this.#aheadTimer = setTimeout(() => {
      this.#ahead = undefined;
    }, aheadMs).unref();
  }

  async #read(taskId: string, start: number, end: number): Promise<Buffer> {
    const rows = Buffer.allocUnsafe(end - start);
    const file = await open(this.#path(taskId, 'rows')).catch(expired);
    try {
      const { bytesRead } = await file.read(rows, 0, rows.length, start);
      if (bytesRead !== rows.length) throw expiredFailure();
    } finally {
      await file.close();
    }
    return rows;
  }

  async remove(taskId: string): Promise<void> {
    this.#known.delete(taskId);
    if (this.#ahead?.taskId === taskId) this.#ahead = undefined;
    await Promise.all([
      rm(this.#path(taskId, 'rows'), { force: true }),
      rm(this.#path(taskId, 'json'), { force: true }),
    ]);
  }

  /** Whose results there are; some of them perhaps by halves. */
  async taskIds(): Promise<string[]> {
    const names = await readdir(this.#directory);
    return [...new Set(names.map((name) => name.split('.')[0] as string))];
  }

  async bytes(taskId: string): Promise<number> {
    return (await stat(this.#path(taskId, 'rows')).catch(() => undefined))?.size ?? 0;
  }

  async #describe(taskId: string): Promise<Description> {
    const known = this.#known.get(taskId);
    if (known) return known;
    const text = await readFile(this.#path(taskId, 'json'), 'utf8').catch(expired);
    const description = readDescription(text);
    if (this.#known.size >= 100) this.#known.delete(this.#known.keys().next().value as string);
    this.#known.set(taskId, description);
    return description;
  }

  #path(taskId: string, extension: string): string {
    return join(this.#directory, `${taskId}.${extension}`);
  }
}

/** Rows end with a comma and a newline, but for the last of the whole result; a page is the inside of a JSON array. */
export function withoutSeparator(rows: Buffer): Buffer {
  let end = rows.length;
  if (rows[end - 1] === 0x0a) end--;
  if (rows[end - 1] === 0x2c) end--;
  return rows.subarray(0, end);
}

function expiredFailure(): Failure {
  return new Failure('RESULT_EXPIRED', 'the pages of this result are no longer kept');
}

function expired(error: NodeJS.ErrnoException): never {
  throw error.code === 'ENOENT' ? expiredFailure() : error;
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** Throws RESULT_EXPIRED where it is not whole. */
function readDescription(text: string): Description {
  try {
    return JSON.parse(text) as Description;
  } catch {
    throw expiredFailure();
  }
}
