// Schedules on a real server whose schedules use a clock of the test: what runs when and as whom, missed times, restarts, clock changes,
// and who may determine what runs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { deadlineMs } from '../../deadline.ts';
import { day, hour, insertRun, minute, path, ScheduleWorld } from './schedule_world.ts';

const world = new ScheduleWorld('2026-01-31T10:00:30Z', { principalTasksMax: 50 });
before(() => world.open());
after(() => world.close());

test('it runs at its times, once, as its owner, and shows when', async () => {
  const record = await world.create('hourly', {
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
  await world.setTime(Date.parse('2026-01-31T10:59:59.999Z'));
  assert.equal(await world.countRuns('hourly'), 0);
  await world.setTime(Date.parse('2026-01-31T11:00:00Z'));
  await world.setTime(world.now);
  await world.setTime(world.now + minute);
  assert.equal(await world.countRuns('hourly'), 1);
  const after = (await world.server.get(path('hourly'))).is(200, '0', {
    lastRunAt: '2026-01-31T11:00:00.000Z',
    nextRunAt: '2026-01-31T12:00:00.000Z',
    version: 1,
    error: null,
  });
  (await world.server.get(after.at('lastTask'))).is(200, '0', {
    state: 'succeeded',
    type: 'run_query',
    priority: 'low',
    submittedBy: 'root',
    target: '/api/v2/schedules/hourly',
  });
  const lines = (await world.server.post('/api/v2/audit_events/search', { action: 'schedules.run' })).is(200);
  assert.equal(lines.at<unknown[]>('auditEvents').length, 1);
  (await world.server.delete(path('hourly'))).is(200, '0', { deleted: true });
  await world.setTime(world.now + hour);
  assert.equal(await world.countRuns('hourly'), 1);
});

test('missed times: skipped, caught up once, or each, up to a maximum', async () => {
  world.now = Date.parse('2026-02-01T00:00:30Z');
  await world.create('skip', { missedRuns: 'skip' });
  await world.create('once', { missedRuns: 'once' });
  await world.create('all', { missedRuns: 'all' });
  await world.create('some', { missedRuns: 'all', missedRunsMax: 3 });
  const counts = async () => Promise.all(['skip', 'once', 'all', 'some'].map((runName) => world.countRuns(runName)));
  await world.server.close();
  world.now += 5 * hour + 10 * minute;
  await world.restart();
  await world.setTime(world.now);
  assert.deepEqual(await counts(), [0, 1, 5, 3]);
  await world.setTime(Date.parse('2026-02-01T06:00:59Z'));
  assert.deepEqual(await counts(), [1, 2, 6, 4], 'a minute late is on time');
  await world.server.close();
  await world.restart();
  await world.setTime(world.now);
  assert.deepEqual(await counts(), [1, 2, 6, 4], 'no time twice');
  for (const name of ['skip', 'once', 'all', 'some']) (await world.server.delete(path(name))).is(200);
});

test('clock changes: no time runs twice, unless the clock is set back so far that it must have been wrong', async () => {
  world.now = Date.parse('2026-02-02T10:30:00Z');
  await world.create('jump');
  await world.setTime(world.now + 30 * minute);
  await world.setTime(world.now - 20 * minute);
  await world.setTime(world.now + 20 * minute);
  assert.equal(await world.countRuns('jump'), 1);
  await world.setTime(world.now + 400 * day);
  assert.equal(await world.countRuns('jump'), 2, 'forward: one for all that was missed');
  await world.setTime(Date.parse('2026-02-02T11:10:00Z'));
  await world.setTime(Date.parse('2026-02-02T12:00:00Z'));
  assert.equal(await world.countRuns('jump'), 3, 'back: it follows the clock');
  (await world.server.delete(path('jump'))).is(200);
});

test('whichever statement of the store fails, each time has one run', async () => {
  world.now = Date.parse('2026-02-03T00:30:00Z');
  await world.create('struck');
  await world.requireOneRunEach('struck');
  (await world.server.delete(path('struck'))).is(200);
});

test('as its owner, with the privileges of the owner at that time', async () => {
  world.now = Date.parse('2026-02-10T00:30:00Z');
  const flags = [
    ['create', '/schedules'],
    ['use', '/warehouses/default'],
    ['write', '/catalogs/default/databases/shop/tables/ran'],
    ['read', '/catalogs/default/databases/shop/tables/ran'],
  ] as const;
  const ann = await newPerson(world.server, 'ann', flags);
  const annsSchedule = { name: 'ann', query: insertRun('ann'), cron: '0 * * * *' };
  (await ann.post('/api/v2/schedules', annsSchedule)).is(201, '0', { owner: 'ann', needsConfirmation: false });
  await world.setTime(world.now + hour);
  assert.equal(await world.countRuns('ann'), 1);
  const grants = (await world.server.get('/api/v2/users/ann/grants')).at<{ privilege: string; uri: string }[]>(
    'grants',
  );
  const write = grants.find(({ privilege }) => privilege === 'write')?.uri as string;
  (await world.server.delete(write)).is(200, '0', { deleted: true });
  await world.setTime(world.now + hour);
  assert.equal(await world.countRuns('ann'), 1);
  const { lastTask } = (await world.server.get(path('ann'))).is(200).result;
  (await world.server.get(String(lastTask))).is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
  (await world.server.patch('/api/v2/users/ann', { disabled: true })).is(200);
  await world.setTime(world.now + hour);
  (await world.server.get(path('ann'))).is(200, '0', { error: 'the owner of the schedule is disabled' });
  (await world.lastTask('ann')).is(200, '0', {
    state: 'failed',
    attempt: 0,
    startedAt: null,
    error: { code: 'FORBIDDEN', message: 'the owner of the schedule is disabled' },
  });
  (await world.server.patch('/api/v2/users/ann', { disabled: false })).is(200);
  await world.setTime(world.now + hour);
  assert.notEqual((await world.get('ann')).at('lastTask'), lastTask, 'it continues');
  (await world.server.delete(path('ann'))).is(200);
});

test('only the owner determines what runs as the owner', async () => {
  world.now = Date.parse('2026-02-20T00:30:00Z');
  const eve = await newPerson(world.server, 'eve', [
    ['create', '/schedules'],
    ['read', '/users/root'],
  ]);
  const evil = { name: 'evil', query: insertRun('evil'), cron: '0 * * * *' };
  (await eve.post('/api/v2/schedules', { ...evil, owner: 'root' })).is(201, '0', { needsConfirmation: true });
  await world.create('kind');
  (await world.server.post('/api/v2/users/eve/grants', { privilege: 'alter', on: '/api/v2/schedules/kind' })).is(201);
  (await eve.request('PATCH', path('kind'), { query: insertRun('evil') })).is(200, '0', { needsConfirmation: true });
  (await eve.request('PATCH', path('kind'), { owner: 'eve' })).is(403, 'FORBIDDEN');
  await world.setTime(world.now + hour);
  assert.deepEqual([await world.countRuns('evil'), await world.countRuns('kind')], [0, 0]);
  const why = 'the owner of the schedule has not confirmed its action';
  (await world.server.get(path('kind'))).is(200, '0', { error: why, lastTask: null });
  (await world.server.patch(path('kind'), { query: insertRun('kind') })).is(200, '0', { needsConfirmation: false });
  (await world.server.patch(path('evil'), { comment: 'seen' })).is(200, '0', { needsConfirmation: true });
  (await world.server.patch(path('evil'), { disabled: false })).is(200, '0', { needsConfirmation: false });
  await world.setTime(world.now + hour);
  assert.deepEqual([await world.countRuns('evil'), await world.countRuns('kind')], [1, 1]);
  for (const name of ['evil', 'kind']) (await world.server.delete(path(name))).is(200);
});

test('it is run at once, as its owner, for whoever may operate it, and its times stay', async () => {
  const bea = await newPerson(world.server, 'bea', []);
  const record = await world.create('now', { disabled: true });
  (await bea.post(`${path('now')}/run`, {})).is(403, 'FORBIDDEN');
  (await world.server.post('/api/v2/users/bea/grants', { privilege: 'operate', on: path('now') })).is(201);
  const headers = { 'x-service-idempotency-key': 'once' };
  const run = () => bea.request('POST', `${path('now')}/run`, {}, headers);
  const task = (await run()).is(202, '0', { type: 'run_query', submittedBy: 'root', target: path('now') });
  (await run()).is(202, '0', { taskId: task.at('taskId') });
  await world.setTime(world.now);
  assert.equal(await world.countRuns('now'), 1);
  (await world.get('now')).is(200, '0', {
    lastTask: task.at('uri'),
    lastRunAt: new Date(world.now).toISOString(),
    nextRunAt: null,
    version: record.at('version'),
  });
  const lines = await world.server.post('/api/v2/audit_events/search', {
    action: 'schedules.run',
    object: path('now'),
  });
  const done = lines.is(200).at<{ principal: string; outcome: string; details: { taskId: string } }[]>('auditEvents');
  assert.deepEqual(
    done.filter(({ outcome }) => outcome === '0').map(({ principal, details }) => [principal, details.taskId]),
    [['bea', task.at('taskId')]],
  );
  (await world.server.patch(path('now'), { owner: 'bea', cron: '30 * * * *' })).is(200, '0', {
    needsConfirmation: true,
  });
  (await world.server.post(`${path('now')}/run`, {})).is(400, 'SCHEDULE_NOT_RUNNABLE');
  await world.setTime(world.now);
  assert.equal(await world.countRuns('now'), 1);
  (await world.server.delete(path('now'))).is(200);
});

test('a token with scopes creates a schedule with these scopes', async () => {
  world.now = Date.parse('2026-02-25T00:30:00Z');
  const confined = await newPerson(
    world.server,
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
  const joesSchedule = { name: 'joe', query: insertRun('joe'), cron: '0 * * * *' };
  (await confined.post('/api/v2/schedules', joesSchedule)).is(201, '0', { owner: 'joe' });
  await world.setTime(world.now + hour);
  assert.equal(await world.countRuns('joe'), 0);
  (await world.server.get((await world.server.get(path('joe'))).is(200).at('lastTask'))).is(200, '0', {
    state: 'failed',
    error: { code: 'FORBIDDEN' },
  });
  (await world.server.delete(path('joe'))).is(200);
});

test('at the limit of unfinished tasks it runs when there is room', async () => {
  world.now = Date.parse('2026-03-01T00:30:00Z');
  await world.create('late');
  const waiting = (
    await world.server.query('shop', 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b', {
      waitSeconds: 0,
    })
  ).is(202);
  const after = [waiting.at<string>('taskId')];
  for (let i = 1; i < 50; i++) (await world.server.query('shop', 'SELECT 1', { after })).is(202);
  world.now += hour;
  await world.services.schedules.dispatch();
  assert.match((await world.server.get(path('late'))).is(200).at('error'), /unfinished tasks \(limit 50\)/);
  (await world.server.post(`${waiting.at<string>('uri')}/cancel`)).is(200);
  for (const { taskId } of (await world.services.tasks.list({ limit: 1000 })).items)
    await world.services.tasks.wait(taskId, deadlineMs(10_000));
  await world.setTime(world.now + minute);
  assert.equal(await world.countRuns('late'), 1);
  (await world.server.get(path('late'))).is(200, '0', { error: null });
  (await world.server.delete(path('late'))).is(200);
});

test('while disabled its times pass; enabled or changed, times are computed from then on', async () => {
  world.now = Date.parse('2026-03-10T00:30:00Z');
  await world.create('off', { missedRuns: 'all' });
  (await world.server.patch(path('off'), { disabled: true })).is(200, '0', { nextRunAt: null });
  await world.setTime(world.now + 3 * hour);
  (await world.server.patch(path('off'), { disabled: false })).is(200, '0', { nextRunAt: '2026-03-10T04:00:00.000Z' });
  await world.setTime(world.now + minute);
  assert.equal(await world.countRuns('off'), 0);
  const daily = { cron: '30 2 * * *', timeZone: 'America/New_York' };
  (await world.server.patch(path('off'), daily)).is(200, '0', { nextRunAt: '2026-03-10T06:30:00.000Z' });
  (await world.server.patch(path('off'), { comment: 'the same times' })).is(200, '0', {
    nextRunAt: '2026-03-10T06:30:00.000Z',
  });
  (await world.server.delete(path('off'))).is(200);
});

test('invalid times are refused', async () => {
  const requireScheduleRefused = async (more: object, pointer: string) =>
    (
      await world.server.post('/api/v2/schedules', { name: 'no', query: insertRun('no'), cron: '0 * * * *', ...more })
    ).is(400, 'INVALID_PARAMETER', { violations: [{ pointer }] });
  await requireScheduleRefused({ cron: 'now' }, '/cron');
  await requireScheduleRefused({ cron: '* * * * * *' }, '/cron');
  await requireScheduleRefused({ cron: '0 0 30 2 *' }, '/cron');
  await requireScheduleRefused({ timeZone: '+01:00' }, '/timeZone');
  await requireScheduleRefused({ missedRuns: 'all', missedRunsMax: 101 }, '/missedRunsMax');
  await requireScheduleRefused({ query: { sql: '' } }, '/query/sql');
});
