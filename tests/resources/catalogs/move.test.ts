// Moves of catalogs between two warehouses of one server: what carries over, what is reported and refused.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { eventually } from '../../deadline.ts';
import { type Reply, start, type TestServer, uri } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
  (await server.post('/api/v2/warehouses', { name: 'other' })).is(201);
});
after(() => server.close());

const sql = async (text: string, catalog: string): Promise<unknown> => {
  const reply = await server.post(uri`/catalogs/${catalog}/query`, { sql: text });
  return reply.is(200).at('rows');
};

/** A catalog with two tables, two views that build on each other, and grants. */
async function fill(name: string): Promise<void> {
  (await server.put(uri`/catalogs/${name}`, { comment: 'moved', properties: { team: 'a' } })).is(201);
  const at = uri`/catalogs/${name}/databases`;
  (await server.post(at, { name: 'd', comment: 'in it' })).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'name', type: 'STRING', comment: 'free' },
    { name: 'price', type: 'DECIMAL(10, 2)', defaultValue: '0.5' },
  ];
  (await server.post(`${at}/d/tables`, { name: 't', columns, primaryKey: ['id'], comment: 'rows' })).is(201);
  // A name that statements of the engine use.
  const part = { name: 'part', columns: [{ name: 'part', type: 'INT' }] };
  (await server.post(`${at}/d/tables`, part)).is(201);
  await sql('INSERT INTO d.part VALUES (1), (2)', name);
  (await server.post(`${at}/d/views`, { name: 'v', sql: `SELECT id, name FROM ${name}.d.t` })).is(201);
  (await server.post(`${at}/d/views`, { name: 'w', sql: 'SELECT count(*) AS n FROM v' })).is(201);
  await sql("INSERT INTO d.t SELECT range, 'n' || range, range / 4 FROM range(5000)", name);
}

async function move(name: string, body: object): Promise<Reply> {
  return server.ended((await server.post(uri`/catalogs/${name}/move`, body)).is(202));
}

test('a catalog is moved with everything in it, and the old copy is deleted later', async () => {
  await fill('lake');
  (await server.put('/api/v2/users/ann')).is(201);
  (await server.post('/api/v2/users/ann/grants', { privilege: 'read', on: '/api/v2/catalogs/lake' })).is(201);
  (
    await server.post('/api/v2/users/ann/grants', {
      privilege: 'write',
      on: '/api/v2/catalogs/lake/databases/d/tables/t',
    })
  ).is(201);
  const before = (await server.get('/api/v2/catalogs/lake')).is(200);
  const done = await move('lake', { warehouse: 'other', retainSeconds: 0 });
  done.is(200, '0', { state: 'succeeded' });
  assert.deepEqual(
    { ...(done.at('result') as object), pausedMs: 0, retainedUntil: '', bytes: 0 },
    {
      catalog: 'lake',
      from: 'default',
      to: 'other',
      dryRun: false,
      databases: 1,
      tables: 2,
      views: 2,
      rows: 5002,
      bytes: 0,
      problems: [],
      estimatedSeconds: null,
      rounds: 1,
      pausedMs: 0,
      retainedUntil: '',
    },
  );
  const now = (await server.get('/api/v2/catalogs/lake')).is(200, '0', {
    warehouse: 'other',
    comment: 'moved',
    state: 'ready',
    createdAt: before.at('createdAt'),
  });
  assert.equal(now.at('version'), Number(before.at('version')) + 1);
  assert.deepEqual(await sql('SELECT count(*), sum(id), sum(price) FROM d.t', 'lake'), [[5000, 12497500, 3124375]]);
  assert.deepEqual(await sql('SELECT n FROM d.w', 'lake'), [[5000]]);
  await sql("INSERT INTO d.t VALUES (5000, 'new', 1)", 'lake');
  (await server.post('/api/v2/catalogs/lake/databases/d/tables/t/rows', { rows: [[5000, 'again', 1]] })).is(
    400,
    'CONSTRAINT_VIOLATED',
  );
  const grants = (await server.get('/api/v2/users/ann/grants')).is(200).at('grants') as { on: string }[];
  assert.deepEqual(grants.map(({ on }) => on).sort(), [
    '/api/v2/catalogs/lake',
    '/api/v2/catalogs/lake/databases/d/tables/t',
  ]);
  (
    await server.post('/api/v2/catalogs/lake/databases/d/tables', { name: 'u', columns: [{ name: 'a', type: 'INT' }] })
  ).is(201);
  // Back again: nothing is left there under the name.
  (await move('lake', { warehouse: 'default' })).is(200, '0', { state: 'succeeded' });
  assert.deepEqual(await sql('SELECT n FROM d.w', 'lake'), [[5001]]);
});

