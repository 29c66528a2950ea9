// Those who are refused come back spread over time, and seldom enough to leave the time to the work that is admitted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RefusalPace, retryAfterSecondsMax } from '../../src/engines/refusal_pace.ts';
import { Random } from '../faults/random.ts';

/** `clients` who are refused whenever they come, for `seconds`, while `perSecond` pieces of work end. */
function refusals(clients: number, perSecond: number, seconds: number) {
  let now = 0;
  const random = new Random(7);
  const pace = new RefusalPace({ clock: () => now, random: () => random.below(1000) / 1000 });
  const due = new Array<number>(clients).fill(0);
  const bySecond: number[] = [];
  for (let second = 0; second < seconds; second++) {
    now = second * 1000;
    for (let i = 0; i < perSecond; i++) pace.ended();
    let count = 0;
    for (const [client, at] of due.entries()) {
      if (at > second) continue;
      count++;
      due[client] = second + pace.retryAfterSeconds();
    }
    bySecond.push(count);
  }
  return bySecond;
}

test('one who is refused alone comes back at once', () => {
  const pace = new RefusalPace({ clock: () => 0, random: () => 0.5 });
  for (let i = 0; i < 500; i++) pace.ended();
  assert.equal(pace.retryAfterSeconds(), 1);
});

test('a thousand come back more seldom than work ends, and not together', () => {
  const settled = refusals(1000, 1000, 40).slice(20);
  assert.ok(Math.max(...settled) < 800, String(settled));
  assert.ok(Math.min(...settled) > 50, String(settled));
});

test('where work takes long, nobody is sent away for longer than the limit', () => {
  const settled = refusals(1000, 2, 60).slice(30);
  assert.ok(settled.reduce((sum, one) => sum + one, 0) >= (1000 * 30) / retryAfterSecondsMax - 1000, String(settled));
});
