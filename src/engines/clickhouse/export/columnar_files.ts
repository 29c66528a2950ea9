// Writes rows to Arrow and Parquet files, a batch at a time, so that memory use does not depend on the number of rows.
import * as arrow from 'apache-arrow';
import * as parquet from 'parquet-wasm';
import type { LogicalType } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import type { ExportFormat } from '../../port/export.ts';
import { ArrowEncoder } from '../../results/arrow_encoder.ts';
import { arrowData, arrowTypeOf } from './arrow_values.ts';
import type { OutputFiles } from './output_files.ts';
import type { RowFiles } from './row_files.ts';

type Format = Extract<ExportFormat, { kind: 'arrow' | 'parquet' }>;

/** Of the text of the rows of a batch. */
const batchBytes = 1024 * 1024;
const batchRowsMax = 122_880;
/** Of a row group in memory: files can end only after one. */
const groupBytesMax = 16 * 1024 * 1024;

export interface LogicalColumn {
  readonly name: string;
  readonly logical: LogicalType;
}

/** One file. */
interface Encoder {
  write(batch: arrow.RecordBatch): Promise<void>;
  finish(): Promise<void>;
  abort(): Promise<void>;
}

export class ColumnarFiles implements RowFiles {
  readonly #format: Format;
  readonly #columns: readonly LogicalColumn[];
  readonly #schema: arrow.Schema;
  readonly #output: OutputFiles;
  readonly #fileBytesMax: number;
  #rows: (readonly unknown[])[] = [];
  #bytes = 0;
  #encoder: Encoder | undefined;
  #fileRows = 0;

  constructor(format: Format, columns: readonly LogicalColumn[], output: OutputFiles, fileBytesMax: number) {
    this.#format = format;
    this.#columns = columns;
    this.#output = output;
    this.#fileBytesMax = fileBytesMax;
    this.#schema = new arrow.Schema(
      columns.map(({ name, logical }) => new arrow.Field(name, arrowTypeOf(logical), true)),
    );
  }

  async add(rows: string): Promise<void> {
    const added = JSON.parse(`[${rows.slice(0, -2)}]`) as unknown[][];
    const bytesMax = Math.min(batchBytes, this.#fileBytesMax / 4);
    // Files end between batches: large pieces of rows are cut.
    const pieceRows = Math.max(1, Math.ceil((added.length * bytesMax) / rows.length));
    for (let at = 0; at < added.length; at += pieceRows) {
      const piece = added.slice(at, at + pieceRows);
      for (const row of piece) this.#rows.push(row);
      this.#bytes += (rows.length * piece.length) / added.length;
      if (this.#bytes >= bytesMax || this.#rows.length >= batchRowsMax) await this.#flush();
    }
  }

  async finish(): Promise<void> {
    // A file without rows has one batch without rows: Parquet files get their columns from it.
    if (this.#rows.length > 0 || !this.#encoder) await this.#flush();
    await this.#end();
  }

  async close(): Promise<void> {
    await this.#encoder?.abort();
  }

  async #flush(): Promise<void> {
    if (this.#output.bytes >= this.#fileBytesMax) await this.#end();
    this.#encoder ??= this.#start();
    await this.#encoder.write(this.#takeBatch());
  }

  #takeBatch(): arrow.RecordBatch {
    const rows = this.#rows;
    this.#rows = [];
    this.#bytes = 0;
    this.#fileRows += rows.length;
    const children = this.#columns.map(({ name, logical }, i) => {
      const values = rows.map((row) => row[i] ?? null);
      try {
        return arrowData(logical, values);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        throw notExact(name, error.message);
      }
    });
    const type = new arrow.Struct(this.#schema.fields);
    const data = arrow.makeData({ type, length: rows.length, nullCount: 0, children });
    return new arrow.RecordBatch(this.#schema, data);
  }

  #start(): Encoder {
    return this.#format.kind === 'arrow'
      ? arrowEncoder(this.#format, this.#schema, this.#output)
      : parquetEncoder(this.#format, this.#schema, this.#output, Math.min(groupBytesMax, this.#fileBytesMax / 4));
  }

  async #end(): Promise<void> {
    await this.#encoder?.finish();
    this.#encoder = undefined;
    await this.#output.finish(this.#fileRows);
    this.#fileRows = 0;
  }
}

export const notExact = (column: string, reason: string) =>
  new Failure('SQL_INVALID', `the column ${JSON.stringify(column)} cannot be exported exactly: ${reason}`, {
    column,
  });

function arrowEncoder(
  { layout, compression = 'none' }: Extract<Format, { kind: 'arrow' }>,
  schema: arrow.Schema,
  output: OutputFiles,
): Encoder {
  const encoder = new ArrowEncoder(schema, { layout, compression });
  return {
    write: (batch) => output.write(encoder.write(batch)),
    finish: () => output.write(encoder.finish()),
    abort: async () => undefined,
  };
}

const compressions = {
  snappy: parquet.Compression.SNAPPY,
  zstd: parquet.Compression.ZSTD,
  gzip: parquet.Compression.GZIP,
  lz4: parquet.Compression.LZ4_RAW,
  none: parquet.Compression.UNCOMPRESSED,
} as const;

function parquetEncoder(
  { compression }: Extract<Format, { kind: 'parquet' }>,
  schema: arrow.Schema,
  output: OutputFiles,
  groupBytes: number,
): Encoder {
  const batches = new TransformStream<parquet.RecordBatch, parquet.RecordBatch>();
  const writer = batches.writable.getWriter();
  const properties = new parquet.WriterPropertiesBuilder()
    .setCompression(compressions[compression])
    .setMaxRowGroupSize(batchRowsMax)
    .setMaxRowGroupBytes(Math.max(1, Math.floor(groupBytes)))
    .build();
  const written = (async () => {
    const file = (await parquet.transformParquetStream(batches.readable, properties)) as ReadableStream<Uint8Array>;
    for await (const part of file) await output.write([part]);
  })();
  written.catch((error: unknown) => writer.abort(error).catch(() => undefined));
  const send = async (batch: arrow.RecordBatch) => {
    const ipc = new ArrowEncoder(schema, { layout: 'stream', compression: 'none' });
    const table = parquet.Table.fromIPCStream(Buffer.concat([...ipc.write(batch), ...ipc.finish()]));
    try {
      // A failure of the output is the reason if the batch is not taken.
      for (const part of table.recordBatches()) await Promise.race([writer.write(part), written]);
    } finally {
      table.free();
    }
  };
  return {
    write: send,
    async finish() {
      await Promise.race([writer.close(), written]);
      await written;
    },
    async abort() {
      await writer.abort(new Error('the export has ended')).catch(() => undefined);
      await written.catch(() => undefined);
    },
  };
}
