// A path in place of a table was refused only if it began with the data directory. A relative path, one from `~`, or one whose text
// continued in a second string literal was not refused: its file was opened for its columns, which the error listed.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
let file: string;
before(async () => {
  server = await start();
  await server.client.databases.create({ name: 'd' });
  // Like a catalog of a suspended warehouse.
  file = join(server.dataDirectory, 'catalogs', '01a1fccf-0000-7000-8000-00000000c0de.duckdb');
  const instance = await DuckDBInstance.create(file);
  const connection = await instance.connect();
  await connection.run('CREATE TABLE kept (private_column INT)');
  connection.closeSync();
  instance.closeSync();
});
after(() => server.close());

test('no notation of a path gives access to the file of a catalog', async () => {
  for (const table of [
    `'${file}'`,
    `'${file.slice(1)}'`,
    `'${'../'.repeat(20)}${file.slice(1)}'`,
    `'~${file}'`,
    `'/proc/self/root${file}'`,
    `'${file.slice(0, 12)}'\n'${file.slice(12)}'`,
    `E'${file.slice(0, -4)}'\n'\\x${file.charCodeAt(file.length - 4).toString(16)}${file.slice(-3)}'`,
    `"${file.slice(0, -'.duckdb'.length)}".duckdb`,
    `"${file.slice(0, -'.duckdb'.length)}" . "duckdb"`,
  ]) {
    const reply = await server.query('d', `SELECT nope FROM ${table}`);
    reply.is(400, 'SQL_NOT_SUPPORTED');
    assert.ok(!reply.text.includes('private_column'), reply.text);
  }
});

test('text outside of table names can contain anything', async () => {
  assert.deepEqual(await server.rows('d', `SELECT 'a.duckdb', '/b/c.csv', 'x.duckdb' AS "y.duckdb"`), [
    ['a.duckdb', '/b/c.csv', 'x.duckdb'],
  ]);
});
