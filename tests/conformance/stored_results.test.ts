// The quota of stored results of servers on one store: what each records counts for all, also when they do so at the same moment, until the
// result is removed or its task has failed.
import assert from 'node:assert/strict';
import { after, it } from 'node:test';
import type { Insertable } from 'kysely';
import { lowestIdAt, newId } from '../../src/model/ids.ts';
import { ResultAccess } from '../../src/query/results/result_access.ts';
import { ResultQuota } from '../../src/query/results/result_quota.ts';
import { resultBytesMigration } from '../../src/store/migrations/files.ts';
import { postgresqlColumnTypes } from '../../src/store/postgresql/column_values.ts';
import type { ResultSourcesTable, TaskState, TasksTable } from '../../src/store/schema.ts';
import { sqliteColumnTypes } from '../../src/store/sqlite/sqlite_dialect.ts';
import type { Store } from '../../src/store/store.ts';
import { storesOf } from '../stores.ts';

const stores = storesOf(import.meta.url);
const opened: Store[] = [];
after(() => Promise.all(opened.map((store) => store.close())));

const principalResultBytesMax = 100;

async function openShared(): Promise<Store> {
  const { store } = await stores.open({ isShared: true });
  opened.push(store);
  return store;
}

function serverOn(store: Store) {
  const quota = new ResultQuota(store.db, { principalResultBytesMax });
  const authorizer = { isAllowedOn: () => true };
  const access = new ResultAccess({ store, catalog: { findChain: async () => [] }, authorizer, quota });
  const record = (taskId: string, bytes: number, more: { owner?: string; isForced?: boolean } = {}) => {
    const { owner: id = 'ann', isForced = false } = more;
    const principal = { id, name: id };
    return access.recordRows({ taskId, principal }, { sources: [], storedAs: null, bytes, isForced });
  };
  return { store, quota, access, record };
}

async function twoServers() {
  const store = await openShared();
  return [serverOn(store), serverOn(store)] as const;
}

async function addTask({ db }: Store, taskId: string, state: TaskState, result: object | null = null): Promise<void> {
  const times = { submitted_at: 0, not_before: 0, attempt: 1 };
  const texts = { target: '{}', request: '{}', principal: '{}', submitted_by: 'ann' };
  const task = {
    task_id: taskId,
    type: 'run_query',
    state,
    owner: 'ann',
    priority: 1,
    waits_for: 0,
    result: result && JSON.stringify(result),
    ...times,
    ...texts,
  };
  await db
    .insertInto('tasks')
    .values(task as Insertable<TasksTable>)
    .execute();
}

it(`${stores.name}: counts what all servers have recorded`, async () => {
  const [one, two] = await twoServers();
  await one.record('old', 60);
  await two.record('t1', 30);
  await assert.rejects(one.record('t2', 20), {
    code: 'RESULT_QUOTA_EXCEEDED',
    result: { principalResultBytesMax, storedBytes: 90, resultBytes: 20 },
  });
  await one.record('t2', 100, { owner: 'bob' });
  await two.record('t1', 40);
  for (const { quota } of [one, two]) await assert.rejects(quota.requireAny('ann'), { code: 'RESULT_QUOTA_EXCEEDED' });
  await one.record('t3', 20, { isForced: true });
  await two.access.remove('old');
  await one.quota.requireAny('ann');
  await one.record('t4', 40);
  await assert.rejects(two.quota.requireAny('ann'), { code: 'RESULT_QUOTA_EXCEEDED' });
});

it(`${stores.name}: is not exceeded by results that servers store at the same moment`, async () => {
  const servers = await twoServers();
  const all = await Promise.allSettled(
    Array.from({ length: 10 }, (_, i) => servers[i % 2 === 0 ? 0 : 1].record(`t${i}`, 30)),
  );
  assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 3);
});

it(`${stores.name}: limits a result while it grows by what was stored when it began`, async () => {
  const { quota, record } = serverOn(await openShared());
  await record('t1', 60);
  const require = quota.ofGrowing('ann');
  await require(40);
  await assert.rejects(require(41), { code: 'RESULT_QUOTA_EXCEEDED' });
});

it(`${stores.name}: a result read again keeps its size, and one of files has none`, async () => {
  const { quota, access, record } = serverOn(await openShared());
  await access.record('t1', []);
  await record('t1', 100);
  await access.record('t1', []);
  await assert.rejects(quota.requireAny('ann'), { code: 'RESULT_QUOTA_EXCEEDED' });
});

it(`${stores.name}: a result whose task was not recorded or has failed counts no more after a sweep`, async () => {
  const { store, access, quota, record } = serverOn(await openShared());
  const now = Date.now();
  const [failed, kept, recent] = [newId(), newId(), newId()] as const;
  const early = lowestIdAt(now - 10_000);
  for (const id of [early, failed, kept, recent]) await record(id, 25);
  await assert.rejects(quota.requireAny('ann'), { code: 'RESULT_QUOTA_EXCEEDED' });
  await addTask(store, failed, 'failed');
  await addTask(store, kept, 'succeeded');
  await access.sweep(now - 5_000);
  const rows = await store.db.selectFrom('result_sources').select('task_id').orderBy('task_id').execute();
  assert.deepEqual(
    rows.map(({ task_id }) => task_id),
    [kept, recent].toSorted(),
  );
  assert.equal(await access.storedAs(early), undefined);
});

it(`${stores.name}: the results of releases that did not record sizes count after a sweep`, async () => {
  const store = await openShared();
  const { db } = store;
  await db.schema.dropIndex('result_sources_owner').execute();
  for (const column of ['owner', 'bytes']) await db.schema.alterTable('result_sources').dropColumn(column).execute();
  const addResult = async (result: object) => {
    const id = newId();
    await addTask(store, id, 'succeeded', result);
    await db
      .insertInto('result_sources')
      .values({ task_id: id, sources: '[]' } as Insertable<ResultSourcesTable>)
      .execute();
  };
  // More than one page.
  for (let i = 0; i < 502; i++) await addResult({ statistics: { resultBytes: i % 250 === 0 ? 20 : 0 } });
  await addResult({ statistics: { resultBytes: 1000 }, files: [] });
  await resultBytesMigration.up(db, stores.name === 'PostgreSQL' ? postgresqlColumnTypes : sqliteColumnTypes);
  const { record, access } = serverOn(store);
  await access.fill();
  await assert.rejects(record('new', 41), { result: { principalResultBytesMax, storedBytes: 60, resultBytes: 41 } });
  await record('new', 40);
});
