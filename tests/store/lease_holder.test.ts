// When the leases of other servers count as expired: by the clock of the store, and not while this process may be the one that was cut off.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { LeaseHolder, leaseMs, renewEveryMs } from '../../src/store/leases.ts';

/** Times of `performance.now`, which the test sets. */
function monotonicClock(t: TestContext): { at: number } {
  const clock = { at: 1_000 };
  t.mock.method(performance, 'now', () => clock.at);
  return clock;
}

const now = 1_700_000_000_000;
const held = { leased_by: 'other/1', lease_until: now };

test('a dead server is replaced within 10 s, after several renewals that it may have missed', () => {
  assert.ok(leaseMs + 2 * renewEveryMs < 10_000);
  assert.ok(leaseMs >= 5 * renewEveryMs);
});

test('leases refer to the clock of the store', (t) => {
  monotonicClock(t);
  const holder = new LeaseHolder('this');
  holder.contact(-60_000);
  assert.equal(holder.lease(now).lease_until, now - 60_000 + leaseMs);
  assert.equal(holder.isTaken(held, now + 59_999), true);
  assert.equal(holder.isTaken(held, now + 60_000), false);
});

test('no lease counts as expired while the store is out of reach, and for a while afterwards', (t) => {
  const clock = monotonicClock(t);
  const holder = new LeaseHolder('this');
  const late = now + 3_600_000;
  holder.contact(0);
  assert.equal(holder.isTaken(held, late), false);
  clock.at += 3_001;
  assert.equal(holder.isTaken(held, late), true, 'the store was not reached for 3 s');
  assert.equal(holder.isTaken({ ...held, lease_until: 0 }, late), false, 'it was given up');
  assert.equal(holder.isTaken({ ...held, leased_by: 'this/1' }, late), false, 'by an earlier process of this server');
  for (let seconds = 0; seconds < 3; seconds++) {
    holder.contact(0);
    assert.equal(holder.isTaken(held, late), true, `${seconds} s after the first contact`);
    clock.at += 1_000;
  }
  holder.contact(0);
  assert.equal(holder.isTaken(held, late), false);
});
