// Reads a column of strings from the engine's vectors as bytes. The engine allocates the strings of a vector one after the other, so that
// many of them are read at once: a JavaScript value for each would take longer than computing them.
import type { DuckDBDataChunk } from '@duckdb/node-api';
import duckdb from '@duckdb/node-bindings';

/** A string in the engine: its length in 4 bytes, then the string itself if it has at most 12 bytes, else its address in the last 8 bytes. */
export const stringBytes = 16;
export const inlineBytesMax = 12;
export const addressOffset = 8;
const inlineOffset = 4;

/** The strings of the first column, without nulls, joined. The parts are valid as long as the chunk is. */
export function* joinedStrings({ chunk, rowCount }: DuckDBDataChunk): Generator<Uint8Array> {
  const data = duckdb.vector_get_data(duckdb.data_chunk_get_vector(chunk, 0), rowCount * stringBytes);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  for (let item = 0; item < rowCount; ) {
    const offset = item * stringBytes;
    let bytes = view.getUint32(offset, true);
    item++;
    if (bytes <= inlineBytesMax) {
      yield data.subarray(offset + inlineOffset, offset + inlineOffset + bytes);
      continue;
    }
    const start = view.getBigUint64(offset + addressOffset, true);
    for (; item < rowCount; item++) {
      const next = item * stringBytes;
      const nextBytes = view.getUint32(next, true);
      if (nextBytes <= inlineBytesMax) break;
      if (view.getBigUint64(next + addressOffset, true) !== start + BigInt(bytes)) break;
      bytes += nextBytes;
    }
    yield duckdb.get_data_from_pointer(data.buffer as ArrayBuffer, data.byteOffset + offset + addressOffset, bytes);
  }
}

/** The length of the last string of the first column. */
export function lastStringBytes({ chunk, rowCount }: DuckDBDataChunk): number {
  const data = duckdb.vector_get_data(duckdb.data_chunk_get_vector(chunk, 0), rowCount * stringBytes);
  return new DataView(data.buffer, data.byteOffset).getUint32((rowCount - 1) * stringBytes, true);
}
