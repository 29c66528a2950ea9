// A server that is asked about its writes to a catalog that another one moves: while the store fails, and after the move has switched.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Insertable } from 'kysely';
import type { CatalogContext } from '../../src/catalog/changes/change_context.ts';
import { takeMove } from '../../src/catalog/moves/move_catalog.ts';
import { CatalogWrites } from '../../src/engines/copies/catalog_writes.ts';
import { WriteReporter } from '../../src/holds/write_reporter.ts';
import { objectNotFound } from '../../src/standard/failure.ts';
import { LeaseHolder } from '../../src/store/leases.ts';
import type { IntentsTable } from '../../src/store/schema.ts';
import { openSqliteStore, storeFileName } from '../../src/store/sqlite/sqlite_store.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../deadline.ts';

/** On a slower machine the end is not heard; that is the other case. */
const heardMs = 100;

/** A server on a store of its own. `failures`: so many readings of moves fail. */
async function asked(t: TestContext, failures = 0) {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-asked-'));
  // Migrations read moves, too.
  let left = 0;
  const store = await openSqliteStore({
    file: join(directory, storeFileName),
    inject: ({ sql }) => {
      if (sql.includes('from "catalog_moves"') && left-- > 0) throw new Error('the store fails');
    },
  });
  left = failures;
  const observed: unknown[] = [];
  const warehouses: string[] = [];
  const ended: string[] = [];
  const reporter = new WriteReporter({
    store,
    holder: new LeaseHolder(),
    observe: (observation) => observed.push(observation),
    writesOf: async (warehouse) => {
      if (warehouse === 'gone') throw objectNotFound('warehouses', warehouse, 'there is no such warehouse');
      warehouses.push(warehouse);
      return new CatalogWrites();
    },
    endHold: async (taskId) => {
      ended.push(taskId);
      return true;
    },
  });
  t.after(async () => {
    await reporter.stop();
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const made = { owner: 'root', version: 1, created_at: 1, created_by: 'root', updated_at: 1, updated_by: 'root' };
  const names = { category: 'catalogs', parent_id: null, name: 'c', folded_name: 'c', folded_comment: null };
  const object = { id: 'catalog', ...names, state: 'altering' as const, state_reason: null, spec: '{}', ...made };
  await store.db.insertInto('objects').values(object).execute();
  const answered = (asks: number) =>
    eventually(`the question ${asks} is answered`, async () => {
      const report = await store.db.selectFrom('move_reports').select('asks').executeTakeFirst();
      return report?.asks === asks;
    });
  return { store, reporter, observed, warehouses, ended, answered };
}

async function beginMove({ db }: Store): Promise<void> {
  const intent = { id: 'intent', object_id: 'catalog', verb: 'update' as const, undoing: 0, warehouse: 'w' };
  const nothing = { undo: null, next: null, actor: null, last_error: null, leased_by: null, lease_until: null };
  const of = { task_id: 'task', principal: 'root', created_at: 1, attempts: 0, engine_deaths: 0 };
  await db
    .insertInto('intents')
    .values({ ...intent, ...nothing, ...of, change: '{}' })
    .execute();
  await db
    .insertInto('catalog_moves')
    .values({ ...moveOf, progress: '{}', switched_at: null })
    .execute();
}

const moveOf = { task_id: 'task', catalog_id: 'catalog', target_id: 'copy', asks: 1, asked_by: 'another server' };
const switched = () => ({ progress: JSON.stringify({ from: 'w', to: 'v' }), switched_at: Date.now() });
const notice = { kind: 'move', taskId: 'task' } as const;

test('a question that could not be read when its notice came is answered', async (t) => {
  const { store, reporter, observed, answered } = await asked(t, 1);
  await beginMove(store);
  reporter.changed(notice);
  await answered(1);
  assert.equal(observed.length, 1, 'it has failed before');
});

test('a server that starts after the switch answers whether it reads the old copy', async (t) => {
  const { store, reporter, warehouses, answered } = await asked(t);
  await store.db
    .insertInto('catalog_moves')
    .values({ ...moveOf, ...switched() })
    .execute();
  reporter.reload();
  await answered(1);
  assert.deepEqual(warehouses, ['w']);
});

test('a move from a warehouse that is gone does not keep others from being answered', async (t) => {
  const { store, reporter, observed, answered } = await asked(t);
  const progress = JSON.stringify({ from: 'gone', to: 'v' });
  const earlier = { ...moveOf, ...switched(), task_id: 'earlier', target_id: 'earlier copy', progress };
  await store.db.insertInto('catalog_moves').values(earlier).execute();
  await beginMove(store);
  reporter.reload();
  await answered(1);
  assert.deepEqual(observed, []);
});

test('a hold ends when another process has the task of the one that asked', async (t) => {
  const { store, reporter, ended, answered } = await asked(t);
  await beginMove(store);
  await store.db.updateTable('catalog_moves').set({ is_held: 1, asked_by: 'ended/1' }).execute();
  const texts = { target: '{}', request: '{}', principal: '{}', submitted_by: 'root', owner: 'root' };
  const times = { submitted_at: 0, not_before: 0, attempt: 2, priority: 1, waits_for: 0 };
  const lease = { leased_by: 'ended/1', lease_until: Date.now() + 3_600_000 };
  await store.db
    .insertInto('tasks')
    .values({ task_id: 'task', type: 'move_catalog', state: 'running', ...texts, ...times, ...lease } as never)
    .execute();
  reporter.changed(notice);
  await answered(1);
  reporter.changed(notice);
  await pause(heardMs);
  assert.deepEqual(ended, [], 'while its process runs');
  await store.db.updateTable('tasks').set({ leased_by: 'live/1' }).execute();
  await eventually('the hold has ended', () => ended.length > 0);
});

test('an attempt that takes a move over ends the hold of the one before', async (t) => {
  const { store } = await asked(t);
  await beginMove(store);
  const catalog = await store.db.selectFrom('objects').selectAll().executeTakeFirstOrThrow();
  const copy = { ...catalog, id: 'copy', name: 'moving', folded_name: 'moving' };
  await store.db.insertInto('objects').values(copy).execute();
  const [intent] = await store.db.selectFrom('intents').selectAll().execute();
  await store.db
    .insertInto('intents')
    .values({ ...(intent as Insertable<IntentsTable>), id: 'other', object_id: 'copy', verb: 'create' })
    .execute();
  const changes: unknown[] = [];
  const context = {
    store,
    leases: { newLease: () => ({ leased_by: 'this', lease_until: 1 }) },
    changes: { append: (_tx: unknown, change: unknown) => changes.push(change) },
  } as unknown as CatalogContext;
  await takeMove(context, 'task');
  assert.deepEqual(changes, [], 'nothing was held');
  await store.db.updateTable('catalog_moves').set({ is_held: 1 }).execute();
  await takeMove(context, 'task');
  assert.deepEqual(changes, [notice]);
  const { is_held } = await store.db.selectFrom('catalog_moves').select('is_held').executeTakeFirstOrThrow();
  assert.equal(is_held, 0);
  await store.db.deleteFrom('intents').where('id', '=', 'other').execute();
  await assert.rejects(takeMove(context, 'task'), { code: 'TASK_INTERRUPTED' });
});

for (const isHeard of [true, false])
  test(`a question after the last one, of a move that is completed again, is answered${isHeard ? '' : ', also if the end of the former ones was not heard'}`, async (t) => {
    const { store, reporter, answered } = await asked(t);
    await beginMove(store);
    await store.db.updateTable('catalog_moves').set({ asks: 4 }).execute();
    reporter.changed(notice);
    await answered(4);
    // As catalog/moves/move_reports.ts does when the old copy is hidden; then the server ends before its task does.
    await store.db.deleteFrom('intents').execute();
    await store.db.deleteFrom('move_reports').execute();
    await store.db
      .updateTable('catalog_moves')
      .set({ ...switched(), asks: 0 })
      .execute();
    if (isHeard) {
      reporter.changed(notice);
      await pause(heardMs);
    }
    await store.db.updateTable('catalog_moves').set({ asks: 1 }).execute();
    reporter.changed(notice);
    await answered(1);
  });
