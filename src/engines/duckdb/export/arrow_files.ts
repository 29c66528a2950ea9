// The rows of a prepared query as files of Arrow IPC, a batch at a time: what is in memory is one batch, however many rows there are.
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBDataChunk, DuckDBPreparedStatement, DuckDBType } from '@duckdb/node-api';
import duckdb from '@duckdb/node-bindings';
import * as arrow from 'apache-arrow';
import { arrowType } from './arrow_types.ts';
import { arrowData } from './arrow_vectors.ts';

/** Of a batch, about: what is in memory at once. */
const batchBytes = 8 * 1024 * 1024;
/** Of the first batch: one chunk of the engine. Nobody knows yet how large they are. */
const rowsFirst = 2048;
const rowsMax = 122_880;

export interface ArrowTarget {
  readonly directory: string;
  readonly layout: 'file' | 'stream';
  readonly fileBytesMax: number | undefined;
  /** Throws where it is not to go on. */
  readonly current: () => void;
}

/** Who calls must see to it that the stream was not ended by an error: it does not tell. Throws what `current` throws. */
export async function writeArrow(
  prepared: DuckDBPreparedStatement,
  names: readonly string[],
  target: ArrowTarget,
): Promise<{ readonly path: string; readonly rows: number }[]> {
  const result = await prepared.stream();
  const types = result.columnTypes();
  const schema = new arrow.Schema(
    names.map((name, i) => new arrow.Field(name, arrowType(types[i] as DuckDBType), true)),
  );
  const written: { path: string; rows: number }[] = [];
  let file: ArrowFile | undefined;
  // The next rows come from the engine while these are turned and written.
  let coming = nextChunks(result, rowsFirst);
  try {
    file = await ArrowFile.create(target, 0, schema);
    let rows = rowsFirst;
    for (;;) {
      const chunks = await coming;
      target.current();
      if (chunks.length === 0) break;
      coming = nextChunks(result, rows);
      coming.catch(ignored);
      if (target.fileBytesMax !== undefined && file.bytes >= target.fileBytesMax) {
        written.push(await file.finish());
        file = await ArrowFile.create(target, written.length, schema);
      }
      const batch = batchOf(chunks, schema, types);
      rows = rowsOfNext(batch.numRows, await file.write(batch));
    }
    written.push(await file.finish());
    return written;
  } finally {
    await coming.catch(ignored);
    await file?.close();
  }
}

const ignored = () => undefined;

/** By what the last batch was. */
const rowsOfNext = (rows: number, bytes: number): number =>
  Math.max(rowsFirst, Math.min(rowsMax, rows * 8, Math.floor((rows * batchBytes) / bytes)));

/** None at the end. */
async function nextChunks(
  result: { fetchChunk(): Promise<DuckDBDataChunk | null> },
  rowsMin: number,
): Promise<DuckDBDataChunk[]> {
  const chunks: DuckDBDataChunk[] = [];
  for (let rows = 0; rows < rowsMin; ) {
    const chunk = await result.fetchChunk();
    if (!chunk || chunk.rowCount === 0) break;
    chunks.push(chunk);
    rows += chunk.rowCount;
  }
  return chunks;
}

function batchOf(
  chunks: readonly DuckDBDataChunk[],
  schema: arrow.Schema,
  types: readonly DuckDBType[],
): arrow.RecordBatch {
  const length = chunks.reduce((sum, { rowCount }) => sum + rowCount, 0);
  const children = types.map((type, i) => {
    const pieces = chunks.map(({ chunk, rowCount }) => ({
      vector: duckdb.data_chunk_get_vector(chunk, i),
      size: rowCount,
      from: 0,
      count: rowCount,
    }));
    return arrowData(type, pieces);
  });
  const data = arrow.makeData({ type: new arrow.Struct(schema.fields), length, nullCount: 0, children });
  return new arrow.RecordBatch(schema, data);
}

/** Where the writer leaves what it has made. */
class Parts extends arrow.AsyncByteQueue {
  #made: Uint8Array[] = [];

  override write(part: ArrayBufferView): void {
    this.#made.push(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
  }

  taken(): Uint8Array[] {
    const made = this.#made;
    this.#made = [];
    return made;
  }
}

class ArrowFile {
  readonly #handle: FileHandle;
  readonly #path: string;
  readonly #writer: arrow.RecordBatchWriter;
  readonly #parts: Parts;
  #rows = 0;
  #isClosed = false;
  #writing: Promise<void> = Promise.resolve();
  bytes = 0;

  private constructor(handle: FileHandle, path: string, writer: arrow.RecordBatchWriter, parts: Parts) {
    this.#handle = handle;
    this.#path = path;
    this.#writer = writer;
    this.#parts = parts;
  }

  static async create({ directory, layout }: ArrowTarget, number: number, schema: arrow.Schema): Promise<ArrowFile> {
    const path = join(directory, `batches_${number}`);
    const writer = layout === 'file' ? new arrow.RecordBatchFileWriter() : new arrow.RecordBatchStreamWriter();
    const parts = new Parts();
    writer.reset(parts, schema);
    return new ArrowFile(await open(path, 'wx'), path, writer, parts);
  }

  /** One batch is written while the next one is made. Returns the bytes of this one. */
  async write(batch: arrow.RecordBatch): Promise<number> {
    this.#writer.write(batch);
    this.#rows += batch.numRows;
    return this.#drain();
  }

  async finish(): Promise<{ path: string; rows: number }> {
    this.#writer.finish();
    await this.#drain();
    await this.#writing;
    await this.close();
    return { path: this.#path, rows: this.#rows };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#writing.catch(ignored);
    await this.#handle.close();
  }

  async #drain(): Promise<number> {
    const parts = this.#parts.taken();
    const bytes = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
    await this.#writing;
    this.#writing = this.#put(parts, bytes);
    this.#writing.catch(ignored);
    this.bytes += bytes;
    return bytes;
  }

  async #put(parts: readonly Uint8Array[], bytes: number): Promise<void> {
    if (bytes === 0) return;
    const { bytesWritten } = await this.#handle.writev(parts);
    // A disk that is nearly full takes a part; the rest fails, and says why.
    if (bytesWritten < bytes) await this.#handle.appendFile(Buffer.concat(parts).subarray(bytesWritten));
  }
}
