// Warehouses and their backends: limits stored and applied, suspended and resumed, the queue, the statement's time and memory, and
// failures when nothing is available. Tablets and replicas follow from them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { deadlineMs, eventually, spentMs } from '../../deadline.ts';
import { type Reply, start, type TestServer } from '../../server.ts';
import { scenarios } from '../scenario.ts';

let server: TestServer;
const main = '/api/v2/warehouses/default';
const all = '/api/v2/warehouses';
const backend = `${main}/backends/embedded`;
const endless = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';
const tablets = '/api/v2/databases/shop/tables/t/tablets';
before(async () => {
  // Long enough for checks while a statement waits.
  server = await start({ queueWaitMs: spentMs(1500) });
  (await server.put('/api/v2/databases/shop')).is(201);
  (await server.post('/api/v2/databases/shop/tables', { sql: 'CREATE TABLE t (i INT)' })).is(201);
});
after(() => server.close());

const untilTrue = (description: string, condition: () => Promise<boolean>) =>
  eventually(description, condition, 15_000);
const state = async (path = main) => (await server.get(path)).at<string>('state');
const load = async () => {
  const { result } = await server.get(main);
  return `${result.runningQueries} ${result.queuedQueries}`;
};

scenarios(
  () => server,
  [
    {
      name: 'the warehouse default, with one backend',
      method: 'GET',
      url: main,
      status: 200,
      result: {
        name: 'default',
        engine: 'duckdb',
        health: { status: 'healthy' },
        backendCount: 1,
        availableBackendCount: 1,
      },
    },
    {
      name: 'its backend, as it is',
      method: 'GET',
      url: backend,
      status: 200,
      result: {
        backendId: 'embedded',
        engine: 'duckdb',
        state: 'enabled',
        alive: true,
        tabletCount: 1,
        errorMessage: null,
      },
      afterwards: async (instance, reply) => {
        const measured = ['cpuCores', 'memoryUsedBytes', 'memoryLimitBytes', 'diskAvailableBytes', 'diskTotalBytes'];
        await untilTrue('a heartbeat, and a look at the disk', async () => {
          const { result } = await instance.get(backend);
          return measured.every((field) => (result[field] as number) > 0);
        });
        assert.match(reply.at('engineVersion'), /\d+\.\d+/);
      },
    },
    {
      name: 'a warehouse with limits',
      method: 'POST',
      url: all,
      body: {
        name: 'small',
        threads: 1,
        memoryLimitBytes: 67_108_864,
        queriesMax: 2,
        queueMax: 0,
        autoSuspendSeconds: 0,
        comment: 'x',
      },
      status: 201,
      result: {
        name: 'small',
        threads: 1,
        memoryLimitBytes: 67_108_864,
        queriesMax: 2,
        queueMax: 0,
        state: 'suspended',
        backendCount: 1,
      },
      afterwards: async (client) =>
        void (await client.get(`${all}/small/backends`)).is(200, '0', {
          backends: [{ backendId: 'embedded', alive: false }],
        }),
    },
    ...(
      [
        ['threads', 0],
        ['threads', 1.5],
        ['memoryLimitBytes', 1],
        ['spillLimitBytes', -1],
        ['autoSuspendSeconds', -1],
        ['queriesMax', 0],
        ['queueMax', -1],
        ['statementTimeoutSeconds', 0],
        ['autoResume', 'yes'],
        ['engine', 'spreadsheet'],
      ] as const
    ).map(([field, value]) => ({
      name: `a limit that is none: ${field} ${value}`,
      method: 'POST' as const,
      url: all,
      body: { name: 'wrong', [field]: value },
      status: 400,
      code: 'INVALID_PARAMETER' as const,
      pointer: `/${field}`,
    })),
    {
      name: 'its engine cannot be changed',
      method: 'PATCH',
      url: `${all}/small`,
      body: { engine: 'duckdb' },
      status: 400,
      code: 'UNKNOWN_FIELD',
    },
    {
      name: 'a warehouse in use is not deleted',
      method: 'DELETE',
      url: main,
      status: 400,
      code: 'IN_USE',
      result: { catalogs: ['default'] },
    },
    {
      name: 'a catalog in the other',
      method: 'PUT',
      url: '/api/v2/catalogs/aside',
      body: { warehouse: 'small' },
      status: 201,
      afterwards: async (client) =>
        void (await client.post('/api/v2/catalogs/aside/query', { sql: 'SELECT 1' })).is(200),
    },
    { name: 'which then is in use too', method: 'DELETE', url: `${all}/small`, status: 400, code: 'IN_USE' },
    {
      name: 'while what was dropped can come back too',
      method: 'DELETE',
      url: '/api/v2/catalogs/aside',
      status: 200,
      afterwards: async (client) => {
        (await client.delete(`${all}/small`)).is(400, 'IN_USE', { droppedCatalogs: ['aside'] });
        (await client.post('/api/v2/catalogs/undrop', { name: 'aside' })).is(200);
      },
    },
    {
      name: 'until its catalog is gone',
      method: 'DELETE',
      url: '/api/v2/catalogs/aside?purge=true',
      status: 200,
      afterwards: async (client) => {
        (await client.delete(`${all}/small`)).is(200, '0', { deleted: true });
        (await client.get(`${all}/small/backends/embedded`)).is(404, 'OBJECT_NOT_FOUND', { category: 'warehouses' });
      },
    },
    {
      name: 'the embedded backend cannot be removed',
      method: 'DELETE',
      url: backend,
      status: 400,
      code: 'OBJECT_PROTECTED',
    },
    {
      name: 'nor another added',
      method: 'POST',
      url: `${main}/backends`,
      body: { name: 'b2', location: 'https://b2' },
      status: 400,
      code: 'CHANGE_NOT_SUPPORTED',
    },
  ],
);

