// Times of cron expressions: with changes to and from summer time, in months without such a day, and invalid expressions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CronFault, CronTimes } from '../../src/model/cron_times.ts';

const isoTimes = (times: readonly number[]) => times.map((ms) => new Date(ms).toISOString().slice(0, 16));

function next(cron: string, timeZone: string, from: string, count: number): string[] {
  const times = new CronTimes(cron, timeZone);
  const all: number[] = [];
  for (let ms = Date.parse(from); all.length < count; ) {
    ms = times.after(ms) as number;
    all.push(ms);
  }
  return isoTimes(all);
}

test('a fixed time that summer time skips runs at the end of the skipped hour, one that it repeats runs once', () => {
  assert.deepEqual(next('30 2 * * *', 'Europe/Berlin', '2026-03-27T12:00Z', 3), [
    '2026-03-28T01:30',
    '2026-03-29T01:00',
    '2026-03-30T00:30',
  ]);
  assert.deepEqual(next('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', 3), [
    '2026-10-25T00:30',
    '2026-10-26T01:30',
    '2026-10-27T01:30',
  ]);
  assert.deepEqual(next('0 2,14 * * *', 'Europe/Berlin', '2026-10-24T13:00Z', 3), [
    '2026-10-25T00:00',
    '2026-10-25T13:00',
    '2026-10-26T01:00',
  ]);
  assert.deepEqual(next('0 9 * * 1-5', 'America/New_York', '2026-03-06T15:00Z', 2), [
    '2026-03-09T13:00',
    '2026-03-10T13:00',
  ]);
});

test('intervals follow elapsed time', () => {
  for (const [from, until] of [
    ['2026-03-29T00:00', '2026-03-29T02:00'],
    ['2026-10-25T00:00', '2026-10-25T02:00'],
  ] as const) {
    const all = new CronTimes('*/30 * * * *', 'Europe/Berlin').between(
      Date.parse(`${from}Z`),
      Date.parse(`${until}Z`),
      9,
    );
    assert.deepEqual(
      all.map((ms) => (ms - Date.parse(`${from}Z`)) / 60_000),
      [0, 30, 60, 90, 120],
    );
  }
});

test('between two times: both included, the last ones of many, the repeated hour', () => {
  const daily = new CronTimes('30 2 * * *', 'Europe/Berlin');
  const timesBetween = (from: string, until: string, max: number) =>
    isoTimes(daily.between(Date.parse(from), Date.parse(until), max));
  assert.deepEqual(timesBetween('2026-10-20T00:00Z', '2026-10-26T01:30Z', 2), ['2026-10-25T00:30', '2026-10-26T01:30']);
  assert.deepEqual(timesBetween('2026-10-25T00:30Z', '2026-10-25T02:00Z', 9), ['2026-10-25T00:30']);
  assert.deepEqual(timesBetween('2026-10-25T00:31Z', '2026-10-26T01:29Z', 9), []);
});

test('the last day of a month, leap days, names of zones in any case', () => {
  assert.deepEqual(next('0 0 L * *', 'utc', '2027-01-31T12:00Z', 2), ['2027-02-28T00:00', '2027-03-31T00:00']);
  assert.deepEqual(next('0 0 29 2 *', 'UTC', '2026-01-01T00:00Z', 2), ['2028-02-29T00:00', '2032-02-29T00:00']);
  assert.equal(new CronTimes('0 0 30 2 *', 'UTC').after(0), undefined);
});

test('an invalid expression is refused with its field', () => {
  for (const [cron, zone, field] of [
    ['x', 'UTC', 'cron'],
    ['* * * * * *', 'UTC', 'cron'],
    ['60 * * * *', 'UTC', 'cron'],
    ['@reboot', 'UTC', 'cron'],
    ['* * * * *', '+01:00', 'timeZone'],
    ['* * * * *', 'Mars/Olympus', 'timeZone'],
    ['* * * * *', '', 'timeZone'],
  ] as const)
    assert.throws(
      () => new CronTimes(cron, zone),
      (error) => error instanceof CronFault && error.field === field,
      `${cron} ${zone}`,
    );
});
