// Schedules on a real server whose schedules go by a clock of the test: what runs when and as whom, missed times, restarts, clocks that
// jump, and who may say what runs.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startServer } from '../../src/main.ts';
import type { Services } from '../../src/resources/context.ts';
import { readSettings } from '../../src/settings.ts';
import { newPerson } from '../access/people.ts';
import { TestServer, uri } from '../server.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
let now = Date.parse('2026-01-31T10:00:30Z');
let dataDir: string;
let server: TestServer;
let services: Services;
let struck: (() => void) | undefined;

async function startAgain(): Promise<void> {
  const flags = ['--data-dir', dataDir, '--port', '0', '--log-level', 'fatal', '--warehouse-threads', '2'];
  const running = await startServer(readSettings([...flags, '--principal-tasks-max', '50'], {}), {
    assembled: (all) => {
      services = all;
    },
    scheduleClock: () => now,
    injectStore: () => struck?.(),
    taskRetryPauseMs: 10,
  });
  server = new TestServer(running, () => running.close());
}

before(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'tabularium-schedules-'));
  await startAgain();
  (await server.put('/api/v2/databases/shop')).is(201);
  (await server.post('/api/v2/databases/shop/tables', { sql: 'CREATE TABLE ran (who STRING)' })).is(201);
});
after(async () => {
  await server.close();
  await rm(dataDir, { recursive: true, force: true });
});

const noting = (who: string) => ({ sql: `INSERT INTO ran VALUES ('${who}')`, database: 'shop' });
const path = (name: string) => uri`/schedules/${name}`;
const make = async (name: string, more: object = {}) =>
  (await server.post('/api/v2/schedules', { name, query: noting(name), cron: '0 * * * *', ...more })).is(201);

/** The clock says so; what is due is made, and runs to its end. */
async function at(ms: number): Promise<void> {
  now = ms;
  await services.schedules.look();
  for (const { taskId, endedAt } of await services.tasks.list({ limit: 1000 }))
    if (endedAt === null) assert((await services.tasks.wait(taskId, 10_000))?.endedAt, 'a task does not end');
}

const ran = async (who: string) =>
  Number((await server.rows('shop', 'SELECT count(*) FROM ran WHERE who = $1', [who]))[0]?.[0]);

test('it runs at its times, once, as its owner; and says when', async () => {
  const record = await make('hourly', { timeZone: 'Europe/Berlin', priority: 'low', comment: 'as the clock strikes' });
  assert.partialDeepStrictEqual(record.result, {
    query: { ...noting('hourly'), catalog: 'default' },
    timeZone: 'Europe/Berlin',
    missedRuns: 'once',
    nextRunAt: '2026-01-31T11:00:00.000Z',
    lastRunAt: null,
    lastTask: null,
    needsConfirmation: false,
    owner: 'root',
  });
  await at(Date.parse('2026-01-31T10:59:59.999Z'));
  assert.equal(await ran('hourly'), 0);
  await at(Date.parse('2026-01-31T11:00:00Z'));
  await at(now);
  await at(now + minute);
  assert.equal(await ran('hourly'), 1);
  const after = (await server.get(path('hourly'))).is(200, '0', {
    lastRunAt: '2026-01-31T11:00:00.000Z',
    nextRunAt: '2026-01-31T12:00:00.000Z',
    version: 1,
    error: null,
  });
  (await server.get(after.at('lastTask'))).is(200, '0', {
    state: 'succeeded',
    type: 'run_query',
    priority: 'low',
    submittedBy: 'root',
    target: '/api/v2/schedules/hourly',
  });
  const lines = (await server.post('/api/v2/audit_events/search', { action: 'schedules.run' })).is(200);
  assert.equal(lines.at<unknown[]>('auditEvents').length, 1);
  (await server.delete(path('hourly'))).is(200, '0', { deleted: true });
  await at(now + hour);
  assert.equal(await ran('hourly'), 1);
});

