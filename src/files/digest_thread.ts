// The thread that works out digests of files that are written (digests.ts): reads what was just written, which the system still has in
// memory, as far as it is told. Nothing here is imported by others.
import { createHash, type Hash } from 'node:crypto';
import { readSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import type { DigestReply, DigestRequest, FileDigests } from './digests.ts';

interface Running {
  bytes: number;
  readonly whole: Hash;
  part: Hash | undefined;
}

/** Files that broke off, and may go on without being read again. */
const runningMax = 200;
const buffer = Buffer.allocUnsafe(1024 * 1024);
const all = new Map<string, Running>();

/** How far it is known; from the beginning where that is not `offset`. */
function begin(key: string, offset: number): number {
  const known = all.get(key);
  const running = known?.bytes === offset ? known : { bytes: 0, whole: createHash('sha256'), part: undefined };
  running.part = undefined;
  all.delete(key);
  if (all.size >= runningMax) all.delete(all.keys().next().value as string);
  all.set(key, running);
  return running.bytes;
}

function advance(running: Running, fd: number, to: number): void {
  while (running.bytes < to) {
    const count = readSync(fd, buffer, 0, Math.min(buffer.length, to - running.bytes), running.bytes);
    if (count === 0) throw new Error('a file is shorter than what was written');
    const piece = buffer.subarray(0, count);
    running.whole.update(piece);
    running.part?.update(piece);
    running.bytes += count;
  }
}

function answer(asked: DigestRequest): number | FileDigests | undefined {
  if (asked.kind === 'begin') return begin(asked.key, asked.offset);
  if (asked.kind === 'forget') {
    all.delete(asked.key);
    return undefined;
  }
  const running = all.get(asked.key);
  if (!running) throw new Error('the digest of a file was given up');
  if (asked.kind === 'result') return { whole: running.whole.copy().digest('hex'), part: running.part?.digest('hex') };
  if (asked.kind === 'advance') advance(running, asked.fd, asked.to);
  else running.part = createHash('sha256');
  return undefined;
}

parentPort?.on('message', ({ id, asked }: { id: number; asked: DigestRequest }) => {
  const tell = (answered: DigestReply) => parentPort?.postMessage(answered);
  try {
    tell({ id, value: answer(asked) });
  } catch (error) {
    tell({ id, fault: String(error) });
  }
});
