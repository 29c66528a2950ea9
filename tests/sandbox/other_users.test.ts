// A caller without privileges can neither learn anything about objects of others nor change them. Each attempt is made twice, on an
// existing object and on a missing one, and both responses must be the same refusal, except for the names.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { grant, newPerson, type Person } from '../access/people.ts';
import { Budget, sampled } from '../budget.ts';
import { Random, seedFrom } from '../random.ts';
import { endOfTask, type Reply, start, type TestServer } from '../server.ts';
import { type Call, calls, nameSpellings, otherObjectCalls, statements } from './other_users_attempts.ts';

/** Data of the hidden tables that occurs nowhere else. */
const marks = ['s3cretnote', '918273', 'c0mment0f', '2718281'];
/** The first of each pair exists. Both have the same length, so that positions in a text are the same. */
const pairs = [
  ['hidden.pay', 'hiddex.pay'],
  ['hidden.pay', 'hidden.paz'],
  ['vault.v.gold', 'vaulx.v.gold'],
  ['shared.closed', 'shared.closex'],
] as const;

const seed = seedFrom('TEST_SEED');
let server: TestServer;
let eve: Person;
let others: Record<(typeof otherObjectCalls)[number]['of'], readonly [string, string]>;

before(async () => {
  server = await start();
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'salary', type: 'INT', comment: 'c0mment0f' },
    { name: 'note', type: 'STRING' },
    { name: 'mail', type: 'STRING' },
  ];
  const body = { columns, primaryKey: ['id'], unique_key_constraints: ['mail'], comment: 'c0mment0f' };
  for (const database of ['mine', 'hidden', 'shared']) await server.client.databases.create({ name: database });
  await server.client.catalogs.create({ name: 'vault' });
  await server.client.catalogs('vault').databases.create({ name: 'v' });
  await server.client
    .catalogs('vault')
    .databases('v')
    .tables.create({ name: 'gold', ...body })
    .done();
  for (const [database, table] of [
    ['hidden', 'pay'],
    ['shared', 'closed'],
    ['shared', 'open'],
  ] as const)
    await server.client
      .databases(database)
      .tables.create({ name: table, ...body })
      .done();
  for (const table of ['hidden.pay', 'shared.closed', 'vault.v.gold']) {
    const sql = `INSERT INTO ${table} SELECT i, 918273, 's3cretnote', 'm' || i FROM range(1000) r(i)`;
    (await server.query('mine', sql)).is(200);
  }
  eve = await newPerson(server, 'eve', [
    ['own', '/catalogs/default/databases/mine'],
    ['read', '/catalogs/default/databases/shared/tables/open'],
    ['use', '/warehouses/default'],
  ]);
  const ownRequests = [
    { name: 'id', type: 'BIGINT' },
    { name: 'k', type: 'INT' },
    { name: 'note', type: 'STRING' },
  ];
  (await eve.request('PUT', '/api/v2/databases/mine/tables/t', { columns: ownRequests, primaryKey: ['id'] })).is(201);
  (await eve.query('mine', "INSERT INTO t VALUES (1, 1, 'x')")).is(200);
  others = await makeOthers();
});
after(() => server.close());

async function makeOthers() {
  const alice = await newPerson(
    server,
    'alice',
    [['own', '/']].map(() => ['own', ''] as const),
  );
  await server.client.roles.create({ name: 'bosses', members: ['alice'] });
  await server.client.warehouses.create({ name: 'private' });
  const accepted = await alice.query('hidden', "SELECT note, 2718281 FROM pay WHERE note = 's3cretnote'", {
    waitSeconds: 0,
  });
  const task = accepted.is(202).at<string>('taskId');
  (await endOfTask(alice, `/api/v2/tasks/${task}`)).is(200, '0', { state: 'succeeded' });
  const query = (await alice.query('hidden', 'SELECT 2718281')).is(200).at<string>('queryId');
  const unknownId = '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d';
  return {
    user: ['alice', 'alicx'],
    role: ['bosses', 'bossex'],
    warehouse: ['private', 'privatx'],
    task: [task, unknownId],
    query: [query, unknownId],
    catalog: ['vault', 'vaulx'],
  } as const;
}

/** The server generates it: its digits may equal those of a canary. */
const withoutQueryId = (text: string) => text.replace(/"queryId":"[\w-]{36}"/, '"queryId":"its own"');

/** The response as the client sees it, with the names that the client itself sent replaced. */
function responseText(reply: Reply, named: readonly string[]): string {
  const { 'x-service-request-id': _, date: __, 'content-length': ___, ...headers } = reply.headers;
  let text = JSON.stringify([reply.status, headers, reply.text]).replaceAll('\\"', '"');
  text = withoutQueryId(text);
  for (const name of named) {
    for (const form of [name, name.toUpperCase(), encodeURIComponent(name)]) text = text.replaceAll(form, '#');
  }
  return text;
}

