// How long a request blocks the event loop of a server: the processor time of its main thread between two turns, compared with a
// limit for a quiet machine. The server is a process with http/bodies/turns_probe.ts preloaded.
import assert from 'node:assert/strict';
import { type ServerProcess, startProcess } from '../server.ts';

/** 50 ms on a quiet machine; a shared processor is slower because its caches are shared. */
const heldMsMax = 50;
/** Tries of one request: the cost of the request recurs, a garbage collection that happens during one of them does not. */
const triesMax = 3;
const referenceMs = 12;

export const startProbed = (): Promise<ServerProcess> =>
  startProcess([], undefined, { preload: new URL('../http/bodies/turns_probe.ts', import.meta.url) });

/**
 * The processor time of a fixed piece of work, relative to a quiet machine of the size that the limit is for. The minimum of
 * several runs, like the minimum of several tries of a request.
 */
function measuredSlowness(): number {
  const text = `[${Array.from({ length: 40_000 }, (_, i) => `{"a":${i},"b":"x"}`).join()}]`;
  const times = Array.from({ length: 5 }, () => {
    const started = process.threadCpuUsage();
    JSON.parse(text);
    return process.threadCpuUsage(started).user / 1000;
  });
  return Math.max(1, Math.min(...times) / referenceMs);
}

/** Sends a request until it blocks the main thread no longer than allowed. Throws if no try does. */
export async function requireLoopFree<R extends { readonly status: number }>(
  server: ServerProcess,
  description: string,
  send: () => Promise<R>,
): Promise<R> {
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 1; ; tries++) {
    await longestMs(server);
    const reply = await send();
    least = Math.min(least, await longestMs(server));
    if (least < heldMsMax) return reply;
    // Measured at the same time as the request, because the speed of the machine may have changed.
    const slowness = measuredSlowness();
    if (least < heldMsMax * slowness) return reply;
    const problem = `${description}: ${reply.status}, the main thread was held for ${least.toFixed(1)} ms`;
    assert.ok(tries < triesMax, `${problem}; this machine is slower by ${slowness.toFixed(1)}`);
  }
}

function longestMs({ child }: ServerProcess): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  child.once('message', (ms) => resolve(ms as number));
  child.send('longest');
  return promise;
}
