// Reads a stream of bytes in chunks; not every browser iterates streams.
import { errorOf, type TabulariumError } from './errors.ts';

/** Throws NO_ANSWER when the stream fails. */
export async function* chunksOfStream(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, undefined> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw lostConnection(cause);
      });
      if (done) return undefined;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export const lostConnection = (cause?: unknown): TabulariumError =>
  errorOf('NO_ANSWER', { status: 0, message: 'the stream of a file ended before its last byte', cause });