test('a suspended warehouse responds with 503 until it is resumed', async () => {
  (await server.post(`${main}/suspend`)).is(200, '0', { state: 'suspended' });
  for (const reply of [
    await server.query('shop', 'SELECT 1'),
    await server.post('/api/v2/databases/shop/tables/t/rows', { rows: [[1]] }),
    await server.put('/api/v2/databases/more'),
  ])
    assert.ok(Number(reply.is(503, 'WAREHOUSE_SUSPENDED').headers['retry-after']) > 0);
  (await server.get('/api/v2/databases/more')).is(404, 'OBJECT_NOT_FOUND');
  (await server.get('/api/v2/databases/shop/tables/t')).is(200);
  (await server.post(`${main}/suspend`)).is(200, '0', { state: 'suspended' });
  (await server.post(`${main}/resume`)).is(200, '0', { state: 'running' });
  (await server.post(`${main}/resume`)).is(200, '0', { state: 'running' });
  (await server.put('/api/v2/databases/more')).is(201);
});

test('suspending ends running and waiting statements, with the reason', async () => {
  (await server.patch(main, { queriesMax: 1 })).is(200);
  const running = [server.query('shop', endless), server.query('shop', endless)];
  await untilTrue('one runs, one waits', async () => (await load()) === '1 1');
  (await server.post(`${main}/suspend`)).is(200);
  for (const reply of await Promise.all(running)) reply.is(503, 'WAREHOUSE_SUSPENDED');
  (await server.post(`${main}/resume`)).is(200, '0', { runningQueries: 0, queuedQueries: 0 });
});

test('an idle warehouse is suspended, and resumed by the next statement', async () => {
  (await server.patch(main, { autoSuspendSeconds: 1 })).is(200);
  (await server.query('shop', 'SELECT 1')).is(200);
  await untilTrue('asleep', async () => (await state()) === 'suspended');
  (await server.get(backend)).is(200, '0', { alive: false });
  (await server.patch(main, { autoSuspendSeconds: 3600 })).is(200);
  assert.equal(await state(), 'suspended');
  (await server.query('shop', 'SELECT count(*) FROM t')).is(200);
  assert.equal(await state(), 'running');
  (await server.patch(main, { autoResume: false, autoSuspendSeconds: 1 })).is(200);
  await untilTrue('asleep', async () => (await state()) === 'suspended');
  (await server.query('shop', 'SELECT 1')).is(503, 'WAREHOUSE_SUSPENDED');
  (await server.patch(main, { autoResume: true, autoSuspendSeconds: 0 })).is(200);
  (await server.query('shop', 'SELECT 1')).is(200);
});

test('503 WAREHOUSE_BUSY: at once if the queue is full, and after the time limit for waiting in it', async () => {
  (await server.patch(main, { queriesMax: 1, queueMax: 1 })).is(200);
  const first = server.query('shop', endless);
  await untilTrue('one runs', async () => (await load()) === '1 0');
  const second = server.query('shop', 'SELECT 1');
  await untilTrue('one waits', async () => (await load()) === '1 1');
  const third = (await server.query('shop', 'SELECT 1')).is(503, 'WAREHOUSE_BUSY', { queriesMax: 1, queueMax: 1 });
  assert.equal(await load(), '1 1', 'it did not wait as long as the one before it does');
  assert.ok(Number(third.headers['retry-after']) > 0);
  (await second).is(503, 'WAREHOUSE_BUSY');
  const [running] = (await server.post('/api/v2/queries/search', { state: 'running' })).at<{ queryId: string }[]>(
    'queries',
  );
  (await server.post(`/api/v2/queries/${running?.queryId}/cancel`)).is(200);
  (await first).is(400, 'STATEMENT_CANCELLED');
  (await server.patch(main, { queriesMax: 8, queueMax: 100 })).is(200);
});