const table = (name: string) => uri`/catalogs/${name}/databases/d/tables/t`;
const warehouseOf = async (name: string) => (await server.get(uri`/catalogs/${name}`)).is(200).at('warehouse');

test('a dry run reports sizes, time and what does not carry over, and changes nothing', async () => {
  await fill('dry');
  (
    await server.post(uri`/catalogs/${'dry'}/databases/d/tables`, {
      name: 'gone',
      columns: [{ name: 'a', type: 'INT' }],
    })
  ).is(201);
  (await server.delete('/api/v2/catalogs/dry/databases/d/tables/gone')).is(200);
  (await server.put('/api/v2/catalogs/reader')).is(201);
  (await server.post('/api/v2/catalogs/reader/databases', { name: 'd' })).is(201);
  (await server.post('/api/v2/catalogs/reader/databases/d/views', { name: 'v', sql: 'SELECT id FROM dry.d.t' })).is(
    201,
  );
  const schedule = {
    query: { sql: 'SELECT 1', catalog: 'dry', warehouse: 'default' },
    cron: '0 0 1 1 *',
    disabled: true,
  };
  (await server.post('/api/v2/schedules', { name: 'yearly', ...schedule })).is(201);
  const dry = (await move('dry', { warehouse: 'other', dryRun: true })).is(200, '0', { state: 'succeeded' });
  assert.partialDeepStrictEqual(dry.at('result'), { dryRun: true, rows: 5002, rounds: null, retainedUntil: null });
  assert.ok(dry.at<number>('result', 'estimatedSeconds') >= 0);
  const problems = dry.at<{ kind: string; blocks: boolean; consent: string | null; name: string | null }[]>(
    'result',
    'problems',
  );
  assert.deepEqual(
    problems.map(({ kind, blocks, consent, name }) => [kind, blocks, consent, name]),
    [
      ['dependentView', true, null, null],
      ['droppedObjects', true, 'forgetDroppedObjects', null],
      ['schedule', false, null, 'yearly'],
    ],
  );
  assert.equal(await warehouseOf('dry'), 'default');
  const blocked = (await move('dry', { warehouse: 'other', forgetDroppedObjects: true })).is(200, '0', {
    state: 'failed',
  });
  assert.equal(blocked.at('error', 'code'), 'MOVE_BLOCKED');
  (await server.delete('/api/v2/catalogs/reader?cascade=true')).is(200);
  assert.equal((await move('dry', { warehouse: 'other' })).at('error', 'code'), 'MOVE_BLOCKED');
  (await move('dry', { warehouse: 'other', forgetDroppedObjects: true })).is(200, '0', { state: 'succeeded' });
  assert.equal(await warehouseOf('dry'), 'other');
  (await server.post('/api/v2/catalogs/dry/databases/d/tables/undrop', { name: 'gone' })).is(404, 'OBJECT_NOT_FOUND');
});

test('a move to where the catalog is, to nowhere, or without the rights is refused', async () => {
  await fill('stays');
  const path = uri`/catalogs/${'stays'}/move`;
  (await server.post(path, { warehouse: 'default' })).is(400, 'MOVE_NOT_POSSIBLE');
  (await server.post(path, { warehouse: 'nowhere' })).is(400, 'INVALID_PARAMETER');
  (await server.post(path, {})).is(400, 'EMPTY_BODY');
  (await server.put('/api/v2/users/eve')).is(201);
  const token = (await server.put('/api/v2/users/eve/tokens/t')).is(201).at('secret');
  const headers = { authorization: `Bearer ${token}` };
  const asEve = () => server.request('POST', path, { body: { warehouse: 'other' }, headers });
  (await asEve()).is(403, 'FORBIDDEN');
  for (const [privilege, on] of [
    ['alter', '/api/v2/catalogs/stays'],
    ['use', '/api/v2/warehouses/default'],
  ])
    (await server.post('/api/v2/users/eve/grants', { privilege, on })).is(201);
  (await asEve()).is(403, 'FORBIDDEN');
  (await server.post('/api/v2/users/eve/grants', { privilege: 'use', on: '/api/v2/warehouses/other' })).is(201);
  (await server.ended(await asEve())).is(200, '0', { state: 'succeeded' });
});

