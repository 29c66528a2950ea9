// Rows that are inserted or deleted between the two statements of a batch: no page skips or repeats one that exists all the time.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import { readBatch } from '../../src/store/row_batches.ts';
import type { Store } from '../../src/store/store.ts';
import { storesOf } from '../stores.ts';

let store: Store;
before(async () => {
  store = (await storesOf(import.meta.url).open()).store;
  for (const id of ['a', 'b', 'c', 'd', 'e']) await insert(id);
});
after(() => store.close());

const insert = (id: string) =>
  store.db
    .insertInto('settings')
    .values({ key: `batch ${id}`, value: id.repeat(10) })
    .execute();

/** Does the work after the first statement. */
const afterSizes = (work: () => Promise<unknown>): KyselyPlugin => {
  let isDone = false;
  return {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (!isDone) await work();
      isDone = true;
      return result;
    },
  };
};

async function batch(limit: number, after: string, work: () => Promise<unknown>) {
  const rows = store.db
    .withPlugin(afterSizes(work))
    .selectFrom('settings')
    .selectAll()
    .where('key', '>', `batch ${after}`)
    .where('key', '<', 'batch z')
    .orderBy('key');
  const { items, hasMore } = await readBatch(rows, { key: 'key', texts: ['value'] }, limit);
  return [items.map(({ value }) => value[0]).join(''), hasMore];
}

const remove = (id: string) => store.db.deleteFrom('settings').where('key', '=', `batch ${id}`).execute();

test('a row that is inserted meanwhile pushes the last one to the next page', async () => {
  assert.deepEqual(await batch(3, '', async () => undefined), ['abc', true]);
  assert.deepEqual(await batch(3, '', () => insert('aa')), ['aab', true]);
  assert.deepEqual(await batch(3, 'b', async () => undefined), ['cde', false]);
  await remove('aa');
  assert.deepEqual(await batch(5, '', () => insert('aa')), ['aabcd', true]);
  await remove('aa');
});

test('rows that are deleted meanwhile leave the others, and those that follow', async () => {
  assert.deepEqual(await batch(2, '', () => remove('b')), ['a', true]);
  assert.deepEqual(await batch(2, '', () => Promise.all(['a', 'c'].map(remove))), ['de', false]);
});
