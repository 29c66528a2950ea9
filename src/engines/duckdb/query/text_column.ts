// Reads a column of strings from the engine's vectors as bytes. The engine allocates the strings of a vector one after the other, so that
// many of them are read at once: a JavaScript value for each would take longer than computing them.
import type { DuckDBDataChunk } from '@duckdb/node-api';
import duckdb from '@duckdb/node-bindings';

/** A string in the engine: its length in 4 bytes, then the string itself if it has at most 12 bytes, else its address in the last 8 bytes. */
export const stringBytes = 16;
export const inlineBytesMax = 12;
export const addressOffset = 8;
const inlineOffset = 4;
const wordsPerString = stringBytes / 4;

/** The strings of the first column, without nulls, joined. The parts are valid as long as the chunk is. */
export function* joinedStrings({ chunk, rowCount }: DuckDBDataChunk): Generator<Uint8Array> {
  const data = duckdb.vector_get_data(duckdb.data_chunk_get_vector(chunk, 0), rowCount * stringBytes);
  const buffer = data.buffer as ArrayBuffer;
  const words = new Uint32Array(buffer, data.byteOffset, rowCount * wordsPerString);
  for (let item = 0; item < rowCount; ) {
    const word = item * wordsPerString;
    const offset = item * stringBytes;
    let bytes = words[word] as number;
    item++;
    if (bytes <= inlineBytesMax) {
      yield data.subarray(offset + inlineOffset, offset + inlineOffset + bytes);
      continue;
    }
    const start = addressAt(words, word);
    for (; item < rowCount; item++) {
      const next = item * wordsPerString;
      const nextBytes = words[next] as number;
      if (nextBytes <= inlineBytesMax || addressAt(words, next) !== start + bytes) break;
      bytes += nextBytes;
    }
    yield duckdb.get_data_from_pointer(buffer, data.byteOffset + offset + addressOffset, bytes);
  }
}

/** Addresses have fewer than 53 bits. A bigint for each row would be garbage that takes a tenth of the time of a large result. */
function addressAt(words: Uint32Array, word: number): number {
  return (words[word + 3] as number) * 2 ** 32 + (words[word + 2] as number);
}

/** The length of the last string of the first column. */
export function lastStringBytes({ chunk, rowCount }: DuckDBDataChunk): number {
  const data = duckdb.vector_get_data(duckdb.data_chunk_get_vector(chunk, 0), rowCount * stringBytes);
  return new DataView(data.buffer, data.byteOffset).getUint32((rowCount - 1) * stringBytes, true);
}
