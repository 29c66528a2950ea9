// A round of the periodic maintenance that was running when the server stopped found the store closed: the log had an error at the
// shutdown, and the round ended half done.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { start } from '../../server.ts';

/** Longer than the rest of the shutdown takes once the engine has ended. */
const lateMs = 300;

test('the store stays open until the running maintenance has ended', async (t) => {
  const forgetting = Promise.withResolvers<void>();
  const engineEnded = Promise.withResolvers<void>();
  const events: string[] = [];
  const late = (warehouse: EngineWarehouse): EngineWarehouse => {
    const { forget, stop } = warehouse;
    warehouse.forget = async (catalog, steps) => {
      await forget(catalog, steps);
      forgetting.resolve();
      await engineEnded.promise;
      await pause(lateMs);
    };
    warehouse.stop = () => stop().finally(engineEnded.resolve);
    return warehouse;
  };
  let maintain: () => Promise<void> = async () => undefined;
  const server = await start(
    { logLevel: 'silent' },
    {
      wrapEngine: (engine) => ({ ...engine, open: (options) => late(engine.open(options)) }),
      maintained: (all) => {
        maintain = all;
      },
    },
  );
  t.after(() => server.close());
  await server.client.catalogs.create({ name: 'a' });
  (await server.post('/api/v2/catalogs/a/rename', { newName: 'b' })).is(200);
  const maintained = maintain().then(() => events.push('maintained'));
  await forgetting.promise;
  await server.close();
  events.push('closed');
  await maintained;
  assert.deepEqual(events, ['maintained', 'closed']);
});