function requireRefused(reply: Reply, summary: string): void {
  assert.ok(reply.status >= 400, `${summary} succeeds: ${reply.text.slice(0, 500)}`);
  for (const mark of [...marks, 'salary INTEGER'])
    assert.ok(!withoutQueryId(reply.text).includes(mark), `${summary} reveals ${mark}: ${reply.text.slice(0, 500)}`);
}

async function requireAlike(
  description: string,
  make: (name: string) => Promise<Reply>,
  [existing, missing]: readonly [string, string],
  named = (name: string): string[] => [name],
): Promise<void> {
  const [first, second] = [await make(existing), await make(missing)];
  requireRefused(first, description);
  assert.equal(
    responseText(first, named(existing)),
    responseText(second, named(missing)),
    `${description}: ${existing} and ${missing} differ`,
  );
}

const parts = (name: string) => name.split('.');
const quoted = (name: string) =>
  parts(name)
    .map((part) => `"${part}"`)
    .join('.');

describe('a statement on a table of another user', () => {
  const budget = new Budget(8, statements.length);
  const attempts = (sql: string) => [
    ...pairs.flatMap((pair) =>
      [(name: string) => name, quoted].map(
        (written) => () =>
          requireAlike(
            sql,
            (name) => eve.query('mine', sql.replaceAll('#', written(name))),
            pair,
            (name) => [written(name), name],
          ),
      ),
    ),
    ...['closed', 'main.closed', '"closed"'].map(
      (written) => () =>
        requireAlike(
          `${sql} among the tables of a database`,
          (name) => eve.query('shared', sql.replaceAll('#', written.replace('closed', name))),
          ['closed', 'closex'],
          (name) => [written.replace('closed', name), name],
        ),
    ),
  ];
  for (const [i, sql] of statements.entries())
    test(sql, async (t) => {
      t.diagnostic(`TEST_SEED=${seed}`);
      for (const attempt of budget.sample(attempts(sql), new Random(seed).fork(i))) await attempt();
    });
});

describe('a name in another notation', () => {
  const forms = ['SELECT * FROM ', 'SELECT nosuch FROM ', 'INSERT INTO t (id) SELECT id FROM ', 'DELETE FROM '];
  const budget = new Budget(5, nameSpellings.length);
  const callExpecting = (name: string, pattern: string) =>
    pattern.replaceAll('#', parts(name)[0] as string).replaceAll('@', parts(name)[1] as string);
  for (const [i, spelling] of nameSpellings.entries())
    test(JSON.stringify(spelling), async (t) => {
      t.diagnostic(`TEST_SEED=${seed}`);
      const attempts = [spelling, spelling.toUpperCase()].flatMap((text) =>
        forms.flatMap((form) => pairs.slice(0, 2).map((pair) => ({ text, form, pair }))),
      );
      for (const { text, form, pair } of budget.sample(attempts, new Random(seed).fork(i)))
        await requireAlike(
          form + text,
          (name) => eve.query('mine', form + callExpecting(name, text)),
          pair,
          (name) => [callExpecting(name, text), ...parts(name)],
        );
    });
});

const replaced = <T>(value: T, changes: Readonly<Record<string, string>>): T => {
  let text = JSON.stringify(value) ?? 'null';
  for (const [from, to] of Object.entries(changes)) text = text.replaceAll(from, to);
  return JSON.parse(text) as T;
};

function requested({ method, path, body }: Call, changes: Readonly<Record<string, string>>): Promise<Reply> {
  return eve.request(
    method,
    `/api/v2${replaced(path, changes)}`,
    body === undefined ? undefined : replaced(body, changes),
  );
}

/** `grants/check` answers callers who ask about themselves: `allowed: false` is the refusal. */
const refusal = async (reply: Promise<Reply>) => {
  const answer = await reply;
  return answer.code === '0' && answer.text.includes('"allowed":false')
    ? ({ ...answer, status: 403, headers: {} } as Reply)
    : answer;
};

describe('a request for a table of another user', () => {
  for (const call of calls)
    test(`${call.method} ${call.path} ${JSON.stringify(call.body ?? '')}`, async () => {
      for (const pair of [pairs[0], pairs[1], pairs[3]]) {
        if (pair !== pairs[0] && !JSON.stringify(call).includes('@')) continue;
        const changes = (name: string) => ({ '#': parts(name)[0] as string, '@': parts(name)[1] as string });
        await requireAlike(
          call.path,
          (name) => refusal(requested(call, changes(name))),
          pair,
          (name) => parts(name),
        );
      }
    });
});

describe('a request for another object of other users', () => {
  for (const { of, ...call } of otherObjectCalls)
    test(`${call.method} ${call.path} ${JSON.stringify(call.body ?? '')}: ${of}`, () =>
      requireAlike(call.path, (name) => requested(call, { '#': name }), others[of]));
});

