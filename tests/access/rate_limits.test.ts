// Rate limits with a controlled clock: what is refused, for how long, and how many unknown addresses affect others.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type RateLimitSettings, RateLimitsInMemory, rateKeysMax } from '../../src/access/limits/rate_limits.ts';
import { networkOf } from '../../src/http/connection/client_address.ts';
import { Failure } from '../../src/standard/failure.ts';

const off: RateLimitSettings = {
  principalCostPerSecondMax: 0,
  principalCostBurstMax: 1,
  addressCostPerSecondMax: 0,
  addressCostBurstMax: 1,
};

function limitsWith(settings: Partial<RateLimitSettings>) {
  const time = { ms: 1_000_000 };
  const limits = new RateLimitsInMemory({ settings: { ...off, ...settings }, networkOf, clock: () => time.ms });
  return { limits, time };
}

/** The wait in seconds; 0 if the request was admitted. */
function waitOf(work: () => void, limit: 'principal' | 'address'): number {
  try {
    work();
    return 0;
  } catch (error) {
    assert.ok(error instanceof Failure);
    assert.equal(error.code, 'RATE_LIMITED');
    const seconds = error.retryAfterSeconds as number;
    assert.ok(Number.isInteger(seconds) && seconds >= 1);
    assert.deepEqual(error.result, { limit, retryAfterSeconds: seconds });
    return seconds;
  }
}

