// Reads a response whose rows are processed while they come. A server that fails in the middle writes its error after the rows, as text, which
// then cannot be read as rows: the error of the server is the one that counts, not that of its reader.
import type { Readable } from 'node:stream';

const errorTextBytesMax = 64 * 1024;
const errorWaitMs = 2000;

/**
 * Gives all bytes to `add`, then returns what `finish` returns. The stream is closed in any case. Throws the error with which the stream ends, also
 * if `add` throws on bytes that belong to it; otherwise that of `add` or `finish`.
 */
export async function readToEnd<Result>(
  stream: Readable,
  add: (chunk: Buffer) => Promise<void>,
  finish: () => Promise<Result>,
): Promise<Result> {
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) await add(chunk as Buffer);
    return await finish();
  } catch (error) {
    throw (await errorAtEnd(stream)) ?? error;
  } finally {
    stream.destroy();
  }
}

/** The error with which the stream ends, if it ends soon. */
async function errorAtEnd(stream: Readable): Promise<unknown> {
  let bytes = 0;
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    stream.destroy();
  }, errorWaitMs);
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
      bytes += (chunk as Buffer).length;
      if (bytes > errorTextBytesMax) return undefined;
    }
    return undefined;
  } catch (error) {
    return isLate ? undefined : error;
  } finally {
    clearTimeout(timer);
  }
}
