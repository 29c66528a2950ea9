// Reads that are retried after their engine process ended: one at a time, and not for callers that have disconnected.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineLost } from '../../src/engines/engine_lost.ts';
import { RetriedReads } from '../../src/query/statements/retried_reads.ts';
import { Failure } from '../../src/standard/failure.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: unknown) => (error instanceof Failure ? error.code : String(error)),
  );

/** A read whose first run is lost. `again`: its second run. */
function lostRead(
  reads: RetriedReads,
  readAgain: () => Promise<unknown>,
  revive: () => Promise<unknown> = async () => {},
) {
  const controller = new AbortController();
  let runs = 0;
  const work = () => (++runs === 1 ? Promise.reject(engineLost(false)) : readAgain());
  const { signal } = controller;
  const ended = codeOf(reads.run({ warehouse: 'w', isRead: () => true, awaitRevival: revive, work, signal }));
  return { ended, leave: () => controller.abort(), runs: () => runs };
}

test('a read whose caller disconnects while it waits ends at once and is not run again', async () => {
  const reads = new RetriedReads();
  const first = Promise.withResolvers<void>();
  const read = lostRead(reads, () => first.promise);
  const two = lostRead(reads, async () => {});
  const three = lostRead(reads, async () => {});
  two.leave();
  assert.equal(await two.ended, 'STATEMENT_CANCELLED');
  assert.equal(three.runs(), 1);
  first.resolve();
  assert.deepEqual(await Promise.all([read.ended, three.ended]), ['none', 'none']);
  assert.deepEqual([read.runs(), two.runs(), three.runs()], [2, 1, 2]);
});

test('a read whose caller disconnects while the engine starts delays nobody', async () => {
  const reads = new RetriedReads();
  const started = Promise.withResolvers<void>();
  const read = lostRead(
    reads,
    async () => {},
    () => started.promise,
  );
  const two = lostRead(reads, async () => {});
  read.leave();
  assert.deepEqual(await Promise.all([read.ended, two.ended]), ['STATEMENT_CANCELLED', 'none']);
  assert.equal(read.runs(), 1);
});

test('a caller that disconnected before the loss gets no second run', async () => {
  const reads = new RetriedReads();
  const read = lostRead(reads, async () => {});
  read.leave();
  assert.equal(await read.ended, 'STATEMENT_CANCELLED');
  assert.equal(read.runs(), 1);
});