test('no acknowledged row is lost or doubled while rows are inserted all the time, and reads always answer', async () => {
  await fill('busy');
  let isOver = false;
  const acknowledged = new Set<number>();
  const unknown = new Set<number>();
  let next = 10_000;
  let refused = 0;
  const write = async (): Promise<void> => {
    while (!isOver) {
      const id = next++;
      const headers = { 'x-service-idempotency-key': `row-${id}` };
      const body = { rows: [[id, `n${id}`, 1]] };
      for (;;) {
        const reply = await server.request('POST', `${table('busy')}/rows`, { body, headers });
        if (reply.status === 201) acknowledged.add(id);
        else if (reply.status === 503 && reply.at('outcome') === 'notApplied') {
          refused++;
          await pause(20);
          if (!isOver) continue;
        } else unknown.add(id);
        break;
      }
    }
  };
  const read = async (): Promise<void> => {
    while (!isOver) {
      const counted = (await sql('SELECT count(*) FROM d.t', 'busy')) as [[number]];
      assert.ok(counted[0][0] >= 5000);
    }
  };
  const work = [write(), write(), read()];
  for (const warehouse of ['other', 'default', 'other'])
    (await move('busy', { warehouse, pauseSeconds: 60 })).is(200, '0', { state: 'succeeded' });
  isOver = true;
  await Promise.all(work);
  const rows = (await sql('SELECT id, count(*) FROM d.t WHERE id >= 10000 GROUP BY id', 'busy')) as [number, number][];
  assert.deepEqual(
    rows.filter(([, count]) => count !== 1),
    [],
  );
  const found = new Set(rows.map(([id]) => id));
  assert.deepEqual(
    [...acknowledged].filter((id) => !found.has(id)),
    [],
  );
  assert.deepEqual(
    [...found].filter((id) => !acknowledged.has(id) && !unknown.has(id)),
    [],
  );
  assert.ok(acknowledged.size > 0 && refused >= 0);
});

test('a keyed request that is repeated after the move finds that its work is done', async () => {
  await fill('keyed');
  const headers = { 'x-service-idempotency-key': 'keyed-insert' };
  const insert = () =>
    server.request('POST', `${table('keyed')}/rows`, { body: { rows: [[7000, 'once', 1]] }, headers });
  (await insert()).is(201);
  (await move('keyed', { warehouse: 'other' })).is(200, '0', { state: 'succeeded' });
  (await insert()).is(201);
  assert.deepEqual(await sql('SELECT count(*) FROM d.t WHERE id = 7000', 'keyed'), [[1]]);
});

test('while a catalog is moved, definitions in it do not change and a second move is refused; cancelled, it stays', async () => {
  await fill('slow');
  await sql("INSERT INTO d.t SELECT range + 10000, 'x' || range, 1 FROM range(400000)", 'slow');
  const accepted = (await server.post(uri`/catalogs/${'slow'}/move`, { warehouse: 'other' })).is(202);
  const task = accepted.at<string>('uri');
  (await server.post(uri`/catalogs/${'slow'}/move`, { warehouse: 'other' })).is(503, 'CHANGE_IN_PROGRESS');
  (await server.post(uri`/catalogs/${'slow'}/rename`, { newName: 'fast' })).is(503, 'CHANGE_IN_PROGRESS');
  (await server.delete('/api/v2/catalogs/slow?cascade=true')).is(503, 'CHANGE_IN_PROGRESS');
  (await server.delete(table('slow'))).is(503, 'CHANGE_IN_PROGRESS');
  (await server.post(`${task}/cancel`)).is(200);
  await eventually('the move is cancelled', async () => {
    return (await server.get(task)).at('state') !== 'running' && (await server.get(task)).at('state') !== 'cancelling';
  });
  (await server.get(task)).is(200, '0', { state: 'cancelled' });
  await eventually('the catalog can be changed again', async () => {
    return (await server.get(uri`/catalogs/${'slow'}`)).at('state') === 'ready';
  });
  assert.equal(await warehouseOf('slow'), 'default');
  await sql("INSERT INTO d.t VALUES (9999, 'after', 1)", 'slow');
  (await server.post(uri`/catalogs/${'slow'}/rename`, { newName: 'fast' })).is(400, 'IN_USE');
  (await move('slow', { warehouse: 'other' })).is(200, '0', { state: 'succeeded' });
  assert.deepEqual(await sql('SELECT count(*) FROM d.t', 'slow'), [[405001]]);
});
