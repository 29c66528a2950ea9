// Reads manifests without delaying requests: a large one is parsed and validated in a thread of its own, with limits of time and memory,
// because whoever writes to a target decides what it contains.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { Failure } from '../standard/failure.ts';
import { type ReadManifest, readManifest, unusableBackup } from './manifest.ts';

/** Parsed within milliseconds. */
const smallBytes = 256 * 1024;
const threadMsMax = 60_000;
const threadMemoryMiB = 1024;

export interface ManifestToRead {
  readonly bytes: Uint8Array;
  readonly backupId: string;
}

export type ManifestAnswer = { readonly read: ReadManifest } | { readonly fault: string };

const { url } = import.meta;
const script = new URL(url.endsWith('.ts') ? './manifest_thread.ts' : './manifest_thread.js', url);

/** Throws DATA_INVALID. */
export async function readLargeManifest(bytes: Buffer, backupId: string, signal?: AbortSignal): Promise<ReadManifest> {
  if (bytes.length <= smallBytes) return readManifest(bytes, backupId);
  const workerData: ManifestToRead = { bytes, backupId };
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
