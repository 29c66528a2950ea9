// The privileges that reading through a view requires; cached decisions about a view become invalid when it changes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type GrantedPrivilege, newPerson, type Person } from '../../access/people.ts';
import { type Reply, start, type TestServer, uri } from '../../server.ts';
import { inDefault, names, viewsOn } from './views_world.ts';

let server: TestServer;
let world: ReturnType<typeof viewsOn>;
before(async () => {
  server = await start();
  world = viewsOn(server);
});
after(() => server.close());
const database = (name: string) => world.database(name);
const table = (path: string, name: string, rows?: number) => world.table(path, name, rows);
const view = (path: string, name: string, sql: string) => world.view(path, name, sql);
const rows = (path: string, sql: string) => world.rows(path, sql);

test('reading a view requires read on it and on all tables and views that it uses', async () => {
  const path = await database('read through');
  (await view(path, 'low', 'SELECT id FROM t WHERE false')).is(201);
  (await view(path, 'high', 'SELECT count(*) AS c FROM low')).is(201);
  const target = inDefault(path).replace('/api/v2', '');
  const [t, low, high] = [`${target}/tables/t`, `${target}/views/low`, `${target}/views/high`] as const;
  const use: GrantedPrivilege = ['use', '/warehouses/default'];
  const readView = (reader: Person) => reader.query('read through', 'SELECT * FROM high');
  const missing = (await newPerson(server, 'v-none', [use, ['read', t]])).query(
    'read through',
    'SELECT * FROM nothing',
  );
  const answers: Reply[] = [await missing];
  for (const [i, tables] of [[high], [high, low], [high, t], [low, t]].entries()) {
    const person = await newPerson(server, `v-${i}`, [use, ...tables.map((on): GrantedPrivilege => ['read', on])]);
    answers.push((await readView(person)).is(403, 'FORBIDDEN'));
  }
  for (const { message } of answers) assert.equal(message, answers[0]?.message);
  const all = await newPerson(server, 'v-all', [use, ...[high, low, t].map((on): GrantedPrivilege => ['read', on])]);
  assert.deepEqual((await readView(all)).is(200).at('rows'), [[0]]);
  // The record shows only the objects that the caller may read.
  const partialReader = await newPerson(server, 'v-some', [
    ['read', high],
    ['drop', t],
    ['alter', t],
    ['create', target],
  ]);
  (await partialReader.get(`${path}/views/high`)).is(200, '0', { dependsOn: [] });
  assert.deepEqual(names((await partialReader.get(`${path}/views`)).is(200), 'views'), ['high']);
  (await partialReader.request('DELETE', `${path}/tables/t`)).is(400, 'IN_USE', { views: [], otherViews: 1 });
  (await partialReader.post(`${path}/views`, { name: 'mine', sql: 'SELECT 1 AS a' })).is(403, 'FORBIDDEN');
  const maker = await newPerson(server, 'v-maker', [use, ['create', target]]);
  const refused = await maker.post(`${path}/views`, { name: 'mine', sql: 'SELECT * FROM t' });
  assert.equal(
    refused.is(403, 'FORBIDDEN').message,
    (await maker.post(`${path}/views`, { name: 'mine', sql: 'SELECT * FROM nothing' })).is(403, 'FORBIDDEN').message,
  );
  (await maker.post(`${path}/views`, { name: 'mine', sql: 'SELECT 1 AS a' })).is(201, '0', { owner: 'v-maker' });
  const grants = (await server.post(uri`/users/${'v-all'}/effective_grants`, {})).is(200).text;
  assert.ok(grants.includes(`${inDefault(path)}/views/high`));
});

test('a changed view applies to statements that were run before', async () => {
  const path = await database('stale views');
  await table(path, 'u');
  (await view(path, 'v', 'SELECT id FROM t')).is(201);
  const target = inDefault(path).replace('/api/v2', '');
  const person = await newPerson(server, 'stale', [
    ['use', '/warehouses/default'],
    ['read', `${target}/views/v`],
    ['read', `${target}/tables/t`],
  ]);
  const countThroughView = () => person.query('stale views', 'SELECT count(*) FROM v');
  assert.deepEqual((await countThroughView()).is(200).at('rows'), [[3]]);
  (await server.patch(`${path}/views/v`, { sql: 'SELECT id FROM u' })).is(200);
  (await countThroughView()).is(403, 'FORBIDDEN');
  (await server.patch(`${path}/views/v`, { sql: 'SELECT id FROM t LIMIT 1' })).is(200);
  assert.deepEqual((await countThroughView()).is(200).at('rows'), [[1]]);
  // A table gets the name of the view, and later the view gets the name of the table.
  (await server.post(`${path}/views/v/rename`, { newName: 'w' })).is(200);
  (await countThroughView()).is(403, 'FORBIDDEN');
  await table(path, 'v', 2);
  (await countThroughView()).is(403, 'FORBIDDEN');
  assert.deepEqual(await rows(path, 'SELECT count(*) FROM v'), [[2]]);
  (await server.delete(`${path}/tables/v`)).is(200);
  (await server.post(`${path}/views/w/rename`, { newName: 'v' })).is(200);
  assert.deepEqual((await countThroughView()).is(200).at('rows'), [[1]]);
  (await server.delete(`${path}/views/v`)).is(200);
  (await countThroughView()).is(403, 'FORBIDDEN');
});
