// A platform without the programs that confine: the engine starts all the same, which is logged, and does not where confinement is required.
// In a file of its own, because a process asks its platform once.
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

  const strict = await start({ engineConfinement: 'required', logLevel: 'silent' });
  (await strict.put('/api/v2/databases/d')).is(503, 'WAREHOUSE_FAILED');
  await strict.close();
});
