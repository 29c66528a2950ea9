// A catalog that was renamed and then dropped is detached, but its engine was requested every minute to forget the step of the rename.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { start } from '../../server.ts';

test('steps of a dropped catalog are forgotten when it is restored, and not requested before', async (t) => {
  const askedSteps: string[] = [];
  const failed: unknown[] = [];
  const watched = (warehouse: EngineWarehouse): EngineWarehouse => {
    const { forget } = warehouse;
    warehouse.forget = async (catalog, steps) => {
      askedSteps.push(catalog.name);
      await forget(catalog, steps).catch((error: unknown) => {
        failed.push(error);
        throw error;
      });
    };
    return warehouse;
  };
  let maintain: () => Promise<void> = async () => undefined;
  const server = await start(
    { logLevel: 'silent' },
    {
      wrapEngine: (engine) => ({ ...engine, open: (options) => watched(engine.open(options)) }),
      maintained: (all) => {
        maintain = all;
      },
    },
  );
  t.after(() => server.close());
  await server.client.catalogs.create({ name: 'a' });
  (await server.post('/api/v2/catalogs/a/rename', { newName: 'b' })).is(200);
  await server.client.catalogs('b').delete();
  await maintain();
  assert.deepEqual([failed, askedSteps.includes('b')], [[], false]);
  (await server.post('/api/v2/catalogs/undrop', { name: 'b' })).is(200);
  await maintain();
  assert.deepEqual([failed, askedSteps.includes('b')], [[], true]);
});
