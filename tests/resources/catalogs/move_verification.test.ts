// A copy that differs from its table is found, whatever made it so, and the catalog stays where it was; and which tables are copied again.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { admissionRequest } from '../../admission_request.ts';
import { start, type TestServer } from '../../server.ts';

/** By the name of the table: how many parts were copied. */
const copies = new Map<string, number>();
async function writeMeanwhile(): Promise<void> {
  (await server.post('/api/v2/catalogs/rounds/databases/d/tables/written/rows', { rows: [[2]] })).is(201);
}

/** Changes one value after each part that is copied into the table `broken`. */
const corrupting = (engine: EngineWarehouse): EngineWarehouse =>
  engineWith(engine, {
    async restorePart(...[part, options]: Parameters<EngineWarehouse['restorePart']>): Promise<void> {
      await engine.restorePart(part, options);
      const { catalog, database, table } = part.table;
      copies.set(table, (copies.get(table) ?? 0) + 1);
      if (table === 'written' && copies.get(table) === 1) await writeMeanwhile();
      if (table !== 'broken') return;
      const statement = { sql: "UPDATE broken SET name = 'N7' WHERE id = 7", catalog, database };
      const analysis = await engine.analyze(statement, admissionRequest);
      await engine.execute(statement, {
        analysis,
        numbers: 'number',
        timeoutMs: 60_000,
        signal: options.signal,
        resultPath: `${part.path}.result`,
        pageBytesMax: 1_000_000,
      });
    },
  });

let server: TestServer;
before(async () => {
  const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => corrupting(engine.open(options)) });
  server = await start({}, { wrapEngine });
  (await server.post('/api/v2/warehouses', { name: 'other' })).is(201);
});
after(() => server.close());

test('a changed value ends the move with the names of the table and the column', async () => {
  (await server.put('/api/v2/catalogs/lake')).is(201);
  (await server.post('/api/v2/catalogs/lake/databases', { name: 'd' })).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'name', type: 'STRING' },
  ];
  (await server.post('/api/v2/catalogs/lake/databases/d/tables', { name: 'broken', columns })).is(201);
  const query = (sql: string) => server.post('/api/v2/catalogs/lake/query', { sql });
  (await query("INSERT INTO d.broken SELECT range, 'n' || range FROM range(1000)")).is(200);
  const task = await server.ended((await server.post('/api/v2/catalogs/lake/move', { warehouse: 'other' })).is(202));
  assert.partialDeepStrictEqual(task.at('error'), {
    code: 'MOVE_VERIFICATION_FAILED',
    result: { database: 'd', table: 'broken', column: 'name' },
  });
  (await server.get('/api/v2/catalogs/lake')).is(200, '0', { warehouse: 'default' });
  assert.deepEqual((await query('SELECT name FROM d.broken WHERE id = 7')).is(200).at('rows'), [['n7']]);
});

test('a table that was written while it was copied is copied again, and no other one', async () => {
  (await server.put('/api/v2/catalogs/rounds')).is(201);
  (await server.post('/api/v2/catalogs/rounds/databases', { name: 'd' })).is(201);
  const columns = [{ name: 'id', type: 'BIGINT' }];
  for (const name of ['quiet', 'written']) {
    (await server.post('/api/v2/catalogs/rounds/databases/d/tables', { name, columns })).is(201);
    (await server.post(`/api/v2/catalogs/rounds/databases/d/tables/${name}/rows`, { rows: [[1]] })).is(201);
  }
  const accepted = (await server.post('/api/v2/catalogs/rounds/move', { warehouse: 'other' })).is(202);
  (await server.ended(accepted)).is(200, '0', { state: 'succeeded', result: { rounds: 2 } });
  assert.deepEqual([copies.get('quiet'), copies.get('written')], [1, 2]);
  const counted = await server.post('/api/v2/catalogs/rounds/query', { sql: 'SELECT count(*) FROM d.written' });
  assert.deepEqual(counted.is(200).at('rows'), [[2]]);
});
