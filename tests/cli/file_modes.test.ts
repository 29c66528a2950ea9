// Every file that a server and its engine write is readable by their user only, whatever umask they are started with.
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startProcess } from '../server.ts';

test('files are created 0600 and directories 0700', async (t) => {
  const before = process.umask(0o000);
  t.after(() => process.umask(before));
  const server = await startProcess();
  t.after(() => server.close());
  process.umask(before);
  await server.client.databases.create({ name: 'd' });
  await server.client
    .databases('d')
    .tables.create({ name: 't', columns: [{ name: 'id', type: 'INT' }] })
    .done();
  await server.client
    .databases('d')
    .tables('t')
    .rows.create({ rows: [[1], [2]] });
  const { link } = (await server.post('/api/v2/uploads', { name: 'rows.csv' })).is(201).result as { link: string };
  assert.ok((await server.send('PUT', link, { body: 'id\n1\n' })).status < 300);
  await server.ended(await server.query('d', 'SELECT * FROM range(200000)', { waitSeconds: 0 }));

  const entries = readdirSync(server.dataDirectory, { recursive: true, encoding: 'utf8' });
  for (const kind of [
    /^metadata\.sqlite$/,
    /^metadata\.sqlite-wal$/,
    /\.duckdb$/,
    /\.duckdb\.wal$/,
    /^files\/./,
    /^results\/./,
  ])
    assert.ok(
      entries.some((path) => kind.test(path)),
      `nothing is at ${kind}: ${entries}`,
    );
  const open = entries.filter((path) => (statSync(join(server.dataDirectory, path)).mode & 0o077) !== 0);
  assert.deepEqual(open, []);
});
