// Waits with a deadline: what they return and throw, that they leave no timer and no listener behind, and that work may fail after them.
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { unlessAborted, withTimeout } from '../../../src/model/concurrency/bounded_waits.ts';

const longMs = 600_000;
const never = new Promise<never>(() => {});
const failure = new Error('the work failed');
/** Of timers that keep the process alive. */
const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

describe('a wait for a time', () => {
  it('returns the value, or throws what the work throws, and ends its timer', async () => {
    const before = timers();
    assert.equal(await withTimeout(Promise.resolve(1), longMs), 1);
    await assert.rejects(withTimeout(Promise.reject(failure), longMs), failure);
    assert.equal(timers(), before);
  });

  it('returns undefined when the time is over, whatever becomes of the work', async () => {
    const work = Promise.withResolvers<number>();
    assert.equal(await withTimeout(work.promise, 1), undefined);
    // A rejection that nobody handles would fail this test.
    work.reject(failure);
    await nextTurn();
  });

  it('keeps the process alive if it is to', async () => {
    const before = timers();
    for (const ref of [true, false]) {
      const work = Promise.withResolvers<void>();
      const waiting = withTimeout(work.promise, longMs, { ref });
      assert.equal(timers(), ref ? before + 1 : before);
      work.resolve();
      await waiting;
    }
  });
});

describe('a wait that a signal ends', () => {
  it('returns the value, or throws what the work throws, and listens no more', async () => {
    const { signal } = new AbortController();
    assert.equal(await unlessAborted(Promise.resolve(1), signal), 1);
    await assert.rejects(unlessAborted(Promise.reject(failure), signal), failure);
    assert.equal(listeners(signal), 0);
  });

  it('throws the reason of the signal, or the given one, whatever becomes of the work', async () => {
    for (const reason of [undefined, () => new Error('given')]) {
      const work = Promise.withResolvers<void>();
      const controller = new AbortController();
      const waiting = unlessAborted(work.promise, controller.signal, reason);
      assert.equal(listeners(controller.signal), 1);
      controller.abort(new Error('of the signal'));
      await assert.rejects(waiting, { message: reason ? 'given' : 'of the signal' });
      assert.equal(listeners(controller.signal), 0);
      work.reject(failure);
      await nextTurn();
    }
  });

  it('throws at once if the signal was aborted before', async () => {
    const aborted = AbortSignal.abort(new Error('before'));
    await assert.rejects(unlessAborted(never, aborted), { message: 'before' });
    await assert.rejects(unlessAborted(Promise.resolve(1), aborted), { message: 'before' });
    await assert.rejects(unlessAborted(Promise.reject(failure), aborted), { message: 'before' });
    assert.equal(listeners(aborted), 0);
  });
});
