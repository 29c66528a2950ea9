// The threads that read large bodies are shared fairly between principals, and held by nobody for longer than their limit.
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { after, test } from 'node:test';
import { BodyThreads } from '../../../src/http/bodies/body_threads.ts';

const started: BodyThreads[] = [];
after(() => Promise.all(started.map((threads) => threads.stop())));

function newThreads(heldMsMax: number): BodyThreads {
  const limits = { threadsMax: 1, memoryBytesMax: 2 ** 27, timeoutMs: 60_000, heldMsMax };
  const threads = new BodyThreads({ spoolDirectory: tmpdir(), ...limits });
  started.push(threads);
  return threads;
}

function readBy(threads: BodyThreads, principalId: string) {
  const block = new Uint8Array(Buffer.from('{"rows":[[1]]}'));
  const form = { mediaTypes: ['application/json'], textField: undefined, valuesMax: 10, required: true };
  const work = { blocks: [block], bytes: block.length, form, schema: undefined, rowsIn: 'rows', digested: true };
  return threads.read(work, principalId);
}

test('bodies of several principals are read in turn', async () => {
  const threads = newThreads(60_000);
  const order: string[] = [];
  const first = await readBy(threads, 'ann');
  const all = ['ann', 'ann', 'bob', 'ann', 'bob'].map(async (principalId) => {
    const { rows } = await readBy(threads, principalId);
    order.push(principalId);
    rows.release();
  });
  first.rows.release();
  await Promise.all(all);
  assert.deepEqual(order, ['ann', 'bob', 'ann', 'bob', 'ann']);
});

test('rows that are not used in time are dropped, so that others are read', async () => {
  const threads = newThreads(20);
  const held = await readBy(threads, 'ann');
  await readBy(threads, 'bob').then(({ rows }) => rows.release());
  await assert.rejects(held.rows.read([], 'v1'), { code: 'SERVER_BUSY' });
  held.rows.release();
});
