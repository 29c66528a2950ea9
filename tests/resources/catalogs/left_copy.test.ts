// The copy that a move leaves behind: it is hidden before it is deleted, also where nothing retains it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { eventually } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';

const applied: string[] = [];
/** Holds the change that hides the copy. */
const hidden = Promise.withResolvers<void>();

const held = (warehouse: EngineWarehouse): EngineWarehouse =>
  new Proxy(warehouse, {
    get(target, key) {
      if (key !== 'apply') return Reflect.get(target, key, target);
      const apply: EngineWarehouse['apply'] = async (change, options) => {
        applied.push(change.kind);
        if (change.kind === 'hideCatalog') await hidden.promise;
        return target.apply(change, options);
      };
      return apply;
    },
  });
const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => held(engine.open(options)) });

let server: TestServer;
let services: Services;
before(async () => {
  const assembled = (all: Services) => {
    services = all;
  };
  server = await start({}, { wrapEngine, assembled });
});
after(() => server.close());

test('a copy is not deleted before it was hidden', async () => {
  (await server.post('/api/v2/warehouses', { name: 'other' })).is(201);
  (await server.put('/api/v2/catalogs/lake')).is(201);
  (await server.put('/api/v2/catalogs/lake/databases/d')).is(201);
  const accepted = (await server.post('/api/v2/catalogs/lake/move', { warehouse: 'other', retainSeconds: 0 })).is(202);
  await eventually('the catalog has moved', () => applied.includes('hideCatalog'));
  await services.catalog.purge();
  assert.ok(!applied.includes('dropCatalog'), applied.join(', '));
  hidden.resolve();
  (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
  await services.catalog.purge();
  assert.deepEqual(applied.slice(-2), ['hideCatalog', 'dropCatalog']);
});
