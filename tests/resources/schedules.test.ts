// Schedules on a real server whose schedules use a clock of the test: what runs when and as whom, missed times, restarts, clock changes,
// and who may determine what runs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPerson } from '../access/people.ts';
import { day, hour, insertRun, minute, path, ScheduleWorld } from './schedule_world.ts';

const w = new ScheduleWorld('2026-01-31T10:00:30Z', { principalTasksMax: 50 });
before(() => w.open());
after(() => w.close());

test('it runs at its times, once, as its owner, and shows when', async () => {
  const record = await w.make('hourly', {
    timeZone: 'Europe/Berlin',
    priority: 'low',
    comment: 'as the clock strikes',
  });
  assert.partialDeepStrictEqual(record.result, {
    query: { ...insertRun('hourly'), catalog: 'default' },
    timeZone: 'Europe/Berlin',
    missedRuns: 'once',
    nextRunAt: '2026-01-31T11:00:00.000Z',
    lastRunAt: null,
    lastTask: null,
    needsConfirmation: false,
    owner: 'root',
  });
  await w.at(Date.parse('2026-01-31T10:59:59.999Z'));
  assert.equal(await w.ran('hourly'), 0);
  await w.at(Date.parse('2026-01-31T11:00:00Z'));
  await w.at(w.now);
  await w.at(w.now + minute);
  assert.equal(await w.ran('hourly'), 1);
  const after = (await w.server.get(path('hourly'))).is(200, '0', {
    lastRunAt: '2026-01-31T11:00:00.000Z',
    nextRunAt: '2026-01-31T12:00:00.000Z',
    version: 1,
    error: null,
  });
  (await w.server.get(after.at('lastTask'))).is(200, '0', {
    state: 'succeeded',
    type: 'run_query',
    priority: 'low',
    submittedBy: 'root',
    target: '/api/v2/schedules/hourly',
  });
  const lines = (await w.server.post('/api/v2/audit_events/search', { action: 'schedules.run' })).is(200);
  assert.equal(lines.at<unknown[]>('auditEvents').length, 1);
  (await w.server.delete(path('hourly'))).is(200, '0', { deleted: true });
  await w.at(w.now + hour);
  assert.equal(await w.ran('hourly'), 1);
});

test('missed times: skipped, caught up once, or each, up to a maximum', async () => {
  w.now = Date.parse('2026-02-01T00:00:30Z');
  await w.make('skip', { missedRuns: 'skip' });
  await w.make('once', { missedRuns: 'once' });
  await w.make('all', { missedRuns: 'all' });
  await w.make('some', { missedRuns: 'all', missedRunsMax: 3 });
  const counts = async () => Promise.all(['skip', 'once', 'all', 'some'].map((who) => w.ran(who)));
  await w.server.close();
  w.now += 5 * hour + 10 * minute;
  await w.startAgain();
  await w.at(w.now);
  assert.deepEqual(await counts(), [0, 1, 5, 3]);
  await w.at(Date.parse('2026-02-01T06:00:59Z'));
  assert.deepEqual(await counts(), [1, 2, 6, 4], 'a minute late is on time');
  await w.server.close();
  await w.startAgain();
  await w.at(w.now);
  assert.deepEqual(await counts(), [1, 2, 6, 4], 'no time twice');
  for (const name of ['skip', 'once', 'all', 'some']) (await w.server.delete(path(name))).is(200);
});

test('clock changes: no time runs twice, unless the clock is set back so far that it must have been wrong', async () => {
  w.now = Date.parse('2026-02-02T10:30:00Z');
  await w.make('jump');
  await w.at(w.now + 30 * minute);
  await w.at(w.now - 20 * minute);
  await w.at(w.now + 20 * minute);
  assert.equal(await w.ran('jump'), 1);
  await w.at(w.now + 400 * day);
  assert.equal(await w.ran('jump'), 2, 'forward: one for all that was missed');
  await w.at(Date.parse('2026-02-02T11:10:00Z'));
  await w.at(Date.parse('2026-02-02T12:00:00Z'));
  assert.equal(await w.ran('jump'), 3, 'back: it goes on as the clock does');
  (await w.server.delete(path('jump'))).is(200);
});

test('whichever statement of the store fails, each time has one run', async () => {
  w.now = Date.parse('2026-02-03T00:30:00Z');
  await w.make('struck');
  await w.requireOneRunEach('struck');
  (await w.server.delete(path('struck'))).is(200);
});

test('as its owner, with the privileges of the owner at that time', async () => {
  w.now = Date.parse('2026-02-10T00:30:00Z');
  const flags = [
    ['create', '/schedules'],
    ['use', '/warehouses/default'],
    ['write', '/catalogs/default/databases/shop/tables/ran'],
    ['read', '/catalogs/default/databases/shop/tables/ran'],
  ] as const;
  const ann = await newPerson(w.server, 'ann', flags);
  const mine = { name: 'ann', query: insertRun('ann'), cron: '0 * * * *' };
  (await ann.post('/api/v2/schedules', mine)).is(201, '0', { owner: 'ann', needsConfirmation: false });
  await w.at(w.now + hour);
  assert.equal(await w.ran('ann'), 1);
  const grants = (await w.server.get('/api/v2/users/ann/grants')).at<{ privilege: string; uri: string }[]>('grants');
  const write = grants.find(({ privilege }) => privilege === 'write')?.uri as string;
  (await w.server.delete(write)).is(200, '0', { deleted: true });
  await w.at(w.now + hour);
  assert.equal(await w.ran('ann'), 1);
  const { lastTask } = (await w.server.get(path('ann'))).is(200).result;
  (await w.server.get(String(lastTask))).is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
  (await w.server.patch('/api/v2/users/ann', { disabled: true })).is(200);
  await w.at(w.now + hour);
  (await w.server.get(path('ann'))).is(200, '0', { error: 'the owner of the schedule is disabled' });
  (await w.last('ann')).is(200, '0', {
    state: 'failed',
    attempt: 0,
    startedAt: null,
    error: { code: 'FORBIDDEN', message: 'the owner of the schedule is disabled' },
  });
  (await w.server.patch('/api/v2/users/ann', { disabled: false })).is(200);
  await w.at(w.now + hour);
  assert.notEqual((await w.show('ann')).at('lastTask'), lastTask, 'it goes on');
  (await w.server.delete(path('ann'))).is(200);
});

