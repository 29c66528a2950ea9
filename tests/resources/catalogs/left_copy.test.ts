// The copy that a move leaves behind: it is hidden before it is deleted, also where nothing retains it, and no other catalog of its warehouse gets
// its name before that.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { hiddenCopiesMigration } from '../../../src/store/migrations/catalog_moves.ts';
import type { TaskState } from '../../../src/store/schema.ts';
import { sqliteColumnTypes } from '../../../src/store/sqlite/sqlite_dialect.ts';
import { openSqliteStore } from '../../../src/store/sqlite/sqlite_store.ts';
import { eventually } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';

const applied: string[] = [];
/** Hold the change that hides a copy, by the name of its catalog. */
const hidden = { lake: Promise.withResolvers<void>(), sea: Promise.withResolvers<void>() };

const held = (warehouse: EngineWarehouse): EngineWarehouse =>
  new Proxy(warehouse, {
    get(target, key) {
      if (key !== 'apply') return Reflect.get(target, key, target);
      const apply: EngineWarehouse['apply'] = async (change, options) => {
        const isFirst = change.kind === 'hideCatalog' && !applied.includes(change.kind);
        applied.push(change.kind);
        if (isFirst) await hidden[change.catalog.name as keyof typeof hidden].promise;
        return target.apply(change, options);
      };
      return apply;
    },
  });
const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => held(engine.open(options)) });

const dataDir = mkdtempSync(join(tmpdir(), 'tabularium-left-'));
let server: TestServer;
let services: Services;
before(async () => {
  const assembled = (all: Services) => {
    services = all;
  };
  server = await start({ dataDir }, { wrapEngine, assembled });
});
after(async () => {
  for (const { resolve } of Object.values(hidden)) resolve();
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
});

test('a copy is not deleted before it was hidden', async () => {
  (await server.post('/api/v2/warehouses', { name: 'other' })).is(201);
  (await server.put('/api/v2/catalogs/lake')).is(201);
  (await server.put('/api/v2/catalogs/lake/databases/d')).is(201);
  const accepted = (await server.post('/api/v2/catalogs/lake/move', { warehouse: 'other', retainSeconds: 0 })).is(202);
  await eventually('the catalog has moved', () => applied.includes('hideCatalog'));
  await services.catalog.purge();
  assert.ok(!applied.includes('dropCatalog'), applied.join(', '));
  hidden.lake.resolve();
  (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
  await services.catalog.purge();
  assert.deepEqual(applied.slice(-2), ['hideCatalog', 'dropCatalog']);
});

test('no catalog of its warehouse gets the name of a copy before that is hidden', async () => {
  (await server.put('/api/v2/catalogs/sea')).is(201);
  (await server.put('/api/v2/catalogs/sea/databases/old')).is(201);
  (await server.put('/api/v2/catalogs/spare')).is(201);
  applied.length = 0;
  const accepted = (await server.post('/api/v2/catalogs/sea/move', { warehouse: 'other' })).is(202);
  await eventually('the catalog has moved', () => applied.includes('hideCatalog'));
  (await server.post('/api/v2/catalogs/sea/rename', { newName: 'ocean' })).is(200);
  const refused = [
    await server.post('/api/v2/catalogs', { name: 'Sea' }),
    await server.post('/api/v2/catalogs/spare/rename', { newName: 'sea' }),
  ];
  for (const reply of refused) assert.match(reply.is(503, 'CHANGE_IN_PROGRESS').message, /the copy of a moved catalog/);
  // Elsewhere the name is free, and cannot be moved to where it is not.
  (await server.post('/api/v2/catalogs', { name: 'sea', warehouse: 'other' })).is(201);
  (await server.post('/api/v2/catalogs/sea/move', { warehouse: 'default' })).is(503, 'CHANGE_IN_PROGRESS');
  (await server.delete('/api/v2/catalogs/sea')).is(200);
  const undrop = { name: 'sea', newName: 'SEA' };
  (await server.post('/api/v2/catalogs/undrop', undrop)).is(200);
  (await server.delete('/api/v2/catalogs/SEA?purge=true')).is(200);
  hidden.sea.resolve();
  (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
  (await server.put('/api/v2/catalogs/sea')).is(201);
  (await server.put('/api/v2/catalogs/sea/databases/new')).is(201);
  const names = (await server.get('/api/v2/catalogs/sea/databases')).is(200).text;
  assert.match(names, /"new"/);
  assert.doesNotMatch(names, /"old"/);
});

test('nor if the move has ended in another way, also in a store of an earlier release', async () => {
  hidden.sea.resolve();
  await server.close();
  const change = async (state: TaskState) => {
    const file = join(dataDir, 'metadata.sqlite');
    const { db, close } = await openSqliteStore({ file });
    await db.updateTable('objects').set({ name: 'river' }).where('category', '=', 'catalog_copies').execute();
    await db.updateTable('tasks').set({ state }).where('type', '=', 'move_catalog').execute();
    await hiddenCopiesMigration.up(db, sqliteColumnTypes);
    await close();
  };
  await change('failed');
  server = await start({ dataDir });
  (await server.post('/api/v2/catalogs/spare/rename', { newName: 'river' })).is(503, 'CHANGE_IN_PROGRESS');
  (await server.post('/api/v2/catalogs/spare/rename', { newName: 'brook' })).is(200);
  await server.close();
  await change('succeeded');
  server = await start({ dataDir });
  (await server.post('/api/v2/catalogs/brook/rename', { newName: 'river' })).is(200);
});
