// Admission to a warehouse: slots and queue are shared fairly between principals; shown on random sequences of arrivals, ends and
// cancellations against the rules of admission.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as pause, setImmediate as turnOfLoop } from 'node:timers/promises';
import fc from 'fast-check';
import { Admission, type AdmissionLimits } from '../../src/engines/admission.ts';
import type { RefusedCaller } from '../../src/engines/retry_queue.ts';
import { Failure } from '../../src/standard/failure.ts';
import { eventually } from '../deadline.ts';

const longQueueWait = { queueWaitMs: 60_000 };
const notAborted = new AbortController().signal;

/** A statement that ends when `end` is called. */
function statement(admission: Admission, limits: AdmissionLimits, id: string, signal = notAborted, isTask = false) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const state = {
    id,
    is: 'waiting' as 'waiting' | 'running' | 'ended' | 'refused',
    end: resolve,
    done: Promise.resolve(),
  };
  state.done = admission
    .run(limits, { principal: { id }, signal, isTask }, () => {
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
const countOf = (all: readonly Statement[], state: Statement['is'], id?: string) =>
  all.filter((entry) => entry.is === state && (id === undefined || entry.id === id)).length;

describe('admission', () => {
  it('never gives all slots to one principal', async () => {
    const admission = new Admission();
    const limits = { queriesMax: 4, queueMax: 100, ...longQueueWait };
    const queued = Array.from({ length: 40 }, () => statement(admission, limits, 'ada'));
    await turnOfLoop();
    assert.equal(countOf(queued, 'running'), 3);
    const single = statement(admission, limits, 'grace');
    await turnOfLoop();
    assert.equal(single.is, 'running');
    for (const statement of [single, ...queued]) statement.end();
    await Promise.all([single, ...queued].map(({ done }) => done));
    assert.deepEqual([admission.running, admission.queued], [0, 0]);
  });

  it('admits a principal that has none running while others hold all slots, up to twice as many', async () => {
    const admission = new Admission();
    const limits = { queriesMax: 2, queueMax: 100, ...longQueueWait };
    const ids = ['ada', 'grace', 'linus', 'barbara', 'edsger'];
    const first = ids.map((id) => statement(admission, limits, id));
    const second = statement(admission, limits, 'linus');
    await turnOfLoop();
    assert.deepEqual(
      [...first, second].map(({ is }) => is),
      ['running', 'running', 'running', 'running', 'waiting', 'waiting'],
    );
    first[0]?.end();
    await turnOfLoop();
    assert.deepEqual([first[4]?.is, second.is], ['running', 'waiting']);
    for (const statement of [...first, second]) statement.end();
    await Promise.all([...first, second].map(({ done }) => done));
  });

  it('shares slots between the requests of a principal and its tasks, which wait as long as necessary', async () => {
    const admission = new Admission();
    const limits = { queriesMax: 4, queueMax: 100, queueWaitMs: 1 };
    const tasks = Array.from({ length: 5 }, () => statement(admission, limits, 'ada', notAborted, true));
    await pause(20);
    assert.deepEqual([countOf(tasks, 'running'), countOf(tasks, 'waiting')], [3, 2]);
    const request = statement(admission, limits, 'ada');
    await turnOfLoop();
    assert.equal(request.is, 'running');
    for (const statement of [...tasks, request]) statement.end();
    await Promise.all([...tasks, request].map(({ done }) => done));
  });

  it('gives a principal only a few slots while others are active, and all slots but one when it is alone', async () => {
    let now = 0;
    const admission = new Admission(() => now);
    const limits = { queriesMax: 16, sharedMax: 3, queueMax: 100, ...longQueueWait };
    const grace = statement(admission, limits, 'grace');
    const ada = Array.from({ length: 20 }, () => statement(admission, limits, 'ada'));
    await turnOfLoop();
    assert.equal(countOf(ada, 'running'), 3);
    grace.end();
    await grace.done;
    now = 1000;
    assert.equal(statement(admission, limits, 'ada', notAborted, true).is, 'running', 'one of its tasks');
    const barbara = Array.from({ length: 3 }, () => statement(admission, limits, 'barbara'));
    await turnOfLoop();
    assert.deepEqual([countOf(ada, 'running'), countOf(barbara, 'running')], [3, 3]);
    for (const { end } of barbara) end();
    await Promise.all(barbara.map(({ done }) => done));
    // No event signals that the others have left.
    now = 20_000;
    while (countOf(ada, 'running') < 15) await pause(20);
    for (const { end } of ada) end();
    await Promise.all(ada.map(({ done }) => done));
  });

  it('admits a statement that began to wait for a slot, and then waits because of another one of its principal, when that is alone', async () => {
    let now = 0;
    const admission = new Admission(() => now);
    const limits = { queriesMax: 4, sharedMax: 1, queueMax: 100, ...longQueueWait };
    const grace = Array.from({ length: 3 }, () => statement(admission, limits, 'grace'));
    const ada = Array.from({ length: 2 }, () => statement(admission, limits, 'ada'));
    await turnOfLoop();
    assert.deepEqual([countOf(grace, 'running'), countOf(ada, 'running')], [3, 1]);
    now = 1000;
    for (const { end } of grace) end();
    await Promise.all(grace.map(({ done }) => done));
    assert.equal(ada[1]?.is, 'waiting');
    now = 20_000;
    await eventually('it runs', () => ada[1]?.is === 'running');
    for (const { end } of ada) end();
    await Promise.all(ada.map(({ done }) => done));
  });

  it('does not count a caller that one queue refused as returned to another', async () => {
    const [first, second] = [new Admission(), new Admission()];
    const limits = { queriesMax: 1, queueMax: 0, ...longQueueWait };
    const runningStatements = [first, second].map((admission) => statement(admission, limits, 'ada'));
    await turnOfLoop();
    const caller: RefusedCaller = { since: undefined, due: undefined };
    const turn = { principal: { id: 'ada' }, signal: notAborted, caller };
    assert.throws(() => first.requireQueueCapacity(limits, turn), isWarehouseBusy);
    const { due } = caller;
    for (const { end } of runningStatements) end();
    await Promise.all(runningStatements.map(({ done }) => done));
    await second.requireQueueCapacity(limits, turn);
    assert.equal(caller.due, due);
    await first.requireQueueCapacity(limits, turn);
    assert.equal(caller.due, undefined);
  });

  it('gives the slot of a one-slot warehouse to any principal', async () => {
    const admission = new Admission();
    const onlyStatement = statement(admission, { queriesMax: 1, queueMax: 0, ...longQueueWait }, 'ada');
    await turnOfLoop();
    assert.equal(onlyStatement.is, 'running');
    onlyStatement.end();
    await onlyStatement.done;
  });

  it('makes room in a full queue for a principal with fewer waiting statements: the newest of the longest queue is refused', async () => {
    const admission = new Admission();
    const limits = { queriesMax: 2, queueMax: 3, ...longQueueWait };
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
    for (const statement of [...ada, first, second]) statement.end();
    await Promise.all([...ada, first, second].map(({ done }) => done));
  });

  it('is work-conserving and fair for any sequence of arrivals, ends and cancellations', async () => {
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
        const limits = { queriesMax, queueMax: 6, ...longQueueWait };
        const all: (Statement & { abort: () => void })[] = [];
        for (const { kind, principal, which } of events) {
          const running = all.filter(({ is }) => is === 'running');
          if (kind === 'arrive') {
            const controller = new AbortController();
            const entry = statement(admission, limits, principal, controller.signal);
            all.push(Object.assign(entry, { abort: () => controller.abort() }));
          } else if (kind === 'end') running[which % (running.length || 1)]?.end();
          else all.filter(({ is }) => is === 'waiting')[which % 6]?.abort();
          await turnOfLoop();
          const [slots, queued] = [countOf(all, 'running'), countOf(all, 'waiting')];
          assert.deepEqual([admission.running, admission.queued], [slots, queued]);
          assert.ok(slots <= 2 * queriesMax && queued <= limits.queueMax);
          for (const id of new Set(all.filter(({ is }) => is === 'waiting').map(({ id }) => id))) {
            const ownRunning = countOf(all, 'running', id);
            // Nobody waits while a slot is free for it.
            const mayHave = slots < queriesMax ? Math.max(1, queriesMax - 1) : slots < 2 * queriesMax ? 1 : 0;
            assert.ok(ownRunning >= mayHave, `${id} waits beside a free slot`);
          }
        }
        for (const statement of all) statement.abort();
        for (const statement of all) statement.end();
        await Promise.all(all.map(({ done }) => done));
        assert.deepEqual([admission.running, admission.queued], [0, 0]);
      },
    );
    await fc.assert(run, { numRuns: 150, seed: 9301 });
  });

  it('serves the principal with the fewest running statements next', async () => {
    const admission = new Admission();
    const limits = { queriesMax: 4, queueMax: 100, ...longQueueWait };
    const ada = Array.from({ length: 12 }, () => statement(admission, limits, 'ada'));
    const grace = Array.from({ length: 12 }, () => statement(admission, limits, 'grace'));
    await turnOfLoop();
    assert.deepEqual([countOf(ada, 'running'), countOf(grace, 'running')], [3, 1]);
    ada[0]?.end();
    await turnOfLoop();
    assert.deepEqual([countOf(ada, 'running'), countOf(grace, 'running')], [2, 2]);
    for (const statement of [...ada, ...grace]) statement.end();
    await Promise.all([...ada, ...grace].map(({ done }) => done));
  });

  it('serves each of 1,000 clients that honour Retry-After, none refused for long, and is never idle', async () => {
    const crowd = await simulateClients({ clients: 1000, principals: 1, seconds: 40 });
    assert.deepEqual({ neverServed: crowd.neverServed, idleTicks: crowd.idleTicks }, { neverServed: 0, idleTicks: 0 });
    // 1,000 clients at about 150 a second: nearly 7 s, if they are served in order.
    assert.ok(crowd.refusedForMsMax < 20_000, `refused for ${crowd.refusedForMsMax} ms`);
    assert.ok(crowd.refused < 2 * crowd.served, `${crowd.refused} refused, ${crowd.served} served`);
  });

  it('does the same for clients that open a connection for each request', async () => {
    const crowd = await simulateClients({ clients: 1000, principals: 1, seconds: 40, reconnecting: true });
    assert.deepEqual({ neverServed: crowd.neverServed, idleTicks: crowd.idleTicks }, { neverServed: 0, idleTicks: 0 });
    assert.ok(crowd.refusedForMsMax < 20_000, `refused for ${crowd.refusedForMsMax} ms`);
  });

  it('gives the place of a closed connection to the next one of the same principal, once, when its time has come', async () => {
    let now = 0;
    const admission = new Admission(() => now);
    const limits = { queriesMax: 1, queueMax: 1, ...longQueueWait };
    const requireOn = (id: string, caller: RefusedCaller) =>
      admission.requireQueueCapacity(limits, { principal: { id }, signal: notAborted, caller });
    const newConnection = (): RefusedCaller => ({ since: undefined, due: undefined });
    const [runs, waits] = [statement(admission, limits, 'ada'), statement(admission, limits, 'ada')];
    await turnOfLoop();
    const refused = newConnection();
    assert.throws(() => requireOn('ada', refused), isWarehouseBusy);
    refused.disconnected?.();
    waits.end();
    runs.end();
    await Promise.all([runs.done, waits.done]);
    now = 500;
    const laterStatements = ['ada', 'ada', 'grace'].map((id) => statement(admission, limits, id));
    await turnOfLoop();
    assert.throws(() => requireOn('ada', newConnection()), isWarehouseBusy, 'too early');
    now = 2000;
    assert.throws(() => requireOn('grace', { ...newConnection(), since: 2000 }), isWarehouseBusy, 'another principal');
    const returned = newConnection();
    requireOn('ada', returned);
    assert.equal(returned.since, 0);
    assert.throws(() => requireOn('ada', newConnection()), isWarehouseBusy, 'only one of them');
    for (const statement of laterStatements) statement.end();
    await Promise.all(laterStatements.map(({ done }) => done));
  });

  it('does the same among 100 principals', async () => {
    const crowd = await simulateClients({ clients: 1000, principals: 100, seconds: 40 });
    assert.deepEqual({ neverServed: crowd.neverServed, idleTicks: crowd.idleTicks }, { neverServed: 0, idleTicks: 0 });
    assert.ok(crowd.refusedForMsMax < 20_000, `refused for ${crowd.refusedForMsMax} ms`);
  });
});

