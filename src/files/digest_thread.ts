// The worker thread of digests.ts: reads what was just written, which the operating system still has in memory, up to the given
// position. Not imported by any other file.
import { createHash, type Hash } from 'node:crypto';
import { readSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import type { DigestReply, DigestRequest, FileDigests } from './digests.ts';

interface DigestState {
  bytes: number;
  readonly whole: Hash;
  part: Hash | undefined;
}

/** Digests of interrupted uploads are retained, so that these can continue without being read again. */
const digestsMax = 200;
const buffer = Buffer.allocUnsafe(1024 * 1024);
const digests = new Map<string, DigestState>();

/** Returns up to which byte the digest is computed: `offset`, or 0 if it has to be computed again. */
function begin(key: string, offset: number): number {
  const known = digests.get(key);
  const running = known?.bytes === offset ? known : { bytes: 0, whole: createHash('sha256'), part: undefined };
  running.part = undefined;
  digests.delete(key);
  if (digests.size >= digestsMax) digests.delete(digests.keys().next().value as string);
  digests.set(key, running);
  return running.bytes;
}

function advance(running: DigestState, fd: number, to: number): void {
  while (running.bytes < to) {
    const count = readSync(fd, buffer, 0, Math.min(buffer.length, to - running.bytes), running.bytes);
    if (count === 0) throw new Error('a file is shorter than what was written');
    const piece = buffer.subarray(0, count);
    running.whole.update(piece);
    running.part?.update(piece);
    running.bytes += count;
  }
}

function handle(request: DigestRequest): number | FileDigests | undefined {
  if (request.kind === 'begin') return begin(request.key, request.offset);
  if (request.kind === 'forget') {
    digests.delete(request.key);
    return undefined;
  }
  const running = digests.get(request.key);
  if (!running) throw new Error('the digest of a file was discarded');
  if (request.kind === 'result')
    return { whole: running.whole.copy().digest('hex'), part: running.part?.digest('hex') };
  if (request.kind === 'advance') advance(running, request.fd, request.to);
  else running.part = createHash('sha256');
  return undefined;
}

parentPort?.on('message', ({ id, request }: { id: number; request: DigestRequest }) => {
  const reply = (message: DigestReply) => parentPort?.postMessage(message);
  try {
    reply({ id, value: handle(request) });
  } catch (error) {
    reply({ id, fault: String(error) });
  }
});
