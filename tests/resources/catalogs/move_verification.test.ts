// A copy that differs from its table is found, whatever made it so, and the catalog stays where it was.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/engine.ts';
import { admissionRequest } from '../../admission_request.ts';
import { start, type TestServer } from '../../server.ts';

/** Changes one value after each part that is copied into the table `broken`. */
const corrupting = (engine: EngineWarehouse): EngineWarehouse =>
  engineWith(engine, {
    async restorePart(...[part, options]: Parameters<EngineWarehouse['restorePart']>): Promise<void> {
      await engine.restorePart(part, options);
      const { catalog, database, table } = part.table;
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
