// A database is renamed in the case of a non-ASCII letter. The engine folds only ASCII, so for the engine this is another name;
// it was considered the same, and tables could no longer be created in the database.
import { after, before, test } from 'node:test';
import { start, type TestServer, uri } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

for (const [from, to] of [
  ['naïve', 'NAÏVE'],
  ['ωmega', 'Ωmega'],
  ['plain', 'PLAIN'],
] as const)
  test(`${from} → ${to}`, async () => {
    const columns = [{ name: 'n', type: 'INT' }];
    await server.client.databases.create({ name: from });
    await server.client.databases(from).tables.create({ name: 'ä', columns }).done();
    await server.client
      .databases(from)
      .tables('ä')
      .rows.create({ rows: [[1]] });
    (await server.post(uri`/databases/${from}/rename`, { newName: to })).is(200);
    await server.client.databases(to).tables.create({ name: 'u', columns }).done();
    (await server.post(uri`/databases/${to}/tables/${'ä'}/rename`, { newName: 'Ä' })).is(200);
    (await server.query(to, 'SELECT * FROM "Ä"')).is(200, '0', { rowCount: 1 });
    (await server.delete(uri`/databases/${to}?cascade=true`)).is(200);
  });
