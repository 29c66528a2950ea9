// The worker thread that converts the rows of exports to files, one export at a time (see conversion_threads.ts). Other modules do not
// import this file.
import { setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { Failure } from '../../../standard/failure.ts';
import { isFullDisk } from '../../../store/disk_space.ts';
import type { ThreadAnswer, ThreadRequest } from './conversion.ts';
import { FileConversion } from './file_conversion.ts';

/** Exports yield to the main thread, which answers all requests. */
const niceness = 5;
// On Linux 0 means this thread; elsewhere it means the whole process.
if (process.platform === 'linux') setPriority(0, niceness);

let conversion: FileConversion | undefined;

async function answerTo(request: ThreadRequest): Promise<ThreadAnswer | undefined> {
  if (request.kind === 'begin') {
    conversion = new FileConversion(request.request);
    return undefined;
  }
  if (!conversion) return undefined;
  if (request.kind === 'rows') {
    await conversion.add(Buffer.from(request.rows.buffer));
    return { kind: 'taken' };
  }
  const files = await conversion.finish();
  conversion = undefined;
  return { kind: 'files', files };
}

async function failureOf(error: unknown): Promise<ThreadAnswer> {
  await conversion?.close();
  conversion = undefined;
  if (error instanceof Failure) {
    const { code, message, result, outcome } = error;
    return { kind: 'failure', code, message, result, outcome };
  }
  if (isFullDisk(error)) {
    const message = 'the disk of the service is full';
    return { kind: 'failure', code: 'STORAGE_FULL', message, result: {}, outcome: 'notApplied' };
  }
  return { kind: 'fault', text: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

let before: Promise<void> = Promise.resolve();
parentPort?.on('message', (request: ThreadRequest) => {
  before = before.then(async () => {
    const answer = await answerTo(request).catch(failureOf);
    if (answer) parentPort?.postMessage(answer);
  });
});
