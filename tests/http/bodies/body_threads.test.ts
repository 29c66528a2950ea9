// The threads for large bodies alone: bodies of one principal that keep theirs do not keep those of others waiting, and none for longer than
// its limit.
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { after, test } from 'node:test';
import { BodyThreads } from '../../../src/http/bodies/body_threads.ts';
import { deadlineMs } from '../../deadline.ts';

const started: BodyThreads[] = [];
after(() => Promise.all(started.map((threads) => threads.stop())));

function newThreads(heldMsMax: number): BodyThreads {
  const limits = { threadsMax: 1, memoryBytesMax: 2 ** 27, timeoutMs: deadlineMs(10_000), heldMsMax };
  const threads = new BodyThreads({ spoolDirectory: tmpdir(), ...limits });
  started.push(threads);
  return threads;
}

/** A body with rows keeps its thread until they are read or released. */
function readBy(threads: BodyThreads, principalId: string) {
  const block = new Uint8Array(Buffer.from('{"rows":[[1]]}'));
  const form = { mediaTypes: ['application/json'], textField: undefined, valuesMax: 10, required: true };
  const work = { blocks: [block], bytes: block.length, form, schema: undefined, rowsIn: 'rows', digested: true };
  return threads.read(principalId, work);
}

test('a principal whose bodies have all threads waits for one of its own; another has a thread at once', async () => {
  const threads = newThreads(60_000);
  const read = (principalId: string) => readBy(threads, principalId);
  const { rows } = await read('many');
  const next = read('many');
  const other = await read('few');
  const order: string[] = [];
  const ofMany = next.then(({ rows: later }) => {
    order.push('next');
    later.release();
  });
  // As many again, and no more: this one waits for any thread.
  const third = read('third').then(({ rows: later }) => {
    order.push('third');
    later.release();
  });
  assert.deepEqual(order, []);
  other.rows.release();
  await third;
  assert.deepEqual(order, ['third']);
  rows.release();
  await ofMany;
});

test('rows that are not used in time are dropped, so that others are read', async () => {
  const threads = newThreads(20);
  const [held] = await Promise.all([readBy(threads, 'ann'), readBy(threads, 'bob')]);
  await readBy(threads, 'carl').then(({ rows }) => rows.release());
  await assert.rejects(held.rows.read([], 'v1'), { code: 'SERVER_BUSY' });
  held.rows.release();
});
