// A platform without the programs that confine: the engine starts unconfined, which is logged, unless confinement is required.
// In a separate file, because a process tries its platform only once.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { start } from '../server.ts';

const path = process.env.PATH;
after(() => {
  process.env.PATH = path;
});

test('without the programs, an engine starts unless confinement is required', async () => {
  process.env.PATH = '/nonexistent';
  const server = await start();
  await server.client.databases.create({ name: 'd' });
  assert.deepEqual(await server.rows('d', 'SELECT 1'), [[1]]);
  await server.close();

  const strictServer = await start({ engineConfinement: 'required', logLevel: 'silent' });
  (await strictServer.put('/api/v2/databases/d')).is(503, 'WAREHOUSE_FAILED');
  await strictServer.close();
});
