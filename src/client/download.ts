// Downloads of files by their signed links, as streams that continue after a lost connection.
import { chunksOfStream, lostConnection } from './byte_stream.ts';
import { TabulariumError } from './errors.ts';
import { type Sender, sleep } from './transport.ts';
import type { TransferProgress } from './upload.ts';

export interface DownloadOptions {
  readonly onProgress?: ((progress: TransferProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How often in a row a connection is lost before any byte arrives. */
const repeatsMax = 6;
const pauseMs = 100;

/** The bytes of a file. `link`: as it is in the result of a task or of a query, or in the record of an upload. */
export function download(sender: Sender, link: string, options: DownloadOptions): ReadableStream<Uint8Array> {
  const chunks = chunksOf(sender, link, options);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await chunks.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

async function* chunksOf(
  sender: Sender,
  link: string,
  { onProgress, signal }: DownloadOptions,
): AsyncGenerator<Uint8Array, undefined> {
  let bytes = 0;
  let etag = '';
  for (let repeats = 0; ; ) {
    const before = bytes;
    try {
      const range = bytes === 0 ? {} : { range: `bytes=${bytes}-`, 'if-range': etag };
      const response = await sender.download(link, signal, range);
      if (bytes > 0 && response.status !== 206)
        throw new TypeError('the file has changed, or its server sends no parts of it');
      etag = response.headers.get('etag') ?? '';
      const length = Number(response.headers.get('content-length') ?? Number.NaN);
      const total = Number.isNaN(length) ? undefined : bytes + length;
      onProgress?.({ bytes, total });
      for await (const chunk of response.body ? chunksOfStream(response.body) : []) {
        bytes += chunk.length;
        onProgress?.({ bytes, total });
        yield chunk;
      }
      if (total === undefined || bytes >= total) return undefined;
      throw lostConnection();
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      repeats = bytes > before ? 0 : repeats + 1;
      if (!isTransient(error) || repeats > repeatsMax) throw error;
      await sleep(pauseMs * 2 ** repeats, signal);
    }
  }
}

const isTransient = (error: unknown): boolean =>
  error instanceof TabulariumError && (error.status === 0 || error.status === 503);
