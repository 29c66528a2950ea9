// Rows that were inserted just before a crash were in the table, but not in its statistics until something else was written.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { startProcess } from '../../server.ts';

const table = '/api/v2/databases/d/tables/t';

test('statistics are correct after a crash too', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-statistics-'));
  const killed = await startProcess([], directory);
  await killed.client.databases.create({ name: 'd' });
  (await killed.put(table, { columns: [{ name: 'id', type: 'INT' }] })).is(201);
  (await killed.post(`${table}/rows`, { rows: [[1], [2], [3]] })).is(201);
  killed.child.kill('SIGKILL');
  await killed.exited;
  const server = await startProcess([], directory);
  t.after(async () => {
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  });
  // The engine starts when it is first needed.
  (await server.query('d', 'SELECT 1')).is(200);
  const rowCount = async () => (await server.get(table)).is(200).at('statistics', 'rowCount');
  await eventually('three rows are counted', async () => (await rowCount()) === 3);
});
