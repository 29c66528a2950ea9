// A request with an idempotency key that is refused before its key is looked up: an earlier attempt may have been applied.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { start } from '../../server.ts';

test('a request for whose body there is no memory may have been applied if its key is in use', async (t) => {
  const begun = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  let isHolding = false;
  const holding = (engine: EngineWarehouse): EngineWarehouse =>
    engineWith(engine, {
      async insertRows(...parameters: Parameters<EngineWarehouse['insertRows']>) {
        if (isHolding) {
          begun.resolve();
          await held.promise;
        }
        return engine.insertRows(...parameters);
      },
    });
  const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => holding(engine.open(options)) });
  const server = await start({ largeBodiesBytesMax: 1024 * 1024 }, { wrapEngine });
  t.after(async () => {
    held.resolve();
    await server.close();
  });
  (await server.put('/api/v2/databases/d')).is(201);
  (await server.put('/api/v2/databases/d/tables/t', { columns: [{ name: 'a', type: 'INT' }] })).is(201);
  const rows = '/api/v2/databases/d/tables/t/rows';
  // One caller may use half of the memory for large bodies.
  const body = { rows: Array.from({ length: 80_000 }, () => [1]) };
  const insert = (key: string) => server.request('POST', rows, { headers: { 'x-service-idempotency-key': key }, body });
  (await insert('used')).is(201);
  isHolding = true;
  const holder = server.post(rows, body);
  await begun.promise;
  (await insert('used')).is(503, 'SERVER_BUSY', { outcome: 'unknown' });
  (await insert('new')).is(503, 'SERVER_BUSY', { outcome: 'notApplied' });
  held.resolve();
  (await holder).is(201);
  const again = await insert('used');
  assert.equal(again.is(201).headers['x-service-idempotent-replay'], 'true');
});
