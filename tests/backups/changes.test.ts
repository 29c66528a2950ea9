// What counts as a change since the last backup: anything that a reader could see, even if the engine's hashes are equal; anything
// else is not sent.
import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { TestServer } from '../server.ts';
import { type BackupServer, backUpSucceeding, restoreSucceeding, rowsIn, startBackingUp } from './backing_up.ts';

/** A column, the value before and after, as SQL; chosen so that the engine's hashes are equal. */
const changes: readonly [string, string, string][] = [
  ['DOUBLE', '0.0', "'-0.0'"],
  ['FLOAT', '0.0', "'-0.0'"],
  ['BIGINT', 'NULL', '0'],
  ['BOOLEAN', 'false', 'NULL'],
  ['STRING', "''", 'NULL'],
  ['ARRAY<INT>', 'NULL', '[]'],
  ['ARRAY<INT>', '[]', '[NULL]'],
  ['ARRAY<INT>', '[0]', '[NULL]'],
  ['ARRAY<STRING>', "['NULL']", '[NULL]'],
  ['ARRAY<STRING>', "['a', 'b']", "['a, b']"],
  ['ARRAY<DOUBLE>', '[0.0]', "['-0.0'::DOUBLE]"],
  ['STRUCT<a: INT>', 'NULL', "{'a': NULL}"],
  ['MAP<STRING, INT>', 'NULL', 'map {}'],
  ['JSON', `'{"a":1}'`, `'{"a": 1}'`],
];

describe('since the last backup', () => {
  let backing: BackupServer;
  let server: TestServer;
  before(async () => {
    backing = await startBackingUp();
    server = backing.server;
    await server.client.databases.create({ name: 'd' });
  });
  after(() => backing.close());

  const run = async (sql: string) => (await server.query('d', sql)).is(200);
  const targetIn = (name: string) => ({ path: join(backing.directory, name) }) as const;
  const createTableOf = async (name: string, columns: readonly { readonly name: string; readonly type: string }[]) =>
    await server.client.databases('d').tables.create({ name, columns }).done();
  const count = async (name: string) =>
    (await backUpSucceeding(server, '/api/v2/databases/d', targetIn(name))).filesSent;

  it('every changed value is a change', async () => {
    for (const [i, [type, value]] of changes.entries()) {
      await createTableOf(`v${i}`, [
        { name: 'id', type: 'INT' },
        { name: 'v', type },
      ]);
      await run(`INSERT INTO v${i} VALUES (0, ${value})`);
      await run(`INSERT INTO v${i} VALUES (${i}, NULL)`);
    }
    await count('values');
    assert.equal(await count('values'), 0);
    for (const [i, [type, value, other]] of changes.entries()) {
      await run(`DELETE FROM v${i}`);
      await run(`INSERT INTO v${i} VALUES (0, ${other})`);
      await run(`INSERT INTO v${i} VALUES (${i}, NULL)`);
      assert.equal(await count('values'), 1, `${type}: ${value} became ${other}`);
    }
  });

  it('rows that swap a value are a change', async () => {
    await createTableOf('swaps', [
      { name: 'a', type: 'INT' },
      { name: 'b', type: 'INT' },
    ]);
    await run('INSERT INTO swaps SELECT range, range FROM range(100)');
    await count('swaps');
    await run('UPDATE swaps SET b = 1 - b WHERE a < 2');
    assert.equal(await count('swaps'), 1);
  });

  it('a column of another name or type is a change; a comment, a default or another name of the table is not', async () => {
    await createTableOf('defined', [
      { name: 'a', type: 'INT' },
      { name: 'b', type: 'INT' },
    ]);
    await run('INSERT INTO defined VALUES (1, 2)');
    await count('defined');
    const table = '/api/v2/databases/d/tables/defined';
    (await server.patch(`${table}/columns/a`, { comment: 'new', defaultValue: '7' })).is(200);
    (await server.patch(table, { comment: 'new' })).is(200);
    (await server.post(`${table}/rename`, { newName: 'named' })).is(200);
    assert.equal(await count('defined'), 0);
    (await server.patch('/api/v2/databases/d/tables/named/columns/a', { type: 'BIGINT' })).is(200);
    assert.equal(await count('defined'), 1);
    (await server.post('/api/v2/databases/d/tables/named/columns/b/rename', { newName: 'c' })).is(200);
    assert.equal(await count('defined'), 1);
    await restoreSucceeding(server, '/api/v2/catalogs/default/databases', { name: 'e', from: targetIn('defined') });
    assert.deepEqual(await rowsIn(server, 'default', 'SELECT a, c FROM e.named'), [[1, 2]]);
    (await server.get('/api/v2/databases/e/tables/named')).is(200, '0', { comment: 'new' });
  });

  it('of a table with many rows, only the changed parts are sent, and rows keep their order', async () => {
    await createTableOf('long', [{ name: 'id', type: 'BIGINT' }]);
    await run('INSERT INTO long SELECT 20000000 - range FROM range(8000000)');
    await run('INSERT INTO long SELECT range FROM range(1000000)');
    await count('long');
    assert.equal(await count('long'), 0);
    await run('INSERT INTO long VALUES (-1)');
    assert.equal(await count('long'), 1);
    await restoreSucceeding(server, '/api/v2/catalogs/default/databases', { name: 'f', from: targetIn('long') });
    const rowsOf = (table: string) =>
      rowsIn(server, 'default', `SELECT count(*), max(rowid), bit_xor(hash(rowid, id)) FROM ${table}`);
    assert.deepEqual(await rowsOf('f.long'), await rowsOf('d.long'));
  });

  it('a file that disappeared from the target is sent again', async () => {
    await createTableOf('lost', [{ name: 'id', type: 'BIGINT' }]);
    await run('INSERT INTO lost VALUES (12345)');
    const first = await backUpSucceeding(server, '/api/v2/databases/d', targetIn('lost'));
    const folder = join(backing.directory, 'lost', 'backups', first.backupId);
    const files = (await readdir(folder)).filter((name) => name.endsWith('.parquet'));
    for (const file of files) await rm(join(folder, file));
    assert.equal(await count('lost'), files.length);
    await restoreSucceeding(server, '/api/v2/catalogs/default/databases', { name: 'g', from: targetIn('lost') });
    assert.deepEqual(await rowsIn(server, 'default', 'SELECT id FROM g.lost'), [[12345]]);
  });
});
