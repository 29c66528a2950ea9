// A statement that waits for its warehouse while its catalog is moved to another one runs there, and what was done before the move is
// answered as then if it is sent again with its key.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { newPerson } from '../../access/people.ts';
import { eventually } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';

/** Statements with this text run until the test lets them end. */
const longText = 'SELECT 1 AS long';
let long = Promise.withResolvers<void>();

const held = (engine: EngineWarehouse): EngineWarehouse =>
  engineWith(engine, {
    async execute(...[statement, options]: Parameters<EngineWarehouse['execute']>) {
      if (statement.sql === longText) await long.promise;
      return engine.execute(statement, options);
    },
    async checksumTable(...[table, options]: Parameters<EngineWarehouse['checksumTable']>) {
      if (table.catalog.name === 'busy') await long.promise;
      return engine.checksumTable(table, options);
    },
  });

let server: TestServer;
before(async () => {
  const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => held(engine.open(options)) });
  server = await start({}, { wrapEngine });
  (await server.post('/api/v2/warehouses', { name: 'narrow', queriesMax: 1 })).is(201);
  (await server.post('/api/v2/warehouses', { name: 'other' })).is(201);
  (await server.post('/api/v2/catalogs', { name: 'busy', warehouse: 'narrow' })).is(201);
});
after(async () => {
  long.resolve();
  await server.close();
});

/** Waits until so many statements and tasks run in the warehouse, and so many wait for it. */
async function load(running: number, queued: number): Promise<void> {
  await eventually(`${running} run and ${queued} wait`, async () => {
    const { runningQueries, queuedQueries } = (await server.get('/api/v2/warehouses/narrow')).is(200).result;
    return runningQueries === running && queuedQueries === queued;
  });
}

const query = (catalog: string, sql: string) => server.post(`/api/v2/catalogs/${catalog}/query`, { sql });

