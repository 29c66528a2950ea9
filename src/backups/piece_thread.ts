// The worker thread that cuts pieces out of files (see pieces.ts): copies a range to a new file and computes its digest. Not imported by
// other files.
import { createHash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import type { CutAnswer, CutRequest } from './pieces.ts';

const buffer = Buffer.allocUnsafe(1024 * 1024);

/** @returns the digest, in hexadecimal. */
function cut({ from, start, bytes, to }: CutRequest): string {
  const source = typeof from === 'number' ? from : openSync(from, 'r');
  const target = openSync(to, 'wx', 0o600);
  const hash = createHash('sha256');
  try {
    for (let done = 0; done < bytes; ) {
      const count = readSync(source, buffer, 0, Math.min(buffer.length, bytes - done), start + done);
      if (count === 0) throw new Error(`the file has ${fstatSync(source).size} bytes, expected ${start + bytes}`);
      const piece = buffer.subarray(0, count);
      hash.update(piece);
      for (let written = 0; written < count; ) written += writeSync(target, piece, written);
      done += count;
    }
    return hash.digest('hex');
  } finally {
    closeSync(target);
    if (typeof from !== 'number') closeSync(source);
  }
}

parentPort?.on('message', ({ id, request }: { id: number; request: CutRequest }) => {
  const answer = (answered: CutAnswer) => parentPort?.postMessage(answered);
  try {
    answer({ id, sha256: cut(request) });
  } catch (error) {
    answer({ id, fault: (error as Error).message, code: (error as NodeJS.ErrnoException).code });
  }
});
