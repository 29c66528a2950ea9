// Reads manifests without delaying requests: a large one is parsed and validated in a thread of its own, with limits of time and memory,
// because whoever writes to a target decides what it contains.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { Failure } from '../standard/failure.ts';
import { unusableBackup } from './manifest.ts';

/** Parsed within milliseconds. */
const smallBytes = 256 * 1024;
const threadsMax = 2;
const threadMsMax = 60_000;
const threadMemoryMiB = 1024;

export interface ManifestToRead {
  /** Of which of its readers the thread uses one. */
  readonly of: 'catalog' | 'server';
  readonly bytes: Uint8Array;
  readonly backupId: string;
}

export type ManifestAnswer = { readonly read: unknown } | { readonly fault: string };

const { url } = import.meta;
const script = new URL(url.endsWith('.ts') ? './manifest_thread.ts' : './manifest_thread.js', url);

let threads = 0;
/** In the order of their arrival. */
const waiting = new Set<() => void>();

/** `read`: the reader of a small manifest, which the thread has, too. Throws DATA_INVALID. */
export async function readLargeManifest<Read>(
  read: (bytes: Buffer, backupId: string) => Read,
  { of, bytes, backupId }: ManifestToRead & { readonly bytes: Buffer },
  signal?: AbortSignal,
): Promise<Read> {
  if (bytes.length <= smallBytes) return read(bytes, backupId);
  await beginThread(signal);
  try {
    return (await readInThread({ of, bytes, backupId }, signal)) as Read;
  } finally {
    endThread();
  }
}

async function readInThread(workerData: ManifestToRead, signal: AbortSignal | undefined): Promise<unknown> {
  const thread = new Worker(script, { workerData, resourceLimits: { maxOldGenerationSizeMb: threadMemoryMiB } });
  const timeout = AbortSignal.timeout(threadMsMax);
  try {
    const ended = AbortSignal.any([timeout, ...(signal ? [signal] : [])]);
    const [answer] = (await once(thread, 'message', { signal: ended })) as [ManifestAnswer];
    if ('read' in answer) return answer.read;
    throw new Failure('DATA_INVALID', answer.fault);
  } catch (error) {
    if (error instanceof Failure) throw error;
    signal?.throwIfAborted();
    throw unusableBackup('its manifest cannot be read with the time and the memory that one may take');
  } finally {
    await thread.terminate();
  }
}

async function beginThread(signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  if (threads < threadsMax) {
    threads++;
    return;
  }
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const cancel = () => {
    if (waiting.delete(resolve)) reject(signal?.reason);
  };
  waiting.add(resolve);
  signal?.addEventListener('abort', cancel);
  await promise.finally(() => signal?.removeEventListener('abort', cancel));
}

/** The place of a thread that has ended is that of the next one. */
function endThread(): void {
  const [next] = waiting;
  if (!next) {
    threads--;
    return;
  }
  waiting.delete(next);
  next();
}
