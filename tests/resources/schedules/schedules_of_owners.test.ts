// Schedules of several owners on one server: those of one, whose submissions take long or fail, delay no one else's.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { categoriesWith } from '../../../src/resources/index.ts';
import { ScheduledCalls } from '../../../src/resources/tasks/scheduled_calls.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { newPerson, type Person } from '../../access/people.ts';
import { eventually } from '../../deadline.ts';
import { hour, insertRun, minute, ScheduleWorld } from './schedule_world.ts';

const slowCount = 20;
const placesOfOne = 8;
const world = new ScheduleWorld('2026-05-01T00:00:00Z');
const calls = new ScheduledCalls(categoriesWith({ rowsBodyBytesMax: 1 }));
let ben: Person;
/** Submissions of root, and what they wait for. */
let begun = 0;
let gate = Promise.withResolvers<void>();

before(async () => {
  await world.open();
  world.services.schedules.start(async (call, run) => {
    begun++;
    await gate.promise;
    await calls.submit(world.services, call, run);
  });
  ben = await newPerson(world.server, 'ben', [
    ['create', '/schedules'],
    ['use', '/warehouses/default'],
    ['write', '/catalogs/default/databases/shop'],
  ]);
  const request = { on: '/api/v2/databases/shop/tables/ran', action: 'checksum', body: {} };
  for (let i = 0; i < slowCount; i++) await world.create(`slow_${i}`, { request, missedRuns: 'all' });
  for (const [name, cron] of Object.entries({ quick: '0 * * * *', early: '59 * * * *' }))
    (await ben.post('/api/v2/schedules', { name, query: insertRun(name), cron, missedRuns: 'skip' })).is(201);
});
after(async () => {
  gate.resolve();
  await world.close();
});

/** From now on, submissions wait; those that waited no longer do. */
function hold(): void {
  gate.resolve();
  gate = Promise.withResolvers();
  begun = 0;
}

/** Waits until the schedule of the other owner has run so often; less than the half minute between polls. */
const quickRan = (count: number) => eventually('it ran', async () => (await world.countRuns('quick')) === count, 5000);

async function lastRuns(): Promise<unknown[]> {
  const records = Array.from({ length: slowCount }, async (_, i) => (await world.get(`slow_${i}`)).at('lastRunAt'));
  return [...new Set(await Promise.all(records))];
}

test('an owner whose submissions take long has eight at a time, and those of others are on time', async () => {
  world.now += hour;
  const dispatched = world.services.schedules.dispatch();
  await quickRan(1);
  assert.equal(begun, placesOfOne);
  world.now += hour;
  const again = world.services.schedules.dispatch();
  await quickRan(2);
  assert.equal(begun, placesOfOne);
  gate.resolve();
  await Promise.all([dispatched, again]);
  assert.equal(begun, slowCount, 'one run each');
  await world.setTime(world.now);
  assert.equal(begun, 2 * slowCount, 'the second time');
  assert.deepEqual(await lastRuns(), [new Date(world.now).toISOString()]);
});

test('while some take long, the next time of another owner is awaited', async () => {
  hold();
  world.now += hour;
  world.services.schedules.changed();
  await quickRan(3);
  await eventually('all places are taken', () => begun === placesOfOne);
  const earlyAt = new Date(world.now + hour - minute).toISOString();
  world.now += hour - 500;
  world.services.schedules.changed();
  await eventually('just before', async () => (await world.get('early')).at('lastRunAt') === earlyAt);
  world.now += 500;
  await quickRan(4);
  assert.equal(begun, placesOfOne);
  gate.resolve();
  await world.setTime(world.now);
  await world.setTime(world.now);
});

test('those that fail are tried once at each poll', async () => {
  hold();
  gate.promise.catch(() => {});
  gate.reject(new Failure('WAREHOUSE_STARTING', 'the warehouse is starting'));
  world.now += hour;
  await world.services.schedules.dispatch();
  await quickRan(5);
  assert.equal(begun, slowCount);
  (await world.get('slow_0')).is(200, '0', { error: 'the warehouse is starting' });
});

test('a stop waits for those that have begun and begins no other', async () => {
  hold();
  const { schedules } = world.services;
  const dispatched = schedules.dispatch();
  await eventually('all places are taken', () => begun === placesOfOne);
  let isStopped = false;
  const stopped = schedules.stop().then(() => {
    isStopped = true;
  });
  (await world.get('slow_0')).is(200);
  assert(!isStopped);
  gate.resolve();
  await Promise.all([stopped, dispatched]);
  assert.equal(begun, placesOfOne);
});