const isWarehouseBusy = (error: unknown) => error instanceof Failure && error.code === 'WAREHOUSE_BUSY';

const tickMs = 10;
const statementTicks = 10;

/** Clients in a loop with a simulated clock: after a response they return at the next tick; after a refusal, after their Retry-After. */
async function simulateClients(options: {
  readonly clients: number;
  readonly principals: number;
  readonly seconds: number;
  readonly reconnecting?: boolean;
}) {
  let now = 0;
  const admission = new Admission(() => now);
  const limits = { queriesMax: 16, queueMax: 100, queueWaitMs: 3_600_000 };
  const clients = Array.from({ length: options.clients }, (_, i) => ({
    id: `p${i % options.principals}`,
    caller: { since: undefined, due: undefined } as RefusedCaller,
    nextAt: i % 1000,
    firstAt: undefined as number | undefined,
    wasRefused: false,
    served: 0,
  }));
  const ending: { readonly at: number; readonly end: () => void }[] = [];
  const result = { served: 0, refused: 0, refusedForMsMax: 0, idleTicks: 0, neverServed: 0 };
  const send = async (client: (typeof clients)[number]) => {
    client.firstAt ??= now;
    client.nextAt = Number.POSITIVE_INFINITY;
    if (options.reconnecting) {
      client.caller.disconnected?.();
      client.caller = { since: undefined, due: undefined };
    }
    const turn = { principal: { id: client.id }, signal: notAborted, caller: client.caller };
    try {
      admission.requireQueueCapacity(limits, turn);
      await admission.run(limits, turn, () => {
        const { promise, resolve } = Promise.withResolvers<void>();
        ending.push({ at: now + statementTicks * tickMs, end: resolve });
        return promise;
      });
      if (client.wasRefused) result.refusedForMsMax = Math.max(result.refusedForMsMax, now - client.firstAt);
      client.served++;
      result.served++;
      client.firstAt = undefined;
      client.wasRefused = false;
      client.nextAt = now + tickMs;
    } catch (error) {
      assert.ok(error instanceof Failure && error.retryAfterSeconds !== undefined && error.retryAfterSeconds >= 1);
      result.refused++;
      client.wasRefused = true;
      client.nextAt = now + error.retryAfterSeconds * 1000;
    }
  };
  const sent: Promise<void>[] = [];
  for (; now < options.seconds * 1000; now += tickMs) {
    while (ending[0] && ending[0].at <= now) ending.shift()?.end();
    for (const client of clients) if (client.nextAt <= now) sent.push(send(client));
    await turnOfLoop();
    if (now > 2000 && admission.queued === 0) result.idleTicks++;
  }
  result.neverServed = clients.filter(({ served }) => served === 0).length;
  for (const client of clients)
    if (client.wasRefused) result.refusedForMsMax = Math.max(result.refusedForMsMax, now - (client.firstAt as number));
  for (const client of clients) client.nextAt = Number.POSITIVE_INFINITY;
  while (admission.running > 0) {
    for (const { end } of ending.splice(0)) end();
    await turnOfLoop();
  }
  await Promise.all(sent);
  return result;
}
