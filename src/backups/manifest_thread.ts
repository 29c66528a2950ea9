// The worker thread that reads one large manifest (see manifest_reader.ts). Not imported by other files.
import { parentPort, workerData } from 'node:worker_threads';
import { Failure } from '../standard/failure.ts';
import { readManifest } from './manifest.ts';
import type { ManifestAnswer, ManifestToRead } from './manifest_reader.ts';

const { bytes, backupId } = workerData as ManifestToRead;
let answer: ManifestAnswer;
try {
  answer = { read: readManifest(Buffer.from(bytes), backupId) };
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  answer = { fault: error.message };
}
parentPort?.postMessage(answer);
