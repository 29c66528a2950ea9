// Admission to a warehouse: slots and queue shared fairly between principals, shown on random sequences of arrivals, ends and
// cancellations against the rules of admission.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import fc from 'fast-check';
import { Admission, type AdmissionLimits } from '../../src/engines/admission.ts';
import { Failure } from '../../src/standard/failure.ts';

const patient = { queueWaitMs: 60_000 };
const always = new AbortController().signal;

/** A statement that ends when `end` is called. */
function statement(admission: Admission, limits: AdmissionLimits, id: string, signal = always) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const state = {
    id,
    is: 'waiting' as 'waiting' | 'running' | 'ended' | 'refused',
    end: resolve,
    done: Promise.resolve(),
  };
  state.done = admission
    .run(limits, { principal: { id }, signal }, () => {
      state.is = 'running';
      return promise;
    })
    .then(
      () => {
        state.is = 'ended';
      },
      (error: unknown) => {
        assert.ok(error instanceof Failure && ['WAREHOUSE_BUSY', 'STATEMENT_CANCELLED'].includes(error.code));
        state.is = 'refused';
      },
    );
  return state;
}

type Statement = ReturnType<typeof statement>;
const countOf = (all: readonly Statement[], is: Statement['is'], id?: string) =>
  all.filter((one) => one.is === is && (id === undefined || one.id === id)).length;

describe('admission', () => {
  it('never gives all slots to one principal', async () => {
    const admission = new Admission();
    const limits = { queriesMax: 4, queueMax: 100, ...patient };
    const many = Array.from({ length: 40 }, () => statement(admission, limits, 'ada'));
    await turnOfLoop();
    assert.equal(countOf(many, 'running'), 3);
    const one = statement(admission, limits, 'grace');
    await turnOfLoop();
    assert.equal(one.is, 'running');
    for (const each of [one, ...many]) each.end();
    await Promise.all([one, ...many].map(({ done }) => done));
    assert.deepEqual([admission.running, admission.queued], [0, 0]);
  });

  it('gives a warehouse with one slot to whoever comes', async () => {
    const admission = new Admission();
    const only = statement(admission, { queriesMax: 1, queueMax: 0, ...patient }, 'ada');
    await turnOfLoop();
    assert.equal(only.is, 'running');
    only.end();
    await only.done;
  });

  it('makes room in a full queue for a principal with fewer waiting: the latest of the longest queue is refused', async () => {
    const admission = new Admission();
    const limits = { queriesMax: 2, queueMax: 3, ...patient };
    const ada = Array.from({ length: 4 }, () => statement(admission, limits, 'ada'));
    const first = statement(admission, limits, 'grace');
    await turnOfLoop();
    const second = statement(admission, limits, 'grace');
    await turnOfLoop();
    assert.deepEqual(
      [...ada, first, second].map(({ is }) => is),
      ['running', 'waiting', 'waiting', 'refused', 'running', 'waiting'],
    );
    const refused = statement(admission, limits, 'ada');
    await turnOfLoop();
    assert.equal(refused.is, 'refused');
    for (const each of [...ada, first, second]) each.end();
    await Promise.all([...ada, first, second].map(({ done }) => done));
  });

  it('is work-conserving and fair whatever comes, ends and is cancelled', async () => {
    const event = fc.record({
      kind: fc.constantFrom('arrive', 'arrive', 'end', 'cancel'),
      principal: fc.constantFrom('ada', 'grace', 'linus'),
      which: fc.nat(100),
    });
    const run = fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.array(event, { maxLength: 60 }),
      async (queriesMax, events) => {
        const admission = new Admission();
        const limits = { queriesMax, queueMax: 6, ...patient };
        const all: (Statement & { abort: () => void })[] = [];
        for (const { kind, principal, which } of events) {
          const running = all.filter(({ is }) => is === 'running');
          if (kind === 'arrive') {
            const controller = new AbortController();
            const made = statement(admission, limits, principal, controller.signal);
            all.push(Object.assign(made, { abort: () => controller.abort() }));
          } else if (kind === 'end') running[which % (running.length || 1)]?.end();
          else all.filter(({ is }) => is === 'waiting')[which % 6]?.abort();
          await turnOfLoop();
          const [slots, queued] = [countOf(all, 'running'), countOf(all, 'waiting')];
          assert.deepEqual([admission.running, admission.queued], [slots, queued]);
          assert.ok(slots <= queriesMax && queued <= limits.queueMax);
          for (const id of new Set(all.filter(({ is }) => is === 'waiting').map(({ id }) => id))) {
            const own = countOf(all, 'running', id);
            // Nobody waits beside a slot that it may have.
            assert.ok(slots === queriesMax || own === Math.max(1, queriesMax - 1), `${id} waits beside a free slot`);
          }
        }
        for (const each of all) each.abort();
        for (const each of all) each.end();
        await Promise.all(all.map(({ done }) => done));
        assert.deepEqual([admission.running, admission.queued], [0, 0]);
      },
    );
    await fc.assert(run, { numRuns: 150, seed: 9301 });
  });

  it('serves the principal with the fewest running next', async () => {
    const admission = new Admission();
    const limits = { queriesMax: 4, queueMax: 100, ...patient };
    const ada = Array.from({ length: 12 }, () => statement(admission, limits, 'ada'));
    const grace = Array.from({ length: 12 }, () => statement(admission, limits, 'grace'));
    await turnOfLoop();
    assert.deepEqual([countOf(ada, 'running'), countOf(grace, 'running')], [3, 1]);
    ada[0]?.end();
    await turnOfLoop();
    assert.deepEqual([countOf(ada, 'running'), countOf(grace, 'running')], [2, 2]);
    for (const each of [...ada, ...grace]) each.end();
    await Promise.all([...ada, ...grace].map(({ done }) => done));
  });
});
