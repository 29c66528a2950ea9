// Refusals whose message did not describe what was wrong with the statement.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
  await server.client.databases.create({ name: 'd' });
});
after(() => server.close());

test('an invalid constant regular expression is an error in the text', async () => {
  for (const pattern of ['(', '[a', '*', 'a{2,1}', '\\', '(?<n>'])
    for (const call of [`regexp_matches('a', $$${pattern}$$)`, `regexp_replace('a', $$${pattern}$$, 'b')`])
      (await server.query('d', `SELECT ${call}`)).is(400, 'SQL_INVALID');
});

test('a foreign key in a CREATE TABLE text is reported as unsupported', async () => {
  (await server.post('/api/v2/databases/d/tables/create', { sql: 'CREATE TABLE t (a INT PRIMARY KEY)' })).is(201);
  for (const text of [
    'CREATE TABLE u (a INT REFERENCES t(a))',
    'CREATE TABLE u (a INT, FOREIGN KEY (a) REFERENCES t(a))',
    'create table u (a int references nothing)',
  ]) {
    const refused = (await server.post('/api/v2/databases/d/tables/create', { sql: text })).is(
      400,
      'SQL_NOT_SUPPORTED',
    );
    assert.match(refused.message, /foreign keys are not supported/);
  }
  const named =
    'CREATE TABLE u ("references" INT, foreign_key INT /* REFERENCES t */, b TEXT DEFAULT \'REFERENCES t(a)\')';
  (await server.post('/api/v2/databases/d/tables/create', { sql: named })).is(201);
});
