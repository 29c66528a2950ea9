// The worker thread that reads one large manifest (see manifest_reader.ts). Not imported by other files.
import { parentPort, workerData } from 'node:worker_threads';
import { Failure } from '../standard/failure.ts';
import { readManifest } from './manifest.ts';
import type { ManifestAnswer, ManifestToRead } from './manifest_reader.ts';
import { readServerManifest } from './server/server_manifest.ts';

const { of, bytes, backupId } = workerData as ManifestToRead;
const read = { catalog: readManifest, server: readServerManifest }[of];
let answer: ManifestAnswer;
try {
  answer = { read: read(Buffer.from(bytes), backupId) };
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  answer = { fault: error.message };
}
parentPort?.postMessage(answer);
