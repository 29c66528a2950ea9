// A server that is asked about its writes to a catalog that another one moves, while the store fails.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CatalogWrites } from '../../src/engines/copies/catalog_writes.ts';
import { WriteReporter } from '../../src/moves/write_reporter.ts';
import { LeaseHolder } from '../../src/store/leases.ts';
import { openSqliteStore, storeFileName } from '../../src/store/sqlite/sqlite_store.ts';
import { eventually } from '../deadline.ts';

test('a question that could not be read when its notice came is answered', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-asked-'));
  let failures = 1;
  const store = await openSqliteStore({
    file: join(directory, storeFileName),
    inject: ({ sql }) => {
      if (sql.includes('from "catalog_moves"') && failures-- > 0) throw new Error('the store fails');
    },
  });
  const observed: unknown[] = [];
  const reporter = new WriteReporter({
    store,
    holder: new LeaseHolder(),
    observe: (observation) => observed.push(observation),
    writesOf: async () => new CatalogWrites(),
    endHold: async () => false,
  });
  try {
    const made = { owner: 'root', version: 1, created_at: 1, created_by: 'root', updated_at: 1, updated_by: 'root' };
    const names = { category: 'catalogs', parent_id: null, name: 'c', folded_name: 'c', folded_comment: null };
    const object = { id: 'catalog', ...names, state: 'altering' as const, state_reason: null, spec: '{}', ...made };
    await store.db.insertInto('objects').values(object).execute();
    const intent = { id: 'intent', object_id: 'catalog', verb: 'update' as const, undoing: 0, warehouse: 'w' };
    const nothing = { undo: null, next: null, actor: null, last_error: null, leased_by: null, lease_until: null };
    await store.db
      .insertInto('intents')
      .values({
        ...intent,
        ...nothing,
        change: '{}',
        task_id: 'task',
        principal: 'root',
        created_at: 1,
        attempts: 0,
        engine_deaths: 0,
      })
      .execute();
    const move = { task_id: 'task', catalog_id: 'catalog', target_id: 'copy', progress: '{}', switched_at: null };
    await store.db
      .insertInto('catalog_moves')
      .values({ ...move, asks: 1, asked_by: 'another server' })
      .execute();
    reporter.changed({ kind: 'move', taskId: 'task' });
    await eventually('it is answered', async () => {
      const report = await store.db.selectFrom('move_reports').select('asks').executeTakeFirst();
      return report?.asks === 1;
    });
    assert.equal(observed.length, 1, 'it has failed before');
  } finally {
    reporter.stop();
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  }
});
