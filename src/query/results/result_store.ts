// Results that are fetched page by page: per task one file of rows, cut at byte offsets supplied by the engine, and a small description,
// in the data directory or in the bucket that servers share. Of tasks it knows only their ids.
import { open, rm } from 'node:fs/promises';
import type { ResultColumn, StatementResult } from '../../engines/port/statements.ts';
import { type BlobPlaces, idOfKey } from '../../files/blobs/blob_places.ts';
import { objectNotFound } from '../../standard/failure.ts';
import type { BodyPiece } from '../../standard/record_body.ts';
import { storageFailure } from '../../store/disk_space.ts';
import { expiredFailure, PageBytes, separatorBytes, withoutSeparator } from './page_bytes.ts';
import { RemotePage } from './remote_page.ts';

interface Description {
  readonly columns: readonly ResultColumn[];
  readonly rowCount: number;
  /** Start of each page; the last entry is the length of the file. */
  readonly offsets: readonly number[];
  /** The row at which each page begins; the last entry is `rowCount`. */
  readonly firstRows: readonly number[];
  /** In the bucket: where the last row ends. */
  lastEnd?: number;
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

/** Which result: `storedAs` is its key in the bucket, null for one in the data directory. */
export interface StoredResult {
  readonly taskId: string;
  readonly storedAs: string | null;
}

const descriptionsMax = 100;
const descriptionBytesMax = 64 * 1024 * 1024;
const [rowsEnd, descriptionEnd] = ['.rows', '.json'];

export class ResultStore {
  readonly #blobs: BlobPlaces;
  /** Recently read descriptions: the pages of a result are usually requested one after another. */
  readonly #descriptions = new Map<string, Description>();

  constructor(blobs: BlobPlaces) {
    this.#blobs = blobs;
  }

  /** Where the result of a task will be saved. */
  newResult(taskId: string): StoredResult {
    return { taskId, storedAs: this.#blobs.newKey(taskId) };
  }

  /**
   * Takes ownership of the result (its file is moved). `durable`: the result survives a power failure, as the acknowledged result of a
   * task must.
   */
  async save(
    stored: StoredResult,
    result: StatementResult,
    options: { readonly durable: boolean },
  ): Promise<{ pageCount: number }> {
    const { rows } = result;
    const removeSpooled = () => (rows.kind === 'file' ? rm(rows.path, { force: true }) : undefined);
    try {
      const saved = await this.#save(stored, result, options);
      if (stored.storedAs !== null) await removeSpooled();
      return saved;
    } catch (error) {
      // A partial result is useless and occupies scarce disk space.
      await this.remove(stored);
      await removeSpooled();
      return storageFailure(error);
    }
  }

  async #save(
    stored: StoredResult,
    result: StatementResult,
    options: { readonly durable: boolean },
  ): Promise<{ pageCount: number }> {
    const { columns, rowCount, rows } = result;
    const { offsets, firstRows } =
      rows.kind === 'file' ? rows : { offsets: [0, Buffer.byteLength(rows.text)], firstRows: [0, rowCount] };
    const description: Description = { columns, rowCount, offsets, firstRows };
    if (stored.storedAs !== null && rows.kind === 'file') description.lastEnd = await endOfRows(rows.path);
    const store = this.#blobs.storeOf(stored.storedAs);
    const key = keyOf(stored);
    const stores = await Promise.allSettled([
      store.put(key + rowsEnd, rows, options),
      store.put(key + descriptionEnd, { text: JSON.stringify(description) }, options),
    ]);
    for (const ended of stores) if (ended.status === 'rejected') throw ended.reason;
    return { pageCount: offsets.length - 1 };
  }

