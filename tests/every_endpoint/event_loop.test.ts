// No body of any size or shape blocks the event loop: the processor time of the main thread between two turns of the loop stays
// small, for every endpoint that accepts a body. Sampled within a time budget; TEST_SEED replays a sample, and the soak runs all of
// it.
import { after, before, describe, test } from 'node:test';
import { Budget } from '../budget.ts';
import { bodyShapes } from '../http/bodies/hostile_bodies.ts';
import { Random, seedFrom } from '../random.ts';
import type { ServerProcess } from '../server.ts';
import { requireLoopFree, startProbed } from './held_loop.ts';
import { nameOf, operations, pathOf } from './operation_call.ts';

const sampleSeconds = 8;
/** Just below what the main thread parses itself; the maximum for most endpoints; the maximum for endpoints with rows. */
const sizes = { inline: 250_000, large: 4_100_000, rows: 64_000_000 };
const seed = seedFrom('TEST_SEED');

let server: ServerProcess;
const params = { catalog: 'default', database: 'loop', table: 't', warehouseName: 'default', user: 'root' };

before(async () => {
  server = await startProbed();
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

describe(`bodies that are expensive to parse, TEST_SEED=${seed}`, () => {
  const budget = new Budget(sampleSeconds, tested.length);
  for (const [i, operation] of tested.entries()) {
    const { endpoint, method, path } = operation;
    const target = pathOf(path, params);
    const fields = [...Object.keys(endpoint.body?.properties ?? {}), 'unknown'];
    const send = (body: string) => server.send(method.toUpperCase(), target, { body });
    const trials = Object.entries(endpoint.rowsIn === undefined ? { inline: sizes.inline, large: sizes.large } : sizes)
      .flatMap(([size, bytes]) => Object.entries(bodyShapes).map(([shape, make]) => ({ size, bytes, shape, make })))
      .flatMap((trial) => fields.map((field) => ({ ...trial, field })));
    test(nameOf(operation), async () => {
      // Compiling the validators of an endpoint is not part of the cost of its bodies.
      await send('{"unknown":1}');
      await send('{}');
      for (const { size, bytes, shape, make: makeBody, field } of budget.sample(trials, new Random(seed).fork(i))) {
        const body = makeBody(bytes, field);
        await requireLoopFree(server, `${shape} ("${field}", ${size})`, () => send(body));
      }
    });
  }
});

test('valid rows are read while other requests are served', async () => {
  const rows = Array.from({ length: 300_000 }, (_, i) => `{"id":${i},"note":"row ${i}"}`).join();
  await requireLoopFree(server, 'sound rows', async () =>
    (await server.post('/api/v2/databases/loop/tables/t/rows', `{"rows":[${rows}]}`)).is(201, '0', {
      rowCount: 300_000,
    }),
  );
});