test('only the owner determines what runs as the owner', async () => {
  w.now = Date.parse('2026-02-20T00:30:00Z');
  const eve = await newPerson(w.server, 'eve', [
    ['create', '/schedules'],
    ['read', '/users/root'],
  ]);
  const evil = { name: 'evil', query: insertRun('evil'), cron: '0 * * * *' };
  (await eve.post('/api/v2/schedules', { ...evil, owner: 'root' })).is(201, '0', { needsConfirmation: true });
  await w.make('kind');
  (await w.server.post('/api/v2/users/eve/grants', { privilege: 'alter', on: '/api/v2/schedules/kind' })).is(201);
  (await eve.request('PATCH', path('kind'), { query: insertRun('evil') })).is(200, '0', { needsConfirmation: true });
  (await eve.request('PATCH', path('kind'), { owner: 'eve' })).is(403, 'FORBIDDEN');
  await w.at(w.now + hour);
  assert.deepEqual([await w.ran('evil'), await w.ran('kind')], [0, 0]);
  const why = 'the owner of the schedule has not confirmed its action';
  (await w.server.get(path('kind'))).is(200, '0', { error: why, lastTask: null });
  (await w.server.patch(path('kind'), { query: insertRun('kind') })).is(200, '0', { needsConfirmation: false });
  (await w.server.patch(path('evil'), { comment: 'seen' })).is(200, '0', { needsConfirmation: true });
  (await w.server.patch(path('evil'), { disabled: false })).is(200, '0', { needsConfirmation: false });
  await w.at(w.now + hour);
  assert.deepEqual([await w.ran('evil'), await w.ran('kind')], [1, 1]);
  for (const name of ['evil', 'kind']) (await w.server.delete(path(name))).is(200);
});

test('a token with scopes creates a schedule with these scopes', async () => {
  w.now = Date.parse('2026-02-25T00:30:00Z');
  const confined = await newPerson(
    w.server,
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
  const mine = { name: 'joe', query: insertRun('joe'), cron: '0 * * * *' };
  (await confined.post('/api/v2/schedules', mine)).is(201, '0', { owner: 'joe' });
  await w.at(w.now + hour);
  assert.equal(await w.ran('joe'), 0);
  (await w.server.get((await w.server.get(path('joe'))).is(200).at('lastTask'))).is(200, '0', {
    state: 'failed',
    error: { code: 'FORBIDDEN' },
  });
  (await w.server.delete(path('joe'))).is(200);
});

test('at the limit of unfinished tasks it runs when there is room', async () => {
  w.now = Date.parse('2026-03-01T00:30:00Z');
  await w.make('late');
  const waiting = (
    await w.server.query('shop', 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b', {
      waitSeconds: 0,
    })
  ).is(202);
  const after = [waiting.at<string>('taskId')];
  for (let i = 1; i < 50; i++) (await w.server.query('shop', 'SELECT 1', { after })).is(202);
  w.now += hour;
  await w.services.schedules.dispatch();
  assert.match((await w.server.get(path('late'))).is(200).at('error'), /unfinished tasks \(limit 50\)/);
  (await w.server.post(`${waiting.at<string>('uri')}/cancel`)).is(200);
  for (const { taskId } of await w.services.tasks.list({ limit: 1000 })) await w.services.tasks.wait(taskId, 10_000);
  await w.at(w.now + minute);
  assert.equal(await w.ran('late'), 1);
  (await w.server.get(path('late'))).is(200, '0', { error: null });
  (await w.server.delete(path('late'))).is(200);
});

test('while disabled its times pass; enabled or changed, times are computed from then on', async () => {
  w.now = Date.parse('2026-03-10T00:30:00Z');
  await w.make('off', { missedRuns: 'all' });
  (await w.server.patch(path('off'), { disabled: true })).is(200, '0', { nextRunAt: null });
  await w.at(w.now + 3 * hour);
  (await w.server.patch(path('off'), { disabled: false })).is(200, '0', { nextRunAt: '2026-03-10T04:00:00.000Z' });
  await w.at(w.now + minute);
  assert.equal(await w.ran('off'), 0);
  const daily = { cron: '30 2 * * *', timeZone: 'America/New_York' };
  (await w.server.patch(path('off'), daily)).is(200, '0', { nextRunAt: '2026-03-10T06:30:00.000Z' });
  (await w.server.patch(path('off'), { comment: 'the same times' })).is(200, '0', {
    nextRunAt: '2026-03-10T06:30:00.000Z',
  });
  (await w.server.delete(path('off'))).is(200);
});

test('invalid times are refused', async () => {
  const refused = async (more: object, pointer: string) =>
    (await w.server.post('/api/v2/schedules', { name: 'no', query: insertRun('no'), cron: '0 * * * *', ...more })).is(
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