  /** Throws RESULT_EXPIRED if the result is no longer stored, OBJECT_NOT_FOUND if it has no such page, REMOTE_UNAVAILABLE. */
  async page(stored: StoredResult, page: number): Promise<ResultPage> {
    const { columns, offsets, firstRows, lastEnd } = await this.#describe(stored);
    const pageCount = offsets.length - 1;
    const [start, end] = [offsets[page], offsets[page + 1]];
    if (start === undefined || end === undefined) {
      throw objectNotFound('pages', String(page), `the result has pages 0 to ${pageCount - 1}`);
    }
    const rows =
      stored.storedAs === null
        ? await PageBytes.find([this.rowsPath(stored.taskId)], start, end)
        : await RemotePage.find(this.#blobs.storeOf(stored.storedAs), keyOf(stored) + rowsEnd, {
            start,
            end: page === pageCount - 1 ? (lastEnd ?? end) : end - separatorBytes,
          });
    return { ...rowsOfPage(firstRows, page), columns, rows, page, pageCount };
  }

  /** The pages without their rows. Throws RESULT_EXPIRED if the result is no longer stored, REMOTE_UNAVAILABLE. */
  async pages(stored: StoredResult): Promise<readonly PageRows[]> {
    return pagesOf((await this.#describe(stored)).firstRows);
  }

  /** Where the rows of a result are once it is saved in the data directory. */
  rowsPath(taskId: string): string {
    return this.#blobs.directory.pathOf(taskId + rowsEnd);
  }

  /** If the bucket does not answer, its sweep removes the result later. */
  async remove({ taskId, storedAs }: StoredResult): Promise<void> {
    const { directory, bucket } = this.#blobs;
    this.#descriptions.delete(storedAs ?? taskId);
    await Promise.all([rowsEnd, descriptionEnd].map((end) => directory.remove(taskId + end)));
    if (storedAs === null) return;
    await Promise.allSettled([rowsEnd, descriptionEnd].map((end) => bucket?.remove(storedAs + end)));
  }

  /** Ids of the tasks that have results in the data directory, including incomplete ones. */
  async taskIds(): Promise<string[]> {
    const listed = await Array.fromAsync(this.#blobs.directory.list());
    return [...new Set(listed.map(({ key }) => key.split('.')[0] as string))];
  }

  /** Results in the bucket that were stored before `time`, including incomplete ones. Throws REMOTE_UNAVAILABLE. */
  async *storedBefore(time: number): AsyncGenerator<StoredResult & { readonly storedAs: string }> {
    for await (const { key, modifiedAtMs } of this.#blobs.bucket?.list() ?? [])
      if (modifiedAtMs < time) yield { taskId: idOfKey(key), storedAs: key.replace(/\.[a-z]+$/, '') };
  }

  async #describe(stored: StoredResult): Promise<Description> {
    const key = keyOf(stored);
    const cached = this.#descriptions.get(key);
    if (cached) return cached;
    const text = await this.#blobs.storeOf(stored.storedAs).readText(key + descriptionEnd, descriptionBytesMax);
    if (text === undefined) throw expiredFailure();
    const description = readDescription(text);
    if (this.#descriptions.size >= descriptionsMax)
      this.#descriptions.delete(this.#descriptions.keys().next().value as string);
    this.#descriptions.set(key, description);
    return description;
  }
}

const keyOf = ({ taskId, storedAs }: StoredResult): string => storedAs ?? taskId;

/** The length of a file of rows without what may follow the last one. */
async function endOfRows(path: string): Promise<number> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const separator = Buffer.alloc(Math.min(separatorBytes, size));
    await file.read(separator, 0, separator.length, size - separator.length);
    return size - separator.length + withoutSeparator(separator).length;
  } finally {
    await file.close();
  }
}

/** `firstRows`: the row at which each page begins, and the one after the last page. */
export function rowsOfPage(firstRows: readonly number[], page: number): PageRows {
  const firstRow = firstRows[page] as number;
  return { firstRow, rowCount: (firstRows[page + 1] as number) - firstRow };
}

export const pagesOf = (firstRows: readonly number[]): readonly PageRows[] =>
  firstRows.slice(1).map((_, page) => rowsOfPage(firstRows, page));

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
