// Results that are fetched page by page: per task one file of rows, cut at byte offsets supplied by the engine, and a small description.
// Of tasks it knows only their ids.
import { open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ResultColumn, StatementResult } from '../../engines/engine.ts';
import { storageFailure } from '../../files/receiving.ts';
import { Failure } from '../../standard/failure.ts';

interface Description {
  readonly columns: readonly ResultColumn[];
  readonly rowCount: number;
  /** Start of each page; the last entry is the length of the file. */
  readonly offsets: readonly number[];
}

export interface ResultPage {
  readonly columns: readonly ResultColumn[];
  /** JSON arrays joined by commas. */
  readonly rows: Uint8Array;
  readonly page: number;
  /** Null until the result is complete. */
  readonly pageCount: number | null;
  /** The page is not complete yet, and `rows` is empty. */
  readonly isPending?: true;
}

/** How long a prefetched page is held. */
const prefetchedMs = 2000;

export class ResultStore {
  readonly #directory: string;
  /** Recently read descriptions: the pages of a result are usually requested one after another. */
  readonly #descriptions = new Map<string, Description>();
  #prefetched: { readonly taskId: string; readonly page: number; readonly rows: Promise<Buffer> } | undefined;
  #prefetchTimer: NodeJS.Timeout | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Takes ownership of the result (its file is moved). `durable`: the result survives a power failure, as the acknowledged result of a
   * task must.
   */
  async save(
    taskId: string,
    result: StatementResult,
    options: { readonly durable: boolean },
  ): Promise<{ pageCount: number }> {
    try {
      return await this.#save(taskId, result, options);
    } catch (error) {
      // A partial result is useless and occupies scarce disk space.
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

  /** Throws RESULT_EXPIRED if the result is no longer stored, OBJECT_NOT_FOUND if it has no such page. */
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
    const prefetched = this.#prefetched;
    const rows = await (prefetched?.taskId === taskId && prefetched.page === page
      ? prefetched.rows
      : this.#read(taskId, start, end));
    this.#prefetch(taskId, page + 1, end, offsets[page + 2]);
    return { columns, rows: withoutSeparator(rows), page, pageCount };
  }

  /** Pages are usually requested one after another: the next one is read while this one is sent. At most one page is prefetched. */
  #prefetch(taskId: string, page: number, start: number, end: number | undefined): void {
    clearTimeout(this.#prefetchTimer);
    this.#prefetched = undefined;
    if (end === undefined) return;
    const rows = this.#read(taskId, start, end);
    rows.catch(() => undefined);
    this.#prefetched = { taskId, page, rows };
    this.#prefetchTimer = setTimeout(() => {
      this.#prefetched = undefined;
    }, prefetchedMs).unref();
  }

  async #read(taskId: string, start: number, end: number): Promise<Buffer> {
    const rows = Buffer.allocUnsafe(end - start);
    const file = await open(this.#path(taskId, 'rows')).catch(rethrowAsExpired);
    try {
      const { bytesRead } = await file.read(rows, 0, rows.length, start);
      if (bytesRead !== rows.length) throw expiredFailure();
    } finally {
      await file.close();
    }
    return rows;
  }

  async remove(taskId: string): Promise<void> {
    this.#descriptions.delete(taskId);
    if (this.#prefetched?.taskId === taskId) this.#prefetched = undefined;
    await Promise.all([
      rm(this.#path(taskId, 'rows'), { force: true }),
      rm(this.#path(taskId, 'json'), { force: true }),
    ]);
  }

  /** Ids of the tasks that have results, including incomplete ones. */
  async taskIds(): Promise<string[]> {
    const names = await readdir(this.#directory);
    return [...new Set(names.map((name) => name.split('.')[0] as string))];
  }

  async bytes(taskId: string): Promise<number> {
    return (await stat(this.#path(taskId, 'rows')).catch(() => undefined))?.size ?? 0;
  }

  async #describe(taskId: string): Promise<Description> {
    const cached = this.#descriptions.get(taskId);
    if (cached) return cached;
    const text = await readFile(this.#path(taskId, 'json'), 'utf8').catch(rethrowAsExpired);
    const description = readDescription(text);
    if (this.#descriptions.size >= 100) this.#descriptions.delete(this.#descriptions.keys().next().value as string);
    this.#descriptions.set(taskId, description);
    return description;
  }

  #path(taskId: string, extension: string): string {
    return join(this.#directory, `${taskId}.${extension}`);
  }
}

/** Removes the comma and newline that end every row but the last of the whole result; a page is the inside of a JSON array. */
export function withoutSeparator(rows: Buffer): Buffer {
  let end = rows.length;
  if (rows[end - 1] === 0x0a) end--;
  if (rows[end - 1] === 0x2c) end--;
  return rows.subarray(0, end);
}

function expiredFailure(): Failure {
  return new Failure('RESULT_EXPIRED', 'the result has expired; run the query again');
}

function rethrowAsExpired(error: NodeJS.ErrnoException): never {
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

/** Throws RESULT_EXPIRED if the description is incomplete. */
function readDescription(text: string): Description {
  try {
    return JSON.parse(text) as Description;
  } catch {
    throw expiredFailure();
  }
}
