// A catalog that was renamed and then dropped is detached, and its engine was asked every minute to forget the step of the rename.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { EngineWarehouse } from '../../src/engines/engine.ts';
import { startServer } from '../../src/main.ts';
import { readSettings } from '../../src/settings/read_settings.ts';
import { TestServer } from '../server.ts';

test('steps of a dropped catalog are forgotten when it is restored, and not requested before', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-forget-'));
  const asked: string[] = [];
  const failed: unknown[] = [];
  const watched = (warehouse: EngineWarehouse): EngineWarehouse => {
    const { forget } = warehouse;
    warehouse.forget = async (catalog, steps) => {
      asked.push(catalog.name);
      await forget(catalog, steps).catch((error: unknown) => {
        failed.push(error);
        throw error;
      });
    };
    return warehouse;
  };
  let maintain: () => Promise<void> = async () => undefined;
  const flags = [
    '--data-dir',
    directory,
    '--port',
    '0',
    '--log-level',
    'silent',
    '--warehouse-threads',
    '2',
    '--spare-engine=false',
  ];
  const running = await startServer(readSettings(flags, {}), {
    wrapEngine: (engine) => ({ ...engine, open: (options) => watched(engine.open(options)) }),
    maintained: (all) => {
      maintain = all;
    },
  });
  const server = new TestServer(running, () => running.close());
  t.after(async () => {
    await server.close();
    await rm(directory, { recursive: true, force: true });
  });
  (await server.post('/api/v2/catalogs', { name: 'a' })).is(201);
  (await server.post('/api/v2/catalogs/a/rename', { newName: 'b' })).is(200);
  (await server.delete('/api/v2/catalogs/b')).is(200);
  await maintain();
  assert.deepEqual([failed, asked.includes('b')], [[], false]);
  (await server.post('/api/v2/catalogs/undrop', { name: 'b' })).is(200);
  await maintain();
  assert.deepEqual([failed, asked.includes('b')], [[], true]);
});
