// Results that are fetched page by page: per task one file of rows, cut at byte offsets supplied by the engine, and a small description.
// Of tasks it knows only their ids.
import { open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ResultColumn, StatementResult } from '../../engines/engine.ts';
import { storageFailure } from '../../files/receiving.ts';
import { objectNotFound } from '../../standard/failure.ts';
import type { BodyPiece } from '../../standard/record_body.ts';
import { expiredFailure, PageBytes, rethrowAsExpired } from './page_bytes.ts';

interface Description {
  readonly columns: readonly ResultColumn[];
  readonly rowCount: number;
  /** Start of each page; the last entry is the length of the file. */
  readonly offsets: readonly number[];
  /** The row at which each page begins; the last entry is `rowCount`. */
  readonly firstRows: readonly number[];
}

/** Which rows a page has. */
export interface PageRows {
  readonly firstRow: number;
  readonly rowCount: number;
}

export interface ResultPage extends PageRows {
  readonly columns: readonly ResultColumn[];
  /** JSON arrays joined by commas. */
  readonly rows: BodyPiece;
  readonly page: number;
  /** Null until the result is complete. */
  readonly pageCount: number | null;
  /** The page is not complete yet, and `rows` is empty. */
  readonly isPending?: true;
}

export class ResultStore {
  readonly #directory: string;
  /** Recently read descriptions: the pages of a result are usually requested one after another. */
  readonly #descriptions = new Map<string, Description>();

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
    const path = this.rowsPath(taskId);
    const { rows } = result;
    if (rows.kind === 'file') await rename(rows.path, path);
    else await writeFile(path, rows.text);
    const { offsets, firstRows } =
      rows.kind === 'file' ? rows : { offsets: [0, Buffer.byteLength(rows.text)], firstRows: [0, result.rowCount] };
    const description: Description = { columns: result.columns, rowCount: result.rowCount, offsets, firstRows };
    await writeFile(this.#path(taskId, 'json'), JSON.stringify(description));
    if (options.durable) await Promise.all([sync(path), sync(this.#path(taskId, 'json'))]);
    return { pageCount: offsets.length - 1 };
  }

  /** Throws RESULT_EXPIRED if the result is no longer stored, OBJECT_NOT_FOUND if it has no such page. */
  async page(taskId: string, page: number): Promise<ResultPage> {
    const { columns, offsets, firstRows } = await this.#describe(taskId);
    const pageCount = offsets.length - 1;
    const [start, end] = [offsets[page], offsets[page + 1]];
    if (start === undefined || end === undefined) {
      throw objectNotFound('pages', String(page), `the result has pages 0 to ${pageCount - 1}`);
    }
    const rows = await PageBytes.find([this.rowsPath(taskId)], start, end);
    return { ...rowsOfPage(firstRows, page), columns, rows, page, pageCount };
  }

  /** The pages without their rows. Throws RESULT_EXPIRED if the result is no longer stored. */
  async pages(taskId: string): Promise<readonly PageRows[]> {
    return pagesOf((await this.#describe(taskId)).firstRows);
  }

  /** Where the rows of a result are once it is saved. */
  rowsPath(taskId: string): string {
    return this.#path(taskId, 'rows');
  }

  async remove(taskId: string): Promise<void> {
    this.#descriptions.delete(taskId);
    await Promise.all([rm(this.rowsPath(taskId), { force: true }), rm(this.#path(taskId, 'json'), { force: true })]);
  }

  /** Ids of the tasks that have results, including incomplete ones. */
  async taskIds(): Promise<string[]> {
    const names = await readdir(this.#directory);
    return [...new Set(names.map((name) => name.split('.')[0] as string))];
  }

  async bytes(taskId: string): Promise<number> {
    return (await stat(this.rowsPath(taskId)).catch(() => undefined))?.size ?? 0;
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

/** `firstRows`: the row at which each page begins, and the one after the last page. */
export function rowsOfPage(firstRows: readonly number[], page: number): PageRows {
  const firstRow = firstRows[page] as number;
  return { firstRow, rowCount: (firstRows[page + 1] as number) - firstRow };
}

export const pagesOf = (firstRows: readonly number[]): readonly PageRows[] =>
  firstRows.slice(1).map((_, page) => rowsOfPage(firstRows, page));

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** Throws RESULT_EXPIRED if the description is incomplete, or of a version that did not store the rows of pages. */
function readDescription(text: string): Description {
  let description: Description;
  try {
    description = JSON.parse(text) as Description;
  } catch {
    throw expiredFailure();
  }
  if (!Array.isArray(description.firstRows)) throw expiredFailure();
  return description;
}
