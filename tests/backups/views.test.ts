// Views in backups: they are restored with their sources, wherever these are; invalid views, and those that read what their
// restorer may not, are omitted and reported.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { newPerson } from '../access/people.ts';
import { type TestServer, uri } from '../server.ts';
import { type BackupServer, backUpSucceeding, restoreSucceeding, rowsIn, startBackingUp } from './backing_up.ts';

let backing: BackupServer;
let server: TestServer;
before(async () => {
  backing = await startBackingUp();
  server = backing.server;
  for (const catalog of ['shop', 'beside']) {
    for (const path of [uri`/catalogs/${catalog}`, uri`/catalogs/${catalog}/databases/d`])
      (await server.put(path)).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    await server.client.catalogs(catalog).databases('d').tables.create({ name: 't', columns }).done();
    const rows = Array.from({ length: 3 }, (_, i) => [i]);
    await server.client.catalogs(catalog).databases('d').tables('t').rows.create({ rows });
  }
  await server.client.catalogs('shop').databases.create({ name: 'e' });
  // In an order in which none can be created before the next.
  for (const [viewPath, sql, comment] of [
    ['d/views/c', 'SELECT max(id) AS id FROM t', 'The last'],
    ['d/views/b', 'SELECT id FROM c', null],
    ['d/views/a', 'SELECT id FROM b', null],
    ['e/views/over', 'SELECT id FROM d.a', null],
    ['e/views/far', 'SELECT id FROM beside.d.t', null],
  ] as const)
    (await server.put(`/api/v2/catalogs/shop/databases/${viewPath}`, { sql, comment })).is(201);
});
after(() => backing.close());

const target = () => ({ path: join(backing.directory, 'views') }) as const;
const viewsIn = async (database: string) =>
  (await server.get(`${database}/views`))
    .is(200)
    .at<{ name: string }[]>('views')
    .map(({ name }) => name);

test('views are restored with their catalog, on the restored tables', async () => {
  await backUpSucceeding(server, '/api/v2/catalogs/shop', target());
  const task = await restoreSucceeding(server, '/api/v2/catalogs', { name: 'copy', from: target() });
  assert.equal(task.at('result', 'views'), 5);
  assert.equal(task.at('result', 'viewsLeft'), undefined);
  const copy = '/api/v2/catalogs/copy/databases';
  (await server.get(`${copy}/d/views/c`)).is(200, '0', {
    sql: 'SELECT max(id) AS id FROM t',
    comment: 'The last',
    columns: [{ name: 'id', position: 1, type: 'BIGINT' }],
    dependsOn: [`${copy}/d/tables/t`],
  });
  (await server.get(`${copy}/e/views/far`)).is(200, '0', {
    dependsOn: ['/api/v2/catalogs/beside/databases/d/tables/t'],
  });
  // Depends on the copy, not on the original.
  await server.client
    .catalogs('shop')
    .databases('d')
    .tables('t')
    .rows.create({ rows: [[9]] });
  assert.deepEqual(await rowsIn(server, 'copy', 'SELECT id FROM e.over'), [[2]]);
  assert.deepEqual(await rowsIn(server, 'shop', 'SELECT id FROM e.over'), [[9]]);
  (await server.delete(`${copy}/d/tables/t`)).is(400, 'IN_USE', { views: [`${copy}/d/views/c`] });
  (await server.delete('/api/v2/catalogs/beside/databases/d/tables/t')).is(400, 'IN_USE');
});

test('a single database is restored without views whose sources are missing', async () => {
  const from = target();
  const restoreOptions = { name: 'e again', database: 'e', from };
  const task = await restoreSucceeding(server, '/api/v2/catalogs/beside/databases', restoreOptions);
  const restoredPath = uri`/catalogs/${'beside'}/databases/${'e again'}`;
  assert.deepEqual(task.at('result', 'viewsLeft'), ['e again.over']);
  assert.deepEqual(await viewsIn(restoredPath), ['far']);
  const restoredDatabase = await restoreSucceeding(server, '/api/v2/catalogs/shop/databases', {
    ...restoreOptions,
    name: 'd again',
    database: 'd',
  });
  assert.equal(restoredDatabase.at('result', 'views'), 3);
  assert.deepEqual(await rowsIn(server, 'shop', 'SELECT id FROM "d again".a'), [[2]]);
});

test('nobody restores a view whose sources they may not read', async () => {
  const person = await newPerson(server, 'restorer', [
    ['use', '/warehouses/default'],
    ['create', '/catalogs'],
    ['read', '/catalogs/shop'],
  ]);
  const accepted = await person.post('/api/v2/catalogs/restore', { name: 'theirs', from: target() });
  const task = await server.ended(accepted);
  assert.equal(task.at('state'), 'succeeded', task.text);
  assert.deepEqual(task.at('result', 'viewsLeft'), ['e.far']);
  const [views, path] = ['/api/v2/catalogs/theirs/databases/d/views', '/api/v2/catalogs/theirs/databases/e'];
  assert.deepEqual(await viewsIn(path), ['over']);
  (await person.get(`${views}/a`)).is(200, '0', { owner: 'restorer', dependsOn: [`${views}/b`] });
});
