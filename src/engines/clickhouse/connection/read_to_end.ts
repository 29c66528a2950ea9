// Reads a response whose rows are processed while they come. A server that fails in the middle writes its error after the rows, as text, which
// then cannot be read as rows: the error of the server is the one that counts, not that of its reader.
import { finished, type Readable } from 'node:stream';

const errorTextBytesMax = 64 * 1024;
const errorWaitMs = 2000;

/**
 * Gives all bytes to `add`, then returns what `finish` returns. What follows waits while a promise of `add` is pending. The stream is closed in
 * any case. Throws the error with which the stream ends, also if `add` throws on bytes that belong to it; otherwise that of `add` or `finish`.
 */
export async function readToEnd<Result>(
  stream: Readable,
  add: (chunk: Buffer) => Promise<void> | undefined,
  finish: () => Promise<Result>,
): Promise<Result> {
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
  let failure: { readonly error: unknown } | undefined;
  let bytesAfter = 0;
  let timer: NodeJS.Timeout | undefined;
  /** The error with which the stream ends, if it ends soon, is the reason. */
  const fail = (error: unknown) => {
    if (failure || stream.destroyed) return;
    failure = { error };
    timer = setTimeout(() => reject(error), errorWaitMs);
    stream.resume();
  };
  finished(stream, { writable: false }, (error) => {
    if (error) reject(error);
    else if (failure) reject(failure.error);
    else resolve();
  });
  stream.on('data', (chunk: Buffer) => {
    if (failure) {
      bytesAfter += chunk.length;
      if (bytesAfter <= errorTextBytesMax) return;
      stream.pause();
      reject(failure.error);
      return;
    }
    try {
      const added = add(chunk);
      if (!added) return;
      stream.pause();
      added.then(() => stream.resume(), fail);
    } catch (error) {
      fail(error);
    }
  });
  try {
    await ended;
    return await finish();
  } finally {
    clearTimeout(timer);
    stream.destroy();
  }
}