test('a task that runs a refused statement reveals nothing more, nor does the history', async () => {
  for (const sql of ['SELECT nosuch FROM #', 'SELECT * FROM #', 'INSERT INTO t SELECT id, salary, note FROM #'])
    for (const pair of pairs) {
      const errors = [];
      for (const name of pair) {
        const task = (await eve.query('mine', sql.replace('#', name), { waitSeconds: 0 })).is(202).at<string>('taskId');
        const ended = (await endOfTask(eve, `/api/v2/tasks/${task}`)).is(200, '0', { state: 'failed' });
        (await eve.get(`/api/v2/tasks/${task}/pages/0`)).is(404, 'OBJECT_NOT_FOUND');
        const { queryId, ...error } = ended.at<{ result: { queryId: string } }>('error').result;
        assert.match(queryId, /^[\w-]{36}$/);
        errors.push(
          JSON.stringify([ended.at('error', 'code'), ended.at('error', 'message'), error, ended.at('attempt')]),
        );
      }
      assert.equal(errors[0], errors[1]);
    }
  const history = (await eve.get('/api/v2/queries?pageSize=1000')).is(200);
  for (const { sql, createdBy, error } of history.at<{ sql: string; createdBy: string; error: object }[]>('queries')) {
    assert.equal(createdBy, 'eve', sql);
    for (const mark of marks) assert.ok(!JSON.stringify(error).includes(mark), sql);
  }
});

describe("lists show only the caller's own objects", () => {
  const namesShown: readonly (readonly [path: string, key: string, names: readonly string[]])[] = [
    ['/catalogs', 'catalogs', []],
    ['/databases', 'databases', ['mine']],
    ['/databases/shared/tables', 'tables', ['open']],
    ['/users', 'users', ['eve']],
    ['/roles', 'roles', []],
    ['/warehouses', 'warehouses', []],
    ['/identity_providers', 'identityProviders', []],
  ];
  for (const [path, key, names] of namesShown)
    test(path, async () => {
      const reply = (await eve.get(`/api/v2${path}`)).is(200);
      const listed = reply.at<{ name: string }[]>(key).map(({ name }) => name);
      assert.deepEqual(listed, names);
      if (path === '/warehouses' || path === '/catalogs' || path === '/identity_providers') return;
      const objects = (await eve.post(`/api/v2${path}/search`, { namePattern: '%', pageSize: 1 })).is(200);
      assert.deepEqual(
        objects.at<{ name: string }[]>(key).map(({ name }) => name),
        names,
      );
      assert.equal(objects.at('nextPageToken'), undefined);
    });

  test('also with a page token of another user', async () => {
    const token = (await server.get('/api/v2/databases?pageSize=1')).is(200).at<string>('nextPageToken');
    const reply = (await eve.get(`/api/v2/databases?pageToken=${encodeURIComponent(token)}`)).is(200);
    assert.deepEqual(
      reply.at<{ name: string }[]>('databases').map(({ name }) => name),
      ['mine'],
    );
  });

  test('tasks and queries', async () => {
    for (const key of ['tasks', 'queries']) {
      const all = (await eve.get(`/api/v2/${key}?pageSize=1000`)).is(200).at<{ createdBy: string }[]>(key);
      assert.deepEqual([...new Set(all.map(({ createdBy }) => createdBy))], ['eve']);
    }
    const queries = (await eve.post('/api/v2/queries/search', { text: '2718281' })).is(200);
    assert.deepEqual(queries.at('queries'), []);
    assert.deepEqual((await eve.post('/api/v2/queries/search', { submittedBy: 'alice' })).at('queries'), []);
  });

  for (const path of ['/api/v2/audit_events', '/metrics'])
    test(`${path} is refused`, async () => {
      const { status, text } = await server.send('GET', path, { headers: { authorization: `Bearer ${eve.token}` } });
      assert.equal(status, 403);
      for (const mark of [...marks, 'alice', 'hidden']) assert.ok(!text.includes(mark), text);
    });
});

