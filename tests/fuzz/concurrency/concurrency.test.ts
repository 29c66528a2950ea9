// Concurrent clients on the same few names, at each level of the catalog. FUZZ_SEED replays their requests (not the timing).
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Budget, runsAll } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import { Random, seedFrom } from '../../random.ts';
import { start, type TestServer } from '../../server.ts';
import { levels, runConcurrently } from './concurrency.ts';
import { linearize, type Operation } from './linear.ts';
import { moveRows } from './moving_rows.ts';
import { readRows } from './reading_rows.ts';

const seed = seedFrom('FUZZ_SEED');
const rounds = Number(process.env.FUZZ_ROUNDS ?? 4);
/** A sample is short, since every order of its operations may have to be tried. */
const operationsEach = runsAll ? 40 : 24;
const budget = new Budget(6, levels.length + 2);

describe('concurrent clients', () => {
  let server: TestServer;
  before(async () => {
    server = await start();
  });
  after(() => server.close());

  for (const level of levels) {
    test(`on the same ${level}`, { timeout: deadlineMs(120_000 + rounds * 10_000) }, async (t) => {
      t.diagnostic(`FUZZ_SEED=${seed}`);
      const hasTime = budget.part();
      for (let round = 0; round < rounds && (round === 0 || hasTime()); round++) {
        const random = new Random(seed).fork(round);
        t.diagnostic(JSON.stringify(await runConcurrently(server, { random, level, clients: 8, operationsEach })));
      }
    });
  }

  test('on rows, while their table changes', { timeout: deadlineMs(120_000 + rounds * 10_000) }, async (t) => {
    t.diagnostic(`FUZZ_SEED=${seed}`);
    const hasTime = budget.part();
    for (let round = 0; round < rounds && (round === 0 || hasTime()); round++) {
      const random = new Random(seed).fork(round);
      t.diagnostic(JSON.stringify(await moveRows(server, { random, inserters: 4, operationsEach })));
    }
  });

  test('on rows, some reading rows that others insert', {
    timeout: deadlineMs(120_000 + rounds * 10_000),
  }, async (t) => {
    t.diagnostic(`FUZZ_SEED=${seed}`);
    const hasTime = budget.part();
    for (let round = 0; round < rounds && (round === 0 || hasTime()); round++) {
      t.diagnostic(JSON.stringify(await readRows(server, new Random(seed).fork(round), 40)));
    }
  });
});

test('an order that explains nothing is distinguished from one that does', () => {
  const write = (start: number, end: number, value: number): Operation<number> => ({
    start,
    end,
    description: `write ${value}`,
    apply: () => value,
  });
  const read = (start: number, end: number, value: number): Operation<number> => ({
    start,
    end,
    description: `read ${value}`,
    apply: (state) => (state === value ? state : undefined),
  });
  assert(linearize([write(0, 10, 1), read(1, 2, 0), read(3, 4, 1), read(5, 6, 1)], 0, String).explained);
  assert(!linearize([write(0, 10, 1), read(1, 2, 1), read(3, 4, 0)], 0, String).explained);
  assert(!linearize([write(0, 1, 1), write(2, 3, 2), read(4, 5, 1)], 0, String).explained);
});
