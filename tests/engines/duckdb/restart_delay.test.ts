// The delay before an engine process is started again: it grows with consecutive deaths, and an orderly stop resets it.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RestartDelay } from '../../../src/engines/duckdb/process/restart_delay.ts';

describe('the delay before a restart', () => {
  it('grows with each death, up to its maximum', () => {
    const delay = new RestartDelay(() => 0);
    const delays = [delay.ms];
    for (let deaths = 1; deaths <= 7; deaths++) {
      delay.died();
      delays.push(delay.ms);
    }
    assert.deepEqual(delays, [0, 0, 100, 500, 2_000, 10_000, 10_000, 10_000]);
  });

  it('is zero after half a minute without a death, and the next death is the first', () => {
    let now = 0;
    const delay = new RestartDelay(() => now);
    for (let deaths = 0; deaths < 5; deaths++) delay.died();
    now = 30_000;
    assert.equal(delay.ms, 10_000);
    now = 30_001;
    assert.equal(delay.ms, 0);
    delay.died();
    delay.died();
    assert.equal(delay.ms, 100);
  });

  it('is zero after the process was stopped, whatever happened before', () => {
    const delay = new RestartDelay(() => 0);
    for (let deaths = 0; deaths < 5; deaths++) delay.died();
    delay.stopped();
    assert.equal(delay.ms, 0);
    delay.died();
    delay.died();
    assert.equal(delay.ms, 100);
  });
});
