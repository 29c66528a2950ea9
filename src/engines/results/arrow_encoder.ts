// Encodes batches of rows as an Arrow IPC file or stream. The caller writes the bytes.
import { constants, zstdCompressSync } from 'node:zlib';
import * as arrow from 'apache-arrow';

// Each buffer of a batch is compressed by itself.
arrow.compressionRegistry.set(arrow.CompressionType.ZSTD, {
  encode: (buffer) => zstdCompressSync(buffer, { params: { [constants.ZSTD_c_compressionLevel]: 1 } }),
});

/** Collects the bytes that the Arrow writer produces. */
class OutputBuffer extends arrow.AsyncByteQueue {
  #parts: Uint8Array[] = [];

  override write(part: ArrayBufferView): void {
    this.#parts.push(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
  }

  takeAll(): Uint8Array[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }
}

/**
 * Before each compressed buffer, apache-arrow 21.2 writes the compressed length, where the format requires the uncompressed one and other
 * readers fail. A negative length marks a buffer that compression would enlarge.
 */
function withUncompressedLengths<C extends { readonly buffers: ArrayBufferView[] }>(
  compressed: C,
  buffers: readonly ArrayBufferView[],
): C {
  for (const [i, { byteLength }] of buffers.entries()) {
    const prefix = compressed.buffers[i * 2];
    if (prefix === undefined || prefix.byteLength === 0) continue;
    const length = new DataView(prefix.buffer, prefix.byteOffset);
    if (length.getBigInt64(0, true) >= 0n) length.setBigInt64(0, BigInt(byteLength), true);
  }
  return compressed;
}

class FileWriter extends arrow.RecordBatchFileWriter {
  protected override _compressBodyBuffers(buffers: ArrayBufferView[]) {
    return withUncompressedLengths(super._compressBodyBuffers(buffers), buffers);
  }
}

class StreamWriter extends arrow.RecordBatchStreamWriter {
  protected override _compressBodyBuffers(buffers: ArrayBufferView[]) {
    return withUncompressedLengths(super._compressBodyBuffers(buffers), buffers);
  }
}

export interface ArrowLayout {
  readonly layout: 'file' | 'stream';
  readonly compression: 'none' | 'zstd';
}

export class ArrowEncoder {
  readonly #writer: arrow.RecordBatchWriter;
  readonly #output = new OutputBuffer();

  constructor(schema: arrow.Schema, { layout, compression }: ArrowLayout) {
    const options = { compressionType: compression === 'zstd' ? arrow.CompressionType.ZSTD : null };
    this.#writer = new (layout === 'file' ? FileWriter : StreamWriter)(options);
    this.#writer.reset(this.#output, schema);
  }

  write(batch: arrow.RecordBatch): Uint8Array[] {
    this.#writer.write(batch);
    return this.#output.takeAll();
  }

  /** The rest of the bytes. */
  finish(): Uint8Array[] {
    this.#writer.finish();
    return this.#output.takeAll();
  }
}
