// The rows of a prepared query as files of Arrow IPC, a batch at a time: what is in memory is one batch, however many rows there are.
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBDataChunk, DuckDBPreparedStatement, DuckDBType } from '@duckdb/node-api';
import * as arrow from 'apache-arrow';
import { arrowData, arrowType } from './arrow_columns.ts';

/** Rows of one batch: 8 chunks of the engine. */
const batchRows = 16_384;

export interface ArrowTarget {
  readonly directory: string;
  readonly layout: 'file' | 'stream';
  readonly fileBytesMax: number | undefined;
  /** Throws where it is not to go on. */
  readonly current: () => void;
}

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
  try {
    file = await ArrowFile.create(target, 0, schema);
    for (let batch = await nextBatch(result, types); batch; batch = await nextBatch(result, types)) {
      target.current();
      if (target.fileBytesMax !== undefined && file.bytes >= target.fileBytesMax) {
        written.push(await file.finish());
        file = await ArrowFile.create(target, written.length, schema);
      }
      await file.write(new arrow.RecordBatch(schema, structOf(schema, batch)));
    }
    written.push(await file.finish());
    return written;
  } finally {
    await file?.close();
  }
}

interface Batch {
  readonly length: number;
  readonly children: readonly arrow.Data[];
}

const structOf = ({ fields }: arrow.Schema, { length, children }: Batch) =>
  arrow.makeData({ type: new arrow.Struct(fields), length, nullCount: 0, children: [...children] });

async function nextBatch(
  result: { fetchChunk(): Promise<DuckDBDataChunk | null> },
  types: readonly DuckDBType[],
): Promise<Batch | undefined> {
  const columns = types.map(() => [] as ReturnType<DuckDBDataChunk['getColumnValues']>);
  let length = 0;
  while (length < batchRows) {
    const chunk = await result.fetchChunk();
    if (!chunk || chunk.rowCount === 0) break;
    for (const [i, column] of columns.entries()) for (const value of chunk.getColumnValues(i)) column.push(value);
    length += chunk.rowCount;
  }
  if (length === 0) return undefined;
  return { length, children: types.map((type, i) => arrowData(type, columns[i] ?? [])) };
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

  async write(batch: arrow.RecordBatch): Promise<void> {
    this.#writer.write(batch);
    this.#rows += batch.numRows;
    await this.#drain();
  }

  async finish(): Promise<{ path: string; rows: number }> {
    this.#writer.finish();
    await this.#drain();
    await this.close();
    return { path: this.#path, rows: this.#rows };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#handle.close();
  }

  /** What the writer has made goes to the file, so that it does not gather in memory. */
  async #drain(): Promise<void> {
    for (const part of this.#parts.taken()) {
      await this.#handle.write(part);
      this.bytes += part.byteLength;
    }
  }
}