test('missed times: skipped, made good once, or each, up to so many', async () => {
  now = Date.parse('2026-02-01T00:00:30Z');
  await make('skip', { missedRuns: 'skip' });
  await make('once', { missedRuns: 'once' });
  await make('all', { missedRuns: 'all' });
  await make('some', { missedRuns: 'all', missedRunsMax: 3 });
  const counts = async () => Promise.all(['skip', 'once', 'all', 'some'].map(ran));
  await server.close();
  now += 5 * hour + 10 * minute;
  await startAgain();
  await at(now);
  assert.deepEqual(await counts(), [0, 1, 5, 3]);
  await at(Date.parse('2026-02-01T06:00:59Z'));
  assert.deepEqual(await counts(), [1, 2, 6, 4], 'a minute late is on time');
  await server.close();
  await startAgain();
  await at(now);
  assert.deepEqual(await counts(), [1, 2, 6, 4], 'no time twice');
  for (const name of ['skip', 'once', 'all', 'some']) (await server.delete(path(name))).is(200);
});

test('clocks that jump: no time runs twice, unless the clock goes back so far that it must have been wrong', async () => {
  now = Date.parse('2026-02-02T10:30:00Z');
  await make('jump');
  await at(now + 30 * minute);
  await at(now - 20 * minute);
  await at(now + 20 * minute);
  assert.equal(await ran('jump'), 1);
  await at(now + 400 * day);
  assert.equal(await ran('jump'), 2, 'forward: one for all that was missed');
  await at(Date.parse('2026-02-02T11:10:00Z'));
  await at(Date.parse('2026-02-02T12:00:00Z'));
  assert.equal(await ran('jump'), 3, 'back: it goes on as the clock does');
  (await server.delete(path('jump'))).is(200);
});

test('whatever statement of the store fails, a time has its run once', async () => {
  now = Date.parse('2026-02-03T00:30:00Z');
  await make('struck');
  for (let n = 1; n <= 30; n++) {
    let count = 0;
    struck = () => {
      if (++count === n) throw new Error('the disk is gone');
    };
    now += hour;
    await services.schedules.look();
    struck = undefined;
    await at(now);
    assert.equal(await ran('struck'), n, `statement ${n} failed`);
  }
  (await server.delete(path('struck'))).is(200);
});

test('as its owner, with the rights that the owner has then', async () => {
  now = Date.parse('2026-02-10T00:30:00Z');
  const given = [
    ['create', '/schedules'],
    ['use', '/warehouses/default'],
    ['write', '/catalogs/default/databases/shop/tables/ran'],
    ['read', '/catalogs/default/databases/shop/tables/ran'],
  ] as const;
  const ann = await newPerson(server, 'ann', given);
  const mine = { name: 'ann', query: noting('ann'), cron: '0 * * * *' };
  (await ann.post('/api/v2/schedules', mine)).is(201, '0', { owner: 'ann', needsConfirmation: false });
  await at(now + hour);
  assert.equal(await ran('ann'), 1);
  const grants = (await server.get('/api/v2/users/ann/grants')).at<{ privilege: string; uri: string }[]>('grants');
  const write = grants.find(({ privilege }) => privilege === 'write')?.uri as string;
  (await server.delete(write)).is(200, '0', { deleted: true });
  await at(now + hour);
  assert.equal(await ran('ann'), 1);
  const { lastTask } = (await server.get(path('ann'))).is(200).result;
  (await server.get(String(lastTask))).is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
  (await server.patch('/api/v2/users/ann', { disabled: true })).is(200);
  await at(now + hour);
  (await server.get(path('ann'))).is(200, '0', { lastTask, error: 'its owner may not act any more' });
  (await server.delete(path('ann'))).is(200);
});

test('only the owner says what runs as the owner', async () => {
  now = Date.parse('2026-02-20T00:30:00Z');
  const eve = await newPerson(server, 'eve', [
    ['create', '/schedules'],
    ['read', '/users/root'],
  ]);
  const evil = { name: 'evil', query: noting('evil'), cron: '0 * * * *' };
  (await eve.post('/api/v2/schedules', { ...evil, owner: 'root' })).is(201, '0', { needsConfirmation: true });
  await make('kind');
  (await server.post('/api/v2/users/eve/grants', { privilege: 'alter', on: '/api/v2/schedules/kind' })).is(201);
  (await eve.request('PATCH', path('kind'), { query: noting('evil') })).is(200, '0', { needsConfirmation: true });
  (await eve.request('PATCH', path('kind'), { owner: 'eve' })).is(403, 'FORBIDDEN');
  await at(now + hour);
  assert.deepEqual([await ran('evil'), await ran('kind')], [0, 0]);
  const why = 'its owner has not confirmed what it does';
  (await server.get(path('kind'))).is(200, '0', { error: why, lastTask: null });
  (await server.patch(path('kind'), { query: noting('kind') })).is(200, '0', { needsConfirmation: false });
  (await server.patch(path('evil'), { comment: 'seen' })).is(200, '0', { needsConfirmation: true });
  (await server.patch(path('evil'), { disabled: false })).is(200, '0', { needsConfirmation: false });
  await at(now + hour);
  assert.deepEqual([await ran('evil'), await ran('kind')], [1, 1]);
  for (const name of ['evil', 'kind']) (await server.delete(path(name))).is(200);
});

