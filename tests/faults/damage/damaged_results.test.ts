// A damaged file other than the store and the catalogs affects nothing else: a truncated result is expired, and invalid lines in
// the journal of the audit trail do not prevent a start.
import assert from 'node:assert/strict';
import { appendFileSync, readdirSync, truncateSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { start, uri } from '../../server.ts';

test('truncated results are expired, invalid lines of the journal are skipped', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'tabularium-results-'));
  t.after(() => rm(dataDir, { recursive: true, force: true }));
  let server = await start({ dataDir });
  await server.client.databases.create({ name: 'd' });
  const sql = 'SELECT range AS i FROM range(1000)';
  const submitted = (await server.post('/api/v2/databases/d/query', { sql, waitSeconds: 0 })).is(202);
  const page = uri`/tasks/${submitted.at<string>('taskId')}/pages/0`;
  (await server.ended(submitted)).is(200, '0', { state: 'succeeded' });
  (await server.get(page)).is(200);
  await server.close();
  const results = join(dataDir, 'results');
  const names = readdirSync(results);
  assert.equal(names.length, 2);
  for (const name of names) truncateSync(join(results, name), 10);
  appendFileSync(join(dataDir, 'audit.journal'), 'null\n1\n{"sequence":"x"}\n');
  server = await start({ dataDir });
  (await server.get(page)).is(400, 'RESULT_EXPIRED');
  (await server.query('d', sql)).is(200);
  await server.close();
});
