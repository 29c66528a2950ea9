// How long a request holds the event loop of a server: the processor time of its main thread between two turns, against a limit for a
// quiet machine. The server is a process with http/turns_probe.ts preloaded.
import assert from 'node:assert/strict';
import { type ServerProcess, startProcess } from '../server.ts';

/** 50 ms on a quiet machine; a processor that others use too is slower by what its caches lose. */
const heldMsMax = 50;
/** Tries of one request: what it costs comes each time, a collection of garbage that fell due in one of them does not. */
const triesMax = 3;
const referenceMs = 12;

export const startProbed = (): Promise<ServerProcess> =>
  startProcess([], undefined, { preload: new URL('../http/turns_probe.ts', import.meta.url) });

/**
 * Processor time of a fixed piece of work, over what it takes on a quiet machine of the size that the limit is meant for. The least of
 * several runs, as the least of several tries is what a request is judged by.
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

/** Sends a request until it holds the main thread no longer than it may. Throws where no try does. */
export async function requireLoopFree<R extends { readonly status: number }>(
  server: ServerProcess,
  what: string,
  send: () => Promise<R>,
): Promise<R> {
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 1; ; tries++) {
    await longestMs(server);
    const reply = await send();
    least = Math.min(least, await longestMs(server));
    if (least < heldMsMax) return reply;
    // Measured beside the request: the machine may have become slower, or faster, since the last one.
    const slowness = measuredSlowness();
    if (least < heldMsMax * slowness) return reply;
    const held = `${what}: ${reply.status}, the main thread was held for ${least.toFixed(1)} ms`;
    assert.ok(tries < triesMax, `${held}; this machine is slower by ${slowness.toFixed(1)}`);
  }
}

function longestMs({ child }: ServerProcess): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  child.once('message', (ms) => resolve(ms as number));
  child.send('longest');
  return promise;
}