describe('rate limits', () => {
  it('allow a burst, then a constant rate', () => {
    const { limits, time } = limitsWith({ principalCostPerSecondMax: 10, principalCostBurstMax: 30 });
    const charge = (cost: number) => waitOf(() => limits.charge('u1', '192.0.2.1', cost), 'principal');
    for (let i = 0; i < 30; i++) assert.equal(charge(1), 0);
    assert.equal(charge(1), 1);
    time.ms += 100;
    assert.equal(charge(1), 0);
    assert.equal(charge(1), 1);
    time.ms += 60_000;
    for (let i = 0; i < 30; i++) assert.equal(charge(1), 0, 'no more than a burst is saved up');
    assert.equal(charge(1), 1);
  });

  it('report how long to wait: the request succeeds then, and not a second before', () => {
    for (const cost of [1, 7, 20, 25]) {
      const { limits, time } = limitsWith({ addressCostPerSecondMax: 3, addressCostBurstMax: 25 });
      const charge = () => waitOf(() => limits.chargeAddress('192.0.2.1', cost), 'address');
      while (charge() === 0);
      const seconds = charge();
      time.ms += seconds * 1000 - 1001;
      if (seconds > 1) assert.notEqual(charge(), 0, `cost ${cost}, a second early`);
      time.ms += 1001;
      assert.equal(charge(), 0, `cost ${cost}, after ${seconds} s`);
    }
  });

  it('charge neither side for a refused request', () => {
    const { limits, time } = limitsWith({
      principalCostPerSecondMax: 1,
      principalCostBurstMax: 10,
      addressCostPerSecondMax: 1,
      addressCostBurstMax: 5,
    });
    limits.charge('u1', '192.0.2.1', 5);
    for (let i = 0; i < 100; i++)
      assert.equal(
        waitOf(() => limits.charge('u1', '192.0.2.1', 1), 'address'),
        1,
      );
    // If the principal had been charged for requests that its address was refused, this one would be refused.
    limits.charge('u1', '192.0.2.2', 5);
    assert.equal(
      waitOf(() => limits.charge('u1', '192.0.2.3', 1), 'principal'),
      1,
    );
    time.ms += 1000;
    limits.charge('u1', '192.0.2.3', 1);
  });

  it('allow a request that costs more than the whole burst, once the bucket is full', () => {
    const { limits, time } = limitsWith({ principalCostPerSecondMax: 2, principalCostBurstMax: 4 });
    const charge = (cost: number) => waitOf(() => limits.charge('u1', '192.0.2.1', cost), 'principal');
    assert.equal(charge(20), 0);
    assert.equal(charge(20), 2);
    time.ms += 2000;
    assert.equal(charge(20), 0);
  });

  it('are separate for principals and for addresses; an IPv6 client is its /64', () => {
    const { limits } = limitsWith({
      principalCostPerSecondMax: 1,
      principalCostBurstMax: 2,
      addressCostPerSecondMax: 1,
      addressCostBurstMax: 3,
    });
    limits.charge('u1', '2001:db8::1', 2);
    assert.equal(
      waitOf(() => limits.charge('u1', '192.0.2.9', 1), 'principal'),
      1,
    );
    limits.charge('u2', '2001:db8::2', 1);
    assert.equal(
      waitOf(() => limits.charge('u3', '2001:db8:0:0:1:2:3:4', 1), 'address'),
      1,
    );
    limits.charge('u3', '2001:db8:0:1::1', 2);
    assert.equal(
      waitOf(() => limits.chargeAddress('127.0.0.1', 3), 'address'),
      0,
    );
    assert.equal(
      waitOf(() => limits.chargeAddress('127.0.0.1', 1), 'address'),
      1,
      'this machine is an address like others',
    );
  });

  it('are disabled at 0', () => {
    const { limits } = limitsWith({});
    for (let i = 0; i < 10_000; i++) limits.charge('u1', '192.0.2.1', 1000);
    limits.chargeAddress('192.0.2.1', 1e9);
    assert.equal(limits.size, 0);
  });

  it('lock nobody out when the clock is set back, and give no credit', () => {
    const { limits, time } = limitsWith({ principalCostPerSecondMax: 1, principalCostBurstMax: 10 });
    const charge = (id: string) => waitOf(() => limits.charge(id, '192.0.2.1', 1), 'principal');
    for (let i = 0; i < 5; i++) assert.equal(charge('u1'), 0);
    time.ms -= 3_600_000;
    for (let i = 0; i < 5; i++) assert.equal(charge('u1'), 0);
    assert.equal(charge('u1'), 1);
    time.ms += 1000;
    assert.equal(charge('u1'), 0);
    assert.equal(charge('u1'), 1);
  });

  it('store a bounded number of addresses, and none that have a full bucket', () => {
    const { limits, time } = limitsWith({ addressCostPerSecondMax: 1, addressCostBurstMax: 100 });
    const stranger = (i: number) => `2001:db8:${(i >> 16).toString(16)}:${(i & 0xffff).toString(16)}::1`;
    for (let i = 0; i < rateKeysMax + 5000; i++) limits.chargeAddress(stranger(i), 2);
    assert.equal(limits.size, rateKeysMax);
    time.ms += 3000;
    for (let i = 0; i < rateKeysMax; i++) limits.chargeAddress(stranger(1_000_000 + i), 2);
    time.ms += 3000;
    for (let i = 0; i < rateKeysMax; i++) limits.chargeAddress(stranger(2_000_000 + i), 2);
    assert.ok(limits.size <= rateKeysMax);
    time.ms += 3000;
    // Each new address checks two old ones: idle ones are evicted as fast as others arrive.
    for (let i = 0; i < rateKeysMax / 2 + 10; i++) limits.chargeAddress(stranger(3_000_000 + i), 2);
    assert.ok(limits.size < rateKeysMax * 0.75, `${limits.size} are left`);
  });

  it('retain the debt of an address during a flood of others', () => {
    const { limits } = limitsWith({ addressCostPerSecondMax: 0.001, addressCostBurstMax: 100 });
    limits.chargeAddress('192.0.2.1', 100);
    for (let i = 0; i < 3 * rateKeysMax; i++)
      limits.chargeAddress(`2001:db8:${(i >> 16).toString(16)}:${(i & 0xffff).toString(16)}::1`, 50);
    assert.throws(() => limits.chargeAddress('192.0.2.1', 1), { code: 'RATE_LIMITED' });
  });
});
