// Searches compare long texts in turns of the event loop, in a time that grows with the texts only; a page ends when the time of a search
// is over, and the next one continues there.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { listAudit } from '../../src/access/audit/audit_reader.ts';
import { newId } from '../../src/model/ids.ts';
import { QueryHistory } from '../../src/query/statements/history.ts';
import { toRow } from '../../src/query/statements/history_rows.ts';
import { searchRows } from '../../src/store/row_search.ts';
import type { Store } from '../../src/store/store.ts';
import { listTasks } from '../../src/tasks/task_search.ts';
import { storesOf } from '../stores.ts';

const long = 'a'.repeat(65_536);
/** In a database, the comparison of a long text with it takes the product of both lengths. */
const part = `${'A'.repeat(600)}B${'A'.repeat(300)}`;

const stores = storesOf(import.meta.url);
let store: Store;
before(async () => {
  store = (await stores.open()).store;
});
after(() => store.close());

/** The number of turns of the event loop that begin while the work runs. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

const statement = (sql: string, state: 'succeeded' | 'failed') =>
  toRow(
    {
      ...{ queryId: newId(), sql, kind: 'select', state, warehouse: 'w', catalog: 'c', database: null },
      ...{ submittedBy: 'ann', owner: 'u', submittedAt: 1, startedAt: 1, endedAt: 2, elapsedMs: 1, queuedMs: 0 },
      ...{ rowCount: 1, resultBytes: 1, errorCode: null, errorMessage: null, taskId: null, plan: null },
    },
    null,
  );

test('statements are found by parts of long texts', async () => {
  const rows = [statement(`Ä${part.toLowerCase()}`, 'succeeded')];
  for (let n = 0; n < 160; n++) rows.push(statement(long, n % 2 === 0 ? 'succeeded' : 'failed'));
  for (const row of rows) await store.db.insertInto('queries').values(row).execute();
  const history = new QueryHistory({ db: store.db, entriesMax: 1000, observe: () => undefined });
  let found: readonly string[] = [];
  const search = async () => {
    found = (await history.list({ limit: 10, text: part })).items.map(({ queryId }) => queryId);
  };
  const turns = await turnsDuring(search);
  assert.deepEqual(found, [rows[0]?.query_id]);
  assert.ok(turns >= 20, `10 MiB were compared in ${turns} turns`);
  assert.equal((await history.list({ limit: 10, text: 'äAAA' })).items.length, 1, 'also without ASCII');
  const ids = (state: string) => rows.filter((row) => row.state === state).map((row) => row.query_id);
  const failed = await history.list({ limit: 100, state: 'failed', text: 'AAA' });
  assert.deepEqual(
    failed.items.map(({ queryId }) => queryId),
    ids('failed').reverse(),
  );
  const turnsOfRunning = await turnsDuring(async () => {
    assert.deepEqual(await history.list({ limit: 10, state: 'running' }), {
      items: [],
      hasMore: false,
      examined: undefined,
    });
  });
  // On PostgreSQL, the answer of the server takes turns, too.
  if (stores.name === 'SQLite')
    assert.ok(turnsOfRunning < 10, `what has ended was examined in ${turnsOfRunning} turns for those that run`);
  const two = await history.list({ limit: 2, state: 'failed', after: failed.items[77]?.queryId });
  assert.deepEqual(
    two.items.map(({ queryId }) => queryId),
    ids('failed').slice(0, 2).reverse(),
  );
});

test('audit events are found by parts of their targets, whatever characters these have', async () => {
  const targets = ['/api/v2/a_b%25c', '/api/v2/aXb%25c', `/api/v2/${long.slice(0, 8000)}`, null];
  for (const [n, target] of targets.entries()) {
    const digests = { digest: 'd', sequence: n, server_id: 's' };
    const who = { principal: 'ann', principal_id: 'u', request_id: null, address: null, object_id: null };
    const event = { event_id: newId(), at: 1_000 + n, action: 'x', outcome: '0', target, details: null };
    await store.db
      .insertInto('audit_events')
      .values({ ...event, ...who, ...digests })
      .execute();
  }
  const search = async (filter: object) =>
    (await listAudit(store, { limit: 10, ...filter })).items.map(({ sequence }) => Number(sequence));
  assert.deepEqual(await search({ target: 'A_B%25' }), [0]);
  assert.deepEqual(await search({ target: part }), []);
  assert.deepEqual(await search({ target: 'aaaa', principal: 'ann' }), [2]);
  assert.deepEqual(await search({ from: 1_001, to: 1_003 }), [2, 1]);
  assert.deepEqual(await search({ principal: 'bob' }), []);
});

test('a task is found by its label', async () => {
  assert.deepEqual((await listTasks(store.db, { limit: 10, filter: { label: 'monday' } })).items, []);
});

test('a search ends after its time, and the next one continues', async () => {
  const numbers = Array.from({ length: 2000 }, (_, n) => ({ id: String(n), n, bytes: 10_000 }));
  let nowMs = 0;
  const batches: number[] = [];
  const page = (from: number, limit: number, fits: (n: number) => boolean) =>
    searchRows<(typeof numbers)[number], number>({
      limit,
      idOf: String,
      clock: () => nowMs,
      next: async (last, count) => numbers.slice((last?.n ?? from) + 1).slice(0, count),
      examine: async (batch) => {
        batches.push(batch.length);
        nowMs += 1100;
        return batch.map(({ n }) => n).filter(fits);
      },
    });
  const isRare = (n: number) => n % 400 === 399;
  const found: number[] = [];
  let pages = 0;
  for (let from: number | undefined = -1; from !== undefined; pages++) {
    const { items, examined }: Awaited<ReturnType<typeof page>> = await page(from, 10, isRare);
    found.push(...items);
    from = examined?.n;
  }
  assert.deepEqual(found, [399, 799, 1199, 1599, 1999]);
  assert.ok(pages > 10, `${pages} pages`);
  assert.ok(Math.max(...batches) <= 53, '512 KiB at a time');
  const full = await page(-1, 3, () => true);
  assert.deepEqual(full, { items: [0, 1, 2], hasMore: true });
});
