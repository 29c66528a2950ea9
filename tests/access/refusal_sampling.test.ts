// Refusals in the audit trail: single events up to a limit per minute, then counts; those of a full warehouse are counted from the
// second on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RefusalSampler } from '../../src/access/audit/refusal_sampling.ts';

const minuteMs = 60_000;

test('refusals of a full warehouse are one event and a count for each user and minute', () => {
  const counts = new RefusalSampler();
  const isLogged = (id: string, outcome: string, time: number) => counts.shouldLog({ id, name: id, outcome }, time);
  const refusalOf = (id: string) =>
    Array.from({ length: 300 }, () => isLogged(id, 'WAREHOUSE_BUSY', 1)).filter(Boolean).length;
  assert.deepEqual([refusalOf('ada'), refusalOf('grace')], [1, 1]);
  assert.equal(isLogged('ada', 'FORBIDDEN', 2), true, 'others are not crowded out');
  assert.deepEqual(counts.take(3), []);
  assert.equal(isLogged('ada', 'WAREHOUSE_BUSY', minuteMs), true, 'another minute');
  const fields = { outcome: 'WAREHOUSE_BUSY', count: 299, at: minuteMs };
  assert.deepEqual(counts.take(minuteMs), [
    { id: 'ada', name: 'ada', ...fields },
    { id: 'grace', name: 'grace', ...fields },
  ]);
});
