// A change of an object whose earlier change was interrupted, in a warehouse that is suspended since: the refusal of the warehouse was a
// code that PATCH of catalogs and databases did not declare.
import { after, before, test } from 'node:test';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import { engineLost } from '../../../src/engines/engine_lost.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { start, type TestServer } from '../../server.ts';

let isLost = false;
const losing = (engine: EngineWarehouse): EngineWarehouse =>
  engineWith(engine, {
    async apply(...[change, options]: Parameters<EngineWarehouse['apply']>) {
      if (isLost) throw engineLost(false);
      return engine.apply(change, options);
    },
  });

let server: TestServer;
before(async () => {
  const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => losing(engine.open(options)) });
  server = await start({}, { wrapEngine });
});
after(() => server.close());

test('an update after an interrupted rename is refused while the warehouse is suspended', async () => {
  for (const name of ['first', 'second']) {
    (await server.post('/api/v2/warehouses', { name })).is(201);
    (await server.post('/api/v2/catalogs', { name, warehouse: name })).is(201);
  }
  (await server.post('/api/v2/catalogs/first/databases', { name: 'd' })).is(201);
  isLost = true;
  const updated = ['/api/v2/catalogs/first/databases/d', '/api/v2/catalogs/second'];
  for (const path of updated) (await server.post(`${path}/rename`, { newName: 'new' })).is(503, 'WAREHOUSE_FAILED');
  for (const name of ['first', 'second']) (await server.post(`/api/v2/warehouses/${name}/suspend`)).is(200);
  for (const path of updated) (await server.patch(path, { comment: 'x' })).is(503, 'WAREHOUSE_SUSPENDED');
});
