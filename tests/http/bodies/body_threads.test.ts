// The threads for large bodies alone: bodies of one principal that keep theirs do not keep those of others waiting, and none for longer than
// its limit; no place is kept for a thread that did not start, or for a client that has disconnected.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
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
function readBy(threads: BodyThreads, principalId: string, client = new EventEmitter()) {
  const block = new Uint8Array(Buffer.from('{"rows":[[1]]}'));
  const form = { mediaTypes: ['application/json'], textField: undefined, valuesMax: 10, required: true };
  const work = { blocks: [block], bytes: block.length, form, schema: undefined, rowsIn: 'rows', digested: true };
  return threads.read(principalId, work, client);
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
  const held = await readBy(threads, 'ann');
  await readBy(threads, 'bob');
  await readBy(threads, 'carl').then(({ rows }) => rows.release());
  await assert.rejects(held.rows.read([], 'v1'), { code: 'SERVER_BUSY' });
  held.rows.release();
});

test('a thread that cannot be started leaves its place to the next', async () => {
  let failures = 3;
  const threads = new BodyThreads({
    spoolDirectory: tmpdir(),
    threadsMax: 1,
    get memoryBytesMax() {
      if (failures-- > 0) throw new Error('no more threads');
      return 2 ** 27;
    },
    timeoutMs: deadlineMs(2_000),
    heldMsMax: 60_000,
  });
  started.push(threads);
  for (let n = 0; n < 3; n++) await assert.rejects(readBy(threads, 'ann'), { message: 'no more threads' });
  const { rows } = await readBy(threads, 'ann');
  rows.release();
});

test('the body of a client that disconnects no longer waits for a thread', async () => {
  const threads = newThreads(60_000);
  const { rows } = await readBy(threads, 'ann');
  const client = new EventEmitter();
  const waiting = readBy(threads, 'ann', client);
  client.emit('close');
  await assert.rejects(waiting, { code: 'STATEMENT_CANCELLED' });
  rows.release();
  assert.equal(client.listenerCount('close'), 0);
});
