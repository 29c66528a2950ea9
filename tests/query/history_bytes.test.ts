// The history of one user is limited in bytes: beyond them, its oldest statements are removed, and those of others remain.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QueryHistory } from '../../src/query/statements/history.ts';
import type { QueryEntry } from '../../src/query/statements/history_entry.ts';
import { storesOf } from '../stores.ts';

const entryOf = (queryId: string, owner: string, sql: string): QueryEntry => ({
  queryId,
  sql,
  kind: 'select',
  state: 'succeeded',
  warehouse: 'w',
  catalog: 'c',
  database: null,
  submittedBy: owner,
  owner,
  submittedAt: 1,
  startedAt: 1,
  endedAt: 2,
  elapsedMs: 1,
  queuedMs: 0,
  rowCount: 0,
  resultBytes: 0,
  errorCode: null,
  errorMessage: null,
  taskId: null,
  plan: null,
});

test('the oldest statements of a user are removed beyond a number of bytes', async (t) => {
  const { store } = await storesOf(import.meta.url).open();
  t.after(() => store.close());
  const observed: unknown[] = [];
  const history = new QueryHistory({
    db: store.db,
    entriesMax: 100,
    ownerBytesMax: 100_000,
    observe: (event) => void observed.push(event),
  });
  const run = async (queryId: string, owner: string, sql: string) => {
    history.begin(entryOf(queryId, owner, sql), () => {});
    history.end(queryId, {});
    await history.flush();
  };
  await run('0', 'ben', 'SELECT 1');
  for (let i = 1; i <= 9; i++) await run(String(i), 'ann', 'ä'.repeat(12_000));
  const { items } = await history.list({ limit: 100 });
  assert.deepEqual(
    items.map(({ queryId }) => queryId),
    ['9', '8', '7', '6', '0'],
  );
  assert.deepEqual(observed, []);
});
