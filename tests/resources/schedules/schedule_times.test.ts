// Times of schedules across the changes to and from summer time, in several zones, on a real server that runs through them or is down
// meanwhile: compared with a reference that reads the local time of every quarter of an hour and does not use cron.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hour, minute, path, ScheduleWorld } from './schedule_world.ts';

const world = new ScheduleWorld('2026-01-31T10:00:30Z');
before(() => world.open());
after(() => world.close());

/** Clocks change by an hour, and by half an hour. */
const zones = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'UTC'];
/** A period in which all of them change, in the order of the test's clock. */
const seasons = {
  2026: [
    ['2026-03-07', '2026-04-07'],
    ['2026-10-02', '2026-11-03'],
  ],
  2027: [
    ['2027-03-13', '2027-04-06'],
    ['2027-10-02', '2027-11-09'],
  ],
} as const;

function localTimes(zone: string, from: number, until: number) {
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone: zone,
    hourCycle: 'h23',
    ...({ year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit' } as const),
  });
  const all: { readonly at: number; readonly date: string; readonly minutes: number }[] = [];
  // No zone has an offset or a change of less.
  const quarter = 15 * minute;
  for (let time = Math.floor(from / quarter) * quarter; time <= until; time += quarter) {
    const parts = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, value]));
    const { year, month, day, hour: hours, minute: minutes } = parts;
    all.push({ at: time, date: `${year}-${month}-${day}`, minutes: Number(hours) * 60 + Number(minutes) });
  }
  return all;
}

/** Half past two of each day: at the end of the gap if it is skipped, and the first occurrence if it is repeated. */
function daily(zone: string, from: number, until: number): string[] {
  const halfPastTwo = 150;
  const first = new Map<string, number>();
  // Starts earlier, so that a day whose time has passed does not get another one.
  for (const { at, date, minutes } of localTimes(zone, from - 24 * hour, until))
    if (minutes >= halfPastTwo && !first.has(date)) first.set(date, at);
  return [...first.values()].filter((at) => at > from && at <= until).map((at) => new Date(at).toISOString());
}

/** Each quarter of an hour of real time. */
function quarterHours(zone: string, from: number, until: number): string[] {
  return localTimes(zone, from, until)
    .filter(({ at }) => at > from)
    .map(({ at }) => new Date(at).toISOString());
}

/** The times that had a run, according to the audit trail. */
async function timesOf(name: string): Promise<string[]> {
  const times: string[] = [];
  let pageToken: string | undefined;
  do {
    const page = await world.server.post('/api/v2/audit_events/search', {
      action: 'schedules.run',
      target: path(name),
      pageSize: 1000,
      ...(pageToken === undefined ? {} : { pageToken }),
    });
    times.push(
      ...page
        .is(200)
        .at<{ details: { time: string } }[]>('auditEvents')
        .map(({ details }) => details.time),
    );
    pageToken = page.at('nextPageToken');
  } while (pageToken !== undefined);
  return times.toSorted();
}

const fixed = '30 2 * * *';
const request = { on: '/api/v2/databases/shop/tables/ran', action: 'delete_rows', body: { where: 'false' } };
const startOfDay = (day: string) => Date.parse(`${day}T00:00:30Z`);

for (const [from, until] of seasons[2026])
  test(`${from} to ${until}: each time has one run while the server runs`, async () => {
    const [begin, end] = [startOfDay(from), startOfDay(until)];
    world.now = begin;
    const more = { cron: fixed, missedRuns: 'all' };
    for (const [i, timeZone] of zones.entries()) {
      await world.create(`query-${i}-${from}`, { ...more, timeZone, query: { sql: 'SELECT 1' } });
      await world.create(`request-${i}-${from}`, { ...more, timeZone, request });
    }
    for (let instant = begin; instant < end; ) {
      instant = Math.min(end, instant + 7 * hour);
      await world.setTime(instant);
    }
    for (const [i, zone] of zones.entries())
      for (const kind of ['query', 'request']) {
        assert.deepEqual(await timesOf(`${kind}-${i}-${from}`), daily(zone, begin, end), zone);
        (await world.server.delete(path(`${kind}-${i}-${from}`))).is(200);
      }
  });

for (const [from, until] of seasons[2027])
  test(`${from} to ${until}: times missed by a stopped server are caught up as each schedule defines`, async () => {
    const [begin, end] = [startOfDay(from), startOfDay(until)];
    world.now = begin;
    const policies = {
      skip: { missedRuns: 'skip' },
      once: { missedRuns: 'once' },
      all: { missedRuns: 'all', missedRunsMax: 100 },
      five: { missedRuns: 'all', missedRunsMax: 5, request },
    };
    for (const [i, timeZone] of zones.entries())
      for (const [name, more] of Object.entries(policies))
        await world.create(`${name}-${i}-${from}`, { query: { sql: 'SELECT 1' }, cron: fixed, timeZone, ...more });
    await world.create(`often-${from}`, {
      cron: '*/15 * * * *',
      missedRuns: 'all',
      missedRunsMax: 9,
      timeZone: zones[2],
    });
    await world.server.close();
    world.now = end;
    await world.restart();
    await world.setTime(end);
    await world.setTime(end + minute);
    for (const [i, zone] of zones.entries()) {
      const times = daily(zone, begin, end);
      const expected = { skip: [], once: times.slice(-1), all: times, five: times.slice(-5) };
      for (const [name, all] of Object.entries(expected)) {
        assert.deepEqual(await timesOf(`${name}-${i}-${from}`), all, `${name} ${zone}`);
        (await world.server.delete(path(`${name}-${i}-${from}`))).is(200);
      }
    }
    const often = quarterHours(zones[2] as string, end - 4 * hour, end).slice(-9);
    assert.deepEqual(await timesOf(`often-${from}`), often);
    (await world.server.delete(path(`often-${from}`))).is(200);
  });