for (const { what, sql, warm, rows, stored } of [
  { what: 'a read', sql: 'SELECT id FROM d.t', rows: [[1]], stored: [[1]] },
  { what: 'a read that was analyzed before', sql: 'SELECT id FROM d.t', warm: true, rows: [[1]], stored: [[1]] },
  { what: 'a write', sql: 'INSERT INTO d.t VALUES (2)', rows: [[1]], stored: [[1], [2]] },
  // It was passed to the engine, so that it is not done again: only its caller knows whether that would be right.
  { what: 'a write that was analyzed before', sql: 'INSERT INTO d.t VALUES (2)', warm: true, stored: [[1], [2]] },
])
  test(`${what} waits while the catalog is moved, and ${rows ? 'runs where it is then' : 'is refused'}`, async (t) => {
    long = Promise.withResolvers<void>();
    t.after(() => long.resolve());
    const catalog = `lake_${what.replaceAll(' ', '_')}`;
    (await server.post('/api/v2/catalogs', { name: catalog, warehouse: 'narrow' })).is(201);
    (await server.post(`/api/v2/catalogs/${catalog}/databases`, { name: 'd' })).is(201);
    const tables = `/api/v2/catalogs/${catalog}/databases/d/tables`;
    (await server.post(tables, { name: 't', columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
    (await server.post(`${tables}/t/rows`, { rows: [[1]] })).is(201);
    if (warm) (await query(catalog, sql)).is(200);
    const running = query('busy', longText);
    await load(1, 0);
    const waiting = query(catalog, sql);
    await load(1, 1);
    const move = (await server.post(`/api/v2/catalogs/${catalog}/move`, { warehouse: 'other' })).is(202);
    (await server.ended(move)).is(200, '0', { state: 'succeeded' });
    long.resolve();
    (await running).is(200);
    if (rows) assert.deepEqual((await waiting).is(200).at('rows'), rows);
    else assert.equal((await waiting).is(503, 'CHANGE_IN_PROGRESS').at('outcome'), 'notApplied');
    const found = await query(catalog, 'SELECT id FROM d.t ORDER BY id');
    assert.deepEqual(found.is(200).at('rows'), stored);
  });

for (const [catalog, on] of [
  ['moved', '/catalogs/moved/databases/d/tables/t'],
  ['moved_too', '/catalogs/moved_too'],
] as const)
  test(`rows that wait while their catalog is moved are inserted where it is then, by whoever may write to ${on}`, async (t) => {
    long = Promise.withResolvers<void>();
    t.after(() => long.resolve());
    (await server.post('/api/v2/catalogs', { name: catalog, warehouse: 'narrow' })).is(201);
    (await server.post(`/api/v2/catalogs/${catalog}/databases`, { name: 'd' })).is(201);
    const table = `/api/v2/catalogs/${catalog}/databases/d/tables/t`;
    (await server.put(table, { columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
    const writer = await newPerson(server, `writer_${catalog}`, [
      ['write', on],
      ['use', '/warehouses/narrow'],
      ['use', '/warehouses/other'],
      ['read', '/catalogs/busy'],
    ]);
    const keys = [randomUUID(), randomUUID()] as const;
    const insert = (id: number, key: string) =>
      writer.request('POST', `${table}/rows`, { rows: [[id]] }, { 'x-service-idempotency-key': key });
    (await insert(1, keys[0])).is(201);
    const running = writer.post('/api/v2/catalogs/busy/query', { sql: longText });
    await load(1, 0);
    const waiting = insert(2, keys[1]);
    await load(1, 1);
    const move = (await server.post(`/api/v2/catalogs/${catalog}/move`, { warehouse: 'other' })).is(202);
    (await server.ended(move)).is(200, '0', { state: 'succeeded' });
    long.resolve();
    (await running).is(200);
    (await waiting).is(201);
    for (const again of [await insert(1, keys[0]), await insert(2, keys[1])])
      assert.equal(again.is(201).headers['x-service-idempotent-replay'], 'true');
    const found = await query(catalog, 'SELECT id FROM d.t ORDER BY id');
    assert.deepEqual(found.is(200).at('rows'), [[1], [2]]);
  });

test('a checksum that waits while the catalog is moved is that of the rows where it is then', async (t) => {
  long = Promise.withResolvers<void>();
  t.after(() => long.resolve());
  const tables = ['busy', 'summed'].map((catalog) => `/catalogs/${catalog}/databases/d/tables/t`);
  (await server.post('/api/v2/catalogs', { name: 'summed', warehouse: 'narrow' })).is(201);
  for (const table of tables) {
    (await server.put(`/api/v2${table.replace(/\/tables\/t$/, '')}`)).is(201);
    (await server.put(`/api/v2${table}`, { columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
  }
  const summed = `/api/v2${tables[1]}`;
  (await server.post(`${summed}/rows`, { rows: [[1]] })).is(201);
  const reader = await newPerson(server, 'reader', [
    ...tables.map((table) => ['read', table] as const),
    ['use', '/warehouses/narrow'],
    ['use', '/warehouses/other'],
  ]);
  const running = (await reader.post(`/api/v2${tables[0]}/checksum`)).is(202);
  await load(1, 0);
  const waiting = (await reader.post(`${summed}/checksum`)).is(202);
  await load(1, 1);
  const move = (await server.post('/api/v2/catalogs/summed/move', { warehouse: 'other' })).is(202);
  (await server.ended(move)).is(200, '0', { state: 'succeeded' });
  (await server.post(`${summed}/rows`, { rows: [[2]] })).is(201);
  long.resolve();
  (await server.ended(running)).is(200, '0', { state: 'succeeded' });
  assert.equal((await server.ended(waiting)).is(200, '0', { state: 'succeeded' }).at('result', 'rowCount'), 2);
});

test('moves in opposite directions between warehouses that run one statement at a time do not wait for each other', async () => {
  const names = ['there', 'back'] as const;
  for (const name of names) (await server.post('/api/v2/warehouses', { name, queriesMax: 1 })).is(201);
  for (const name of names) {
    const catalog = `/api/v2/catalogs/from_${name}`;
    (await server.post('/api/v2/catalogs', { name: `from_${name}`, warehouse: name })).is(201);
    (await server.post(`${catalog}/databases`, { name: 'd' })).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await server.post(`${catalog}/databases/d/tables`, { name: 't', columns })).is(201);
    (await server.post(`${catalog}/databases/d/tables/t/rows`, { rows: [[1]] })).is(201);
  }
  for (let round = 0; round < 3; round++) {
    const places = round % 2 === 0 ? (['back', 'there'] as const) : names;
    const moves = await Promise.all(
      names.map((name, i) =>
        server.post(`/api/v2/catalogs/from_${name}/move`, { warehouse: places[i], retainSeconds: 0 }),
      ),
    );
    for (const move of moves) (await server.ended(move.is(202))).is(200, '0', { state: 'succeeded' });
  }
});
