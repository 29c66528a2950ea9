// No body of any size or shape holds the event loop: the main thread's own processor time between two of its turns stays small, for
// every endpoint that takes a body. Sampled within a time budget; TEST_SEED replays a sample, the soak runs all of it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Budget } from '../budget.ts';
import { Random, seedFrom } from '../faults/random.ts';
import { shapes } from '../http/hostile_bodies.ts';
import { type ServerProcess, startProcess } from '../server.ts';
import { nameOf, operations, pathOf } from './operation_call.ts';

/** 50 ms on a quiet machine; a processor that others use too is slower by what its caches lose. */
const heldMsMax = 50;
const sampleSeconds = 12;
/** Just below what the main thread parses itself; the largest body of most endpoints; that of one with rows. */
const sizes = { inline: 250_000, large: 4_100_000, rows: 64_000_000 };
const seed = seedFrom('TEST_SEED');

let server: ServerProcess;
let slowness = 1;
const params = { catalog: 'default', database: 'loop', table: 't', warehouseName: 'default', user: 'root' };

/** Processor time of a fixed piece of work, over what it takes on a quiet machine of the size that the limit is meant for. */
function measuredSlowness(): number {
  const text = `[${Array.from({ length: 40_000 }, (_, i) => `{"a":${i},"b":"x"}`).join()}]`;
  const times = Array.from({ length: 5 }, () => {
    const started = process.threadCpuUsage();
    JSON.parse(text);
    return process.threadCpuUsage(started).user / 1000;
  });
  return Math.max(1, Math.max(...times) / 12);
}

/** Tries of one body: what it costs comes each time, a collection of garbage that fell due in one of them does not. */
const triesMax = 3;

/** Sends a body until the main thread was held no longer than it may be; the last answer's status and the least time held. */
async function leastHeld(send: () => Promise<{ status: number }>): Promise<{ status: number; ms: number }> {
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 1; ; tries++) {
    await longestMs();
    const { status } = await send();
    least = Math.min(least, await longestMs());
    if (least < heldMsMax * slowness || tries === triesMax) return { status, ms: least };
    // It may have become slower since.
    slowness = Math.max(slowness, measuredSlowness());
  }
}

function longestMs(): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  server.child.once('message', (ms) => resolve(ms as number));
  server.child.send('longest');
  return promise;
}

before(async () => {
  slowness = measuredSlowness();
  server = await startProcess([], undefined, { preload: new URL('../http/turns_probe.ts', import.meta.url) });
  (await server.put('/api/v2/databases/loop')).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'note', type: 'STRING' },
  ];
  (await server.put('/api/v2/databases/loop/tables/t', { columns })).is(201);
  (await server.query('loop', 'SELECT 1')).is(200);
});
after(() => server.close());

const tested = [
  ...new Map(
    operations
      .filter(({ endpoint, path }) => endpoint.body && !path.startsWith('/api/v2/databases'))
      .map((operation) => [nameOf(operation), operation]),
  ).values(),
];

describe(`bodies that are expensive to read, TEST_SEED=${seed}`, () => {
  const budget = new Budget(sampleSeconds, tested.length);
  for (const [i, operation] of tested.entries()) {
    const { endpoint, method, path } = operation;
    const at = pathOf(path, params);
    const fields = [...Object.keys(endpoint.body?.properties ?? {}), 'unknown'];
    const send = (body: string) => server.send(method.toUpperCase(), at, { body });
    const trials = Object.entries(endpoint.rowsIn === undefined ? { inline: sizes.inline, large: sizes.large } : sizes)
      .flatMap(([size, bytes]) => Object.entries(shapes).map(([shape, make]) => ({ size, bytes, shape, make })))
      .flatMap((trial) => fields.map((field) => ({ ...trial, field })));
    test(nameOf(operation), async () => {
      // What is compiled once for an endpoint is not what its bodies cost.
      await send('{"unknown":1}');
      await send('{}');
      for (const { size, bytes, shape, make, field } of budget.sample(trials, new Random(seed).fork(i))) {
        const body = make(bytes, field);
        const { status, ms } = await leastHeld(() => send(body));
        const what = `${shape} ("${field}", ${size}): ${status}, the main thread was held for ${ms.toFixed(1)} ms`;
        assert.ok(ms < heldMsMax * slowness, `${what}; this machine is slower by ${slowness.toFixed(1)}`);
      }
    });
  }
});

test('rows that are sound are read beside everything else too', async () => {
  const rows = Array.from({ length: 300_000 }, (_, i) => `{"id":${i},"note":"row ${i}"}`).join();
  const { ms } = await leastHeld(async () =>
    (await server.post('/api/v2/databases/loop/tables/t/rows', `{"rows":[${rows}]}`)).is(201, '0', {
      rowCount: 300_000,
    }),
  );
  assert.ok(ms < heldMsMax * slowness, `${ms} ms`);
});
