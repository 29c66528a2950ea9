// A principal with a grant on an object in a database could still list the database's parent after the database was dropped: the rights
// derived from the grants were not updated.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

test('a grant on a dropped object has no effect', async () => {
  await server.client.databases.create({ name: 'db' });
  await server.client
    .databases('db')
    .tables.create({ name: 't', columns: [{ name: 'id', type: 'BIGINT' }] })
    .done();
  const ann = await newPerson(server, 'ann', [['read', '/catalogs/default/databases/db/tables/t']]);
  const listed = (await ann.get('/api/v2/catalogs/default/databases')).is(200).at<unknown[]>('databases');
  assert.equal(listed.length, 0);
  (await ann.get('/api/v2/databases/db/tables')).is(200);
  (await server.delete('/api/v2/databases/db?cascade=true')).is(200);
  (await ann.get('/api/v2/catalogs/default/databases')).is(403, 'FORBIDDEN');
  (await ann.get('/api/v2/databases/db/tables')).is(403, 'FORBIDDEN');
});