test('a token that is confined makes a schedule that is', async () => {
  now = Date.parse('2026-02-25T00:30:00Z');
  const confined = await newPerson(
    server,
    'joe',
    [
      ['create', '/schedules'],
      ['use', '/warehouses/default'],
      ['write', '/catalogs/default/databases/shop'],
    ],
    [
      ['create', '/schedules'],
      ['use', '/warehouses/default'],
    ],
  );
  const mine = { name: 'joe', query: noting('joe'), cron: '0 * * * *' };
  (await confined.post('/api/v2/schedules', mine)).is(201, '0', { owner: 'joe' });
  await at(now + hour);
  assert.equal(await ran('joe'), 0);
  (await server.get((await server.get(path('joe'))).is(200).at('lastTask'))).is(200, '0', {
    state: 'failed',
    error: { code: 'FORBIDDEN' },
  });
  (await server.delete(path('joe'))).is(200);
});

test('as many unfinished tasks as may be: it runs when there is room', async () => {
  now = Date.parse('2026-03-01T00:30:00Z');
  await make('late');
  const waiting = (
    await server.query('shop', 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b', {
      waitSeconds: 0,
    })
  ).is(202);
  const after = [waiting.at<string>('taskId')];
  for (let i = 1; i < 50; i++) (await server.query('shop', 'SELECT 1', { after })).is(202);
  now += hour;
  await services.schedules.look();
  assert.match((await server.get(path('late'))).is(200).at('error'), /as many as may/);
  (await server.post(`${waiting.at<string>('uri')}/cancel`)).is(200);
  for (const { taskId } of await services.tasks.list({ limit: 1000 })) await services.tasks.wait(taskId, 10_000);
  await at(now + minute);
  assert.equal(await ran('late'), 1);
  (await server.get(path('late'))).is(200, '0', { error: null });
  (await server.delete(path('late'))).is(200);
});

test('disabled, its times pass; enabled or given other times, they count from then on', async () => {
  now = Date.parse('2026-03-10T00:30:00Z');
  await make('off', { missedRuns: 'all' });
  (await server.patch(path('off'), { disabled: true })).is(200, '0', { nextRunAt: null });
  await at(now + 3 * hour);
  (await server.patch(path('off'), { disabled: false })).is(200, '0', { nextRunAt: '2026-03-10T04:00:00.000Z' });
  await at(now + minute);
  assert.equal(await ran('off'), 0);
  const daily = { cron: '30 2 * * *', timeZone: 'America/New_York' };
  (await server.patch(path('off'), daily)).is(200, '0', { nextRunAt: '2026-03-10T06:30:00.000Z' });
  (await server.patch(path('off'), { comment: 'the same times' })).is(200, '0', {
    nextRunAt: '2026-03-10T06:30:00.000Z',
  });
  (await server.delete(path('off'))).is(200);
});

test('what is no time is refused', async () => {
  const refused = async (more: object, pointer: string) =>
    (await server.post('/api/v2/schedules', { name: 'no', query: noting('no'), cron: '0 * * * *', ...more })).is(
      400,
      'INVALID_PARAMETER',
      { violations: [{ pointer }] },
    );
  await refused({ cron: 'now' }, '/cron');
  await refused({ cron: '* * * * * *' }, '/cron');
  await refused({ cron: '0 0 30 2 *' }, '/cron');
  await refused({ timeZone: '+01:00' }, '/timeZone');
  await refused({ missedRuns: 'all', missedRunsMax: 101 }, '/missedRunsMax');
  await refused({ query: { sql: '' } }, '/query/sql');
});