describe('facts that the engine knows', () => {
  for (const from of [
    'information_schema.tables',
    'information_schema.columns',
    'information_schema.schemata',
    'pg_catalog.pg_tables',
    'pg_catalog.pg_class',
    'pg_tables',
    'pg_views',
    'sqlite_master',
    'sqlite_schema',
    'duckdb_tables',
    'duckdb_columns',
    'duckdb_databases',
    'duckdb_schemas',
    'duckdb_constraints',
    'duckdb_indexes',
    'duckdb_logs',
    'duckdb_tables()',
    'duckdb_columns()',
    'duckdb_databases()',
    'duckdb_schemas()',
    'duckdb_settings()',
    'duckdb_temporary_files()',
    'duckdb_memory()',
    'duckdb_prepared_statements()',
    'pragma_database_size()',
    'pragma_database_list',
    'pragma_collations()',
    '(SHOW TABLES)',
    '(SHOW ALL TABLES)',
    '(SHOW DATABASES)',
    '(SHOW TABLES FROM hidden)',
    'default.information_schema.tables',
    'system.main.duckdb_tables',
    'hidden.duckdb_tables',
  ])
    test(from, async () => {
      for (const action of ['query', 'explain', 'profile']) {
        const reply = await eve.post(`/api/v2/databases/mine/${action}`, { sql: `SELECT * FROM ${from}` });
        requireRefused(reply, from);
        assert.ok(!/pay|gold|alice/.test(reply.text), reply.text);
      }
    });

  test('each function responds alike whether or not there is such a table', async (t) => {
    const connection = await (await DuckDBInstance.create(':memory:')).connect();
    const sql = "SELECT DISTINCT function_name, function_type LIKE '%table%' FROM duckdb_functions() ORDER BY ALL";
    const functions = (await connection.runAndReadAll(sql)).getRows() as [string, boolean][];
    connection.closeSync();
    assert.ok(functions.length > 500);
    for (const [name, isTable] of sampled(t, 5, functions)) {
      if (!/^\w+$/.test(name)) continue;
      const call = isTable ? `SELECT * FROM "${name}"('#')` : `SELECT "${name}"('#')`;
      const [existing, missing] = await Promise.all(
        pairs[0].map((table) => eve.query('mine', call.replace('#', table))),
      );
      assert.equal(`${existing?.status} ${existing?.code}`, `${missing?.status} ${missing?.code}`, call);
      for (const mark of marks) assert.ok(!existing?.text.includes(mark), call);
    }
  });
});

test('write does not include read', async () => {
  const writer = await newPerson(server, 'writer', [
    ['write', '/catalogs/default/databases/hidden/tables/pay'],
    ['own', '/catalogs/default/databases/mine'],
    ['use', '/warehouses/default'],
  ]);
  const inserted = await writer.query('mine', "INSERT INTO hidden.pay VALUES (5000, 1, 'x', 'own') RETURNING id, mail");
  assert.deepEqual(inserted.is(200).at('rows'), [[5000, 'own']]);
  for (const sql of [
    'SELECT id FROM hidden.pay',
    'UPDATE hidden.pay SET salary = 1',
    'UPDATE hidden.pay SET salary = 1 RETURNING note',
    'DELETE FROM hidden.pay',
    'DELETE FROM hidden.pay RETURNING *',
    "INSERT INTO hidden.pay VALUES (1, 1, '', '') ON CONFLICT (id) DO UPDATE SET note = pay.note || 'x' RETURNING note",
    "INSERT INTO hidden.pay VALUES (1, 1, '', '') ON CONFLICT (id) DO UPDATE SET salary = pay.salary",
    'INSERT INTO hidden.pay SELECT id + 9000, salary, note, mail || 1 FROM hidden.pay RETURNING *',
    'MERGE INTO hidden.pay p USING (SELECT 1 AS id) s ON p.id = s.id WHEN MATCHED THEN UPDATE SET salary = 1 RETURNING *',
    'INSERT INTO hidden.pay (id) VALUES ((SELECT max(id) + 1 FROM hidden.pay))',
    'INSERT INTO hidden.pay (nosuch) VALUES (1)',
  ])
    requireRefused(await writer.query('mine', sql), sql);
  requireRefused(await writer.get('/api/v2/databases/hidden/tables/pay/rows'), 'rows');
  requireRefused(await writer.get('/api/v2/databases/hidden/tables/pay'), 'record');
  const refusedInsert = await writer.query('mine', "INSERT INTO hidden.pay VALUES (1, 1, '', 'm7')");
  requireRefused(refusedInsert.is(400, 'CONSTRAINT_VIOLATED'), 'an existing key');
});

test('nothing was changed by any of it', async () => {
  for (const table of ['shared.closed', 'vault.v.gold'])
    assert.deepEqual(await server.rows('mine', `SELECT count(*), max(salary) FROM ${table}`), [[1000, 918273]]);
  assert.deepEqual(await server.rows('mine', 'SELECT count(*), min(salary) FROM hidden.pay'), [[1001, 1]]);
  assert.deepEqual(await server.rows('mine', 'SELECT * FROM t'), [[1, 1, 'x']]);
  assert.equal((await server.get('/api/v2/databases/mine')).at('owner'), 'root');
  await grant(server, 'users/eve', [['read', '/catalogs/default/databases/hidden']]);
  assert.equal((await eve.query('mine', 'SELECT count(*) FROM hidden.pay')).is(200).at('rows', 0, 0), 1001);
});
