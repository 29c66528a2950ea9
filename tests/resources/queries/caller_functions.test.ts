// current_user, session_user, current_role, user, version() and the current namespace: each caller gets its own values, although
// statements are analyzed and prepared once for all; columns and aliases with these names take precedence; views may not use them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { release } from '../../../src/model/release.ts';
import { type GrantedPrivilege, newPerson, type Person } from '../../access/people.ts';
import { endOfTask, start, type TestServer } from '../../server.ts';

const database = '/api/v2/databases/d';
const quoted = `o'brien "x"`;
let server: TestServer;
let people: Person[];
before(async () => {
  server = await start();
  (await server.put(database)).is(201);
  const columns = [
    { name: 'id', type: 'INT' },
    { name: 'user', type: 'STRING' },
    { name: 'by', type: 'STRING' },
  ];
  (await server.post(`${database}/tables`, { name: 't', columns })).is(201);
  (await server.query('d', `INSERT INTO t VALUES (1, 'alice', 'x'), (2, '${quoted.replace("'", "''")}', 'y')`)).is(200);
  const grants: GrantedPrivilege[] = [
    ['use', '/warehouses/default'],
    ['own', '/catalogs/default/databases/d'],
  ];
  people = [await newPerson(server, 'alice', grants), await newPerson(server, quoted, grants)];
});
after(() => server.close());

const rowsOf = async (person: Person, sql: string, more: object = {}): Promise<unknown[][]> =>
  (await person.query('d', sql, more)).is(200).at('rows');

test('the same text returns each caller its own name, in every form and place', async () => {
  const statements: readonly (readonly [string, (name: string) => unknown, unknown?])[] = [
    ['SELECT current_user, session_user, current_role, user', (name) => [[name, name, name, name]]],
    ['SELECT current_user(), "session_user"(), CURRENT_ROLE', (name) => [[name, name, name]]],
    ['SELECT id FROM t WHERE t.user = current_user', (name) => [[name === 'alice' ? 1 : 2]]],
    ['SELECT $1, current_user, $2', (name) => [[7, name, 'b']], [7, 'b']],
    ['SELECT $first, session_user', (name) => [['a', name]], { first: 'a' }],
    ['SELECT list_transform([1], lambda x: current_user)', (name) => [[[name]]]],
    ['SELECT length(current_user) FROM range(length(current_user)) LIMIT 1', (name) => [[name.length]]],
    ['SELECT user, u.current_user FROM (SELECT 1 AS "user", 2 AS current_user) u', () => [[1, 2]]],
    ['SELECT x.current_user FROM (SELECT current_user, 3) AS x', (name) => [[name]]],
  ];
  for (let round = 0; round < 3; round++)
    for (const [sql, expected, parameters] of statements)
      for (const person of people)
        assert.deepEqual(await rowsOf(person, sql, { parameters }), expected(person.name), `${person.name}: ${sql}`);
  const columns = (await people[0]!.query('d', 'SELECT current_user, 1 AS session_user')).is(200).at('columns');
  assert.deepEqual(columns, [
    { name: 'current_user', type: 'STRING' },
    { name: 'session_user', type: 'INT' },
  ]);
});

test('callers at the same time get their own names', async () => {
  const sql = 'SELECT current_user, count(*) FROM t';
  const callers = Array.from({ length: 60 }, (_, i) => people[i % 2]!);
  const answers = await Promise.all(callers.map((person) => rowsOf(person, sql)));
  assert.deepEqual(
    answers,
    callers.map(({ name }) => [[name, 2]]),
  );
});

test('rows written by a statement, and a table created with rows, contain the name of their caller', async () => {
  for (const person of people) {
    (await person.query('d', 'UPDATE t SET "by" = current_user WHERE "user" = current_user')).is(200);
    const clauses = { set: { by: `"by" || '/' || session_user` }, where: '"user" = current_role' };
    (await person.post(`${database}/tables/t/update`, clauses)).is(200, '0', { rowCount: 1 });
  }
  const doubledNames = people.map(({ name }) => [`${name}/${name}`]);
  assert.deepEqual(await server.rows('d', 'SELECT "by" FROM t ORDER BY id'), doubledNames);
  for (const [i, person] of people.entries()) {
    const body = { name: `made_${i}`, asSelect: { sql: 'SELECT current_user AS owner' } };
    (await person.post(`${database}/tables`, body)).is(201);
    assert.deepEqual(await server.rows('d', `SELECT * FROM made_${i}`), [[person.name]]);
  }
});

test('a plan and a task show the caller', async () => {
  for (const person of people) {
    const plan = (await person.post(`${database}/explain`, { sql: 'SELECT * FROM t WHERE "by" = current_user' })).is(
      200,
    );
    assert.ok(plan.at<string>('plan').includes(`by='${person.name.replaceAll("'", "''")}'`), plan.text);
    const sql = 'SELECT current_user';
    const task = (await person.query('d', sql, { waitSeconds: 0 })).is(202);
    const taskReply = (await endOfTask(person, task.at<string>('uri'))).is(200, '0', { state: 'succeeded' });
    assert.ok(taskReply.text.includes(JSON.stringify(person.name)), taskReply.text);
  }
});

test('a view or a default cannot depend on its reader; a view can have a column of such a name', async () => {
  for (const sql of ['SELECT current_user AS u', 'SELECT id FROM t WHERE "by" = session_user()']) {
    const reply = await people[0]!.post(`${database}/views`, { name: 'v', sql });
    assert.match(reply.is(400, 'SQL_FORBIDDEN_FUNCTION').message, /not allowed in a view/);
  }
  (
    await server.post(`${database}/views`, { name: 'v', sql: 'SELECT user AS u, version() AS v FROM t WHERE id = 1' })
  ).is(201);
  for (const person of people)
    assert.deepEqual(await rowsOf(person, 'SELECT u, v, current_user FROM v'), [
      ['alice', `Tabularium ${release}`, person.name],
    ]);
  const columns = [{ name: 'a', type: 'STRING', defaultValue: 'current_user' }];
  (await server.post(`${database}/tables`, { name: 'defaults', columns })).is(400, 'INVALID_PARAMETER');
});

test('the original functions of the engine are inaccessible', async () => {
  assert.deepEqual(await server.rows('d', 'SELECT version(), main.version()'), [
    [`Tabularium ${release}`, `Tabularium ${release}`],
  ]);
  for (const name of [
    'system.main.current_user()',
    'system.main.version()',
    'pg_catalog.version()',
    'pragma_version()',
  ])
    assert.notEqual((await server.query('d', `SELECT ${name}`)).status, 200, name);
});

test('the current catalog and schema are those of the request', async () => {
  const sql = 'SELECT current_catalog, current_database(), current_schema, current_schema()';
  assert.deepEqual(await server.rows('d', sql), [['default', 'default', 'd', 'd']]);
  (await server.put('/api/v2/databases/e')).is(201);
  assert.deepEqual(await server.rows('e', sql), [['default', 'default', 'e', 'e']]);
  const without = (await server.post('/api/v2/catalogs/default/query', { sql })).is(200);
  assert.deepEqual(without.at('rows'), [['default', 'default', null, null]]);
});
