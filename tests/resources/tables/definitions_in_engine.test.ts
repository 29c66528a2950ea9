// What the engine receives of the definition of a table: keys, order, partitions, distribution and replicas, in each change that creates
// the table or makes it again.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { Engine } from '../../../src/engines/port/engine.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { start, type TestServer } from '../../server.ts';

const changes: Change[] = [];
const watched = (engine: Engine): Engine => ({
  ...engine,
  open: (options) => {
    const opened = engine.open(options);
    return {
      ...opened,
      get running() {
        return opened.running;
      },
      apply: (change, work) => {
        changes.push(change);
        return opened.apply(change, work);
      },
    };
  },
});

const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'day', type: 'DATE' },
];
const layout = { orderBy: ['day'], partitionBy: ['day'], distribution: { by: ['id'], buckets: 4 }, replicationNum: 1 };
const notes = fileURLToPath(new URL('../../data/notes.csv', import.meta.url));
const tables = '/api/v2/databases/shop/tables';
let server: TestServer;
before(async () => {
  server = await start({}, { wrapEngine: watched });
  (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
  (await server.post(tables, { name: 'orders', columns, primaryKey: ['id'], ...layout })).is(201);
});
after(() => server.close());
beforeEach(() => {
  changes.length = 0;
});

/** The definition in the last change of this kind. */
function received<K extends Change['kind']>(
  kind: K,
  definitionOf: (change: Extract<Change, { kind: K }>) => TableDefinition | undefined,
): Omit<TableDefinition, 'columns'> {
  const change = changes.findLast((one): one is Extract<Change, { kind: K }> => one.kind === kind);
  const definition = change && definitionOf(change);
  assert.ok(definition, `no ${kind} with a definition`);
  const { columns: _, ...rest } = definition;
  return rest;
}

const keyed = { primaryKey: ['id'], uniqueKey: [], ...layout };

test('of a new table, a copy, and a table from a query', async () => {
  const created = () => received('createTable', ({ definition }) => definition);
  (await server.post(tables, { name: 'more', columns, primaryKey: ['id'], ...layout })).is(201);
  assert.deepEqual(created(), keyed);
  (await server.post(`${tables}/more/copy_definition`, { newName: 'copy' })).is(201);
  assert.deepEqual(created(), keyed);
  const asSelect = { sql: "SELECT 1::BIGINT AS id, DATE '2026-01-31' AS day" };
  (await server.post(tables, { name: 'selected', asSelect, ...layout })).is(201);
  assert.deepEqual(created(), { ...keyed, primaryKey: [] });
});

test('of a table that a load creates', async () => {
  const body = { table: 'loaded', source: { path: notes }, ...layout, orderBy: ['note'], partitionBy: ['id'] };
  (await server.ended(await server.post('/api/v2/databases/shop/load', body))).is(200, '0', { state: 'succeeded' });
  const created = received('createTable', ({ definition }) => definition);
  assert.deepEqual(created, { primaryKey: [], uniqueKey: [], ...layout, orderBy: ['note'], partitionBy: ['id'] });
});

test('of a table that is renamed, altered, and restored', async () => {
  (await server.post(`${tables}/orders/rename`, { newName: 'sales' })).is(200);
  assert.deepEqual(
    received('renameTable', ({ definition }) => definition),
    keyed,
  );
  (await server.post(`${tables}/sales/columns/day/rename`, { newName: 'date' })).is(200);
  assert.deepEqual(
    received('alterTable', ({ from }) => from),
    keyed,
  );
  const renamed = { ...keyed, orderBy: ['date'], partitionBy: ['date'] };
  assert.deepEqual(
    received('alterTable', ({ to }) => to),
    renamed,
  );
  (await server.delete(`${tables}/sales`)).is(200, '0', { deleted: true });
  (await server.post(`${tables}/undrop`, { name: 'sales' })).is(200);
  assert.deepEqual(
    received('restoreTable', ({ definition }) => definition),
    renamed,
  );
});

test('of the tables of a database that is renamed and restored', async () => {
  (await server.post('/api/v2/databases', { name: 'old' })).is(201);
  (await server.post('/api/v2/databases/old/tables', { name: 't', columns, primaryKey: ['id'], ...layout })).is(201);
  (await server.post('/api/v2/databases/old/rename', { newName: 'new' })).is(200);
  assert.deepEqual(
    received('renameDatabase', ({ tables: [first] }) => first?.definition),
    keyed,
  );
  (await server.delete('/api/v2/databases/new?cascade=true')).is(200, '0', { deleted: true });
  (await server.post('/api/v2/databases/undrop', { name: 'new' })).is(200);
  assert.deepEqual(
    received('restoreDatabase', ({ tables: [first] }) => first?.definition),
    keyed,
  );
});
