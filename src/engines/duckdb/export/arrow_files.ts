// Writes the rows of a prepared query to Arrow IPC files, one batch at a time, so that memory use does not depend on the number of rows.
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBDataChunk, DuckDBPreparedStatement, DuckDBType } from '@duckdb/node-api';
import duckdb from '@duckdb/node-bindings';
import * as arrow from 'apache-arrow';
import { ArrowEncoder } from '../../results/arrow_encoder.ts';
import { arrowType } from './arrow_types.ts';
import { arrowData } from './arrow_vectors.ts';

/** Approximate size of a batch, which is held in memory. */
const batchBytes = 8 * 1024 * 1024;
/** Rows of the first batch, one chunk of the engine: the size of rows is not known yet. */
const firstBatchRows = 2048;
const batchRowsMax = 122_880;

export interface ArrowTarget {
  readonly directory: string;
  readonly layout: 'file' | 'stream';
  readonly compression: 'none' | 'zstd';
  readonly fileBytesMax: number | undefined;
  /** Throws if the export must not continue. */
  readonly requireCurrent: () => void;
}

/** The caller must check whether an error ended the stream, which does not report it. Throws what `requireCurrent` throws. */
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
  // The engine produces the next rows while the current ones are converted and written.
  let pending = nextChunks(result, firstBatchRows);
  try {
    file = await ArrowFile.create(target, 0, schema);
    let rows = firstBatchRows;
    for (;;) {
      const chunks = await pending;
      target.requireCurrent();
      if (chunks.length === 0) break;
      pending = nextChunks(result, rows);
      pending.catch(ignored);
      if (target.fileBytesMax !== undefined && file.bytes >= target.fileBytesMax) {
        written.push(await file.finish());
        file = await ArrowFile.create(target, written.length, schema);
      }
      const batch = batchOf(chunks, schema, types);
      rows = nextBatchRows(batch.numRows, await file.write(batch));
    }
    written.push(await file.finish());
    return written;
  } finally {
    await pending.catch(ignored);
    await file?.close();
  }
}

const ignored = () => undefined;

/** Computed from the size of the last batch. */
const nextBatchRows = (rows: number, bytes: number): number =>
  Math.max(firstBatchRows, Math.min(batchRowsMax, rows * 8, Math.floor((rows * batchBytes) / bytes)));

/** Empty at the end of the result. */
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
    const slices = chunks.map(({ chunk, rowCount }) => ({
      vector: duckdb.data_chunk_get_vector(chunk, i),
      size: rowCount,
      from: 0,
      count: rowCount,
    }));
    return arrowData(type, slices);
  });
  const data = arrow.makeData({ type: new arrow.Struct(schema.fields), length, nullCount: 0, children });
  return new arrow.RecordBatch(schema, data);
}

class ArrowFile {
  readonly #handle: FileHandle;
  readonly #path: string;
  readonly #encoder: ArrowEncoder;
  #rows = 0;
  #isClosed = false;
  #writing: Promise<void> = Promise.resolve();
  bytes = 0;

  private constructor(handle: FileHandle, path: string, encoder: ArrowEncoder) {
    this.#handle = handle;
    this.#path = path;
    this.#encoder = encoder;
  }

  static async create(
    { directory, layout, compression }: ArrowTarget,
    number: number,
    schema: arrow.Schema,
  ): Promise<ArrowFile> {
    const path = join(directory, `batches_${number}`);
    return new ArrowFile(await open(path, 'wx'), path, new ArrowEncoder(schema, { layout, compression }));
  }

  /** Returns the bytes of the batch, which are written to the disk while the next batch is converted. */
  async write(batch: arrow.RecordBatch): Promise<number> {
    this.#rows += batch.numRows;
    return this.#append(this.#encoder.write(batch));
  }

  async finish(): Promise<{ path: string; rows: number }> {
    await this.#append(this.#encoder.finish());
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

  async #append(parts: readonly Uint8Array[]): Promise<number> {
    const bytes = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
    await this.#writing;
    this.#writing = this.#writeAll(parts, bytes);
    this.#writing.catch(ignored);
    this.bytes += bytes;
    return bytes;
  }

  async #writeAll(parts: readonly Uint8Array[], bytes: number): Promise<void> {
    if (bytes === 0) return;
    const { bytesWritten } = await this.#handle.writev(parts);
    // A nearly full disk accepts only a part of the bytes; writing the rest throws the reason.
    if (bytesWritten < bytes) await this.#handle.appendFile(Buffer.concat(parts).subarray(bytesWritten));
  }
}