test('a statement over its time limit is stopped', async () => {
  (await server.patch(main, { statementTimeoutSeconds: 1 })).is(200);
  const started = Date.now();
  (await server.query('shop', endless)).is(400, 'STATEMENT_TIMEOUT');
  assert.ok(Date.now() - started < deadlineMs(10_000));
  (await server.patch(main, { statementTimeoutSeconds: 60 })).is(200);
  assert.equal(await load(), '0 0');
});

test('a statement over the memory or spill limit fails with a code of its own, and others continue', async () => {
  (await server.patch(main, { memoryLimitBytes: 128 * 1024 * 1024, spillLimitBytes: 1024 * 1024 })).is(200);
  const big =
    'SELECT count(*) FROM (SELECT range, hash(range) h, repeat(range::TEXT, 20) s FROM range(20000000) ORDER BY h, s)';
  const reply = await server.query('shop', big);
  assert.ok(['MEMORY_LIMIT_EXCEEDED', 'SPILL_LIMIT_EXCEEDED'].includes(reply.code), reply.text);
  assert.ok(!reply.text.includes(server.dataDirectory), reply.text);
  await untilTrue('it answers', async () => (await server.query('shop', 'SELECT 1')).status === 200);
  (await server.patch(main, { memoryLimitBytes: 512 * 1024 * 1024, spillLimitBytes: 1024 ** 3 })).is(200);
});

test('while a backend is disabled, statements are refused with 503 and the names of the tables', async () => {
  (await server.post(`${backend}/disable`)).is(200, '0', { state: 'disabled' });
  const unavailable = (reply: Reply) => reply.is(503, 'REPLICAS_UNAVAILABLE', { tables: ['default.shop.t'] });
  assert.match(unavailable(await server.query('shop', 'SELECT * FROM t')).message, /default\.shop\.t/);
  unavailable(await server.query('shop', 'INSERT INTO t SELECT 1'));
  unavailable(await server.post('/api/v2/databases/shop/tables/t/rows', { rows: [[1]] }));
  unavailable(await server.get('/api/v2/databases/shop/tables/t/rows'));
  (await server.query('shop', 'SELECT 1')).is(503, 'NOT_ENOUGH_BACKENDS', { needed: 1, available: 0 });
  const table = { name: 'u', columns: [{ name: 'i', type: 'INT' }] };
  (await server.post('/api/v2/databases/shop/tables', table)).is(503, 'NOT_ENOUGH_BACKENDS', {
    needed: 1,
    available: 0,
  });
  (await server.get(main)).is(200, '0', { availableBackendCount: 0, health: { status: 'unavailable' } });
  (await server.get(tablets)).is(200, '0', { tablets: [{ tabletId: '0', replicaCount: 1, availableReplicaCount: 0 }] });
  (await server.get(`${tablets}/0/replicas`)).is(200, '0', { replicas: [{ state: 'unavailable' }] });
  (await server.post(`${backend}/enable`)).is(200, '0', { state: 'enabled' });
  (await server.query('shop', 'SELECT * FROM t')).is(200);
  (await server.get(`${tablets}/0/replicas/embedded`)).is(200, '0', { state: 'available', backendId: 'embedded' });
});

test('tablets and replicas follow the rows', async () => {
  (await server.query('shop', 'INSERT INTO t SELECT range FROM range(1000)')).is(200);
  await untilTrue('1000 rows', async () => (await server.get(`${tablets}/0`)).at('rowCount') === 1000);
  const [tablet, replica, table] = await Promise.all(
    [`${tablets}/0`, `${tablets}/0/replicas/embedded`, '/api/v2/databases/shop/tables/t'].map((path) =>
      server.get(path),
    ),
  );
  assert.ok((tablet?.at<number>('dataBytes') ?? 0) >= 0);
  assert.equal(replica?.at('rowCount'), 1000);
  assert.equal(table?.at('statistics', 'rowCount'), 1000);
  (await server.get(`${tablets}/1`)).is(404, 'OBJECT_NOT_FOUND', { category: 'tablets', name: '1' });
  (await server.get(`${tablets}/1/replicas/embedded`)).is(404, 'OBJECT_NOT_FOUND', { category: 'tablets', name: '1' });
  (await server.get(`${tablets}/0/replicas/other`)).is(404, 'OBJECT_NOT_FOUND', {
    category: 'replicas',
    name: 'other',
  });
});
