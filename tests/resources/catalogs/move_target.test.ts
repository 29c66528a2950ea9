// A warehouse to which or from which a catalog is moved is not deleted before nothing of the move is left in it.
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { eventually } from '../../deadline.ts';
import { type Reply, start, type TestServer } from '../../server.ts';

/** The copy of a move is created when the test lets it be. */
let copying = Promise.withResolvers<void>();
copying.resolve();

const held = (engine: EngineWarehouse): EngineWarehouse =>
  engineWith(engine, {
    async apply(...[change, options]: Parameters<EngineWarehouse['apply']>) {
      if (change.kind === 'createCatalog' && change.catalog.name.startsWith('moving_')) await copying.promise;
      return engine.apply(change, options);
    },
  });

let server: TestServer;
let services: Services;
before(async () => {
  const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => held(engine.open(options)) });
  const assembled = (all: Services) => {
    services = all;
  };
  server = await start({}, { wrapEngine, assembled });
});
after(async () => {
  copying.resolve();
  await server.close();
});

const warehouse = (name: string) => `/api/v2/warehouses/${name}`;
const move = (catalog: string, body: object) => server.post(`/api/v2/catalogs/${catalog}/move`, body);

async function createWarehouses(...names: string[]): Promise<void> {
  for (const name of names) (await server.post('/api/v2/warehouses', { name })).is(201);
}

async function createCatalog(name: string, warehouse = 'default'): Promise<void> {
  (await server.post('/api/v2/catalogs', { name, warehouse })).is(201);
  (await server.post(`/api/v2/catalogs/${name}/databases`, { name: 'd' })).is(201);
  const columns = [{ name: 'id', type: 'BIGINT' }];
  (await server.post(`/api/v2/catalogs/${name}/databases/d/tables`, { name: 't', columns })).is(201);
  (await server.post(`/api/v2/catalogs/${name}/databases/d/tables/t/rows`, { rows: [[1]] })).is(201);
}

async function end(accepted: Reply): Promise<void> {
  const { uri } = accepted.is(202).result;
  await server.post(`${uri}/cancel`);
  copying.resolve();
  await eventually('the task has ended', async () => (await server.get(String(uri))).at('endedAt') !== null);
}

const openChanges = async (name: string) =>
  (await services.catalog.openIntents()).filter(({ warehouse }) => warehouse === name).length;

const files = () => readdir(join(server.dataDirectory, 'catalogs'));

async function deletedLater(name: string): Promise<void> {
  await eventually(`${name} is deleted`, async () => (await server.delete(warehouse(name))).status === 200);
  assert.equal(await openChanges(name), 0);
}

test('a warehouse is not deleted while a move to it has not ended', async () => {
  await createWarehouses('target');
  await createCatalog('moved');
  const filesBefore = await files();
  copying = Promise.withResolvers<void>();
  const accepted = (await move('moved', { warehouse: 'target' })).is(202);
  const tasks = [accepted.at('taskId')];
  (await server.delete(warehouse('target'))).is(400, 'IN_USE', { tasks });
  (await server.delete(`${warehouse('target')}?cascade=true`)).is(400, 'IN_USE', { tasks });
  await end(accepted);
  await deletedLater('target');
  assert.deepEqual(await files(), filesBefore);
  (await server.post('/api/v2/catalogs/moved/query', { sql: 'SELECT id FROM d.t' })).is(200, '0', { rows: [[1]] });
});

test('a warehouse is not deleted while the dry run of a move to it has not ended', async () => {
  await createWarehouses('tried');
  await createCatalog('trial');
  copying = Promise.withResolvers<void>();
  const accepted = (await move('trial', { warehouse: 'tried', dryRun: true })).is(202);
  (await server.delete(warehouse('tried'))).is(400, 'IN_USE', { tasks: [accepted.at('taskId')] });
  await end(accepted);
  await deletedLater('tried');
});

test('a warehouse that is suspended is not deleted, nor moved to, while a move to it has left something', async () => {
  await createWarehouses('asleep');
  await createCatalog('woken');
  (await server.post(`${warehouse('asleep')}/suspend`)).is(200);
  const accepted = (await move('woken', { warehouse: 'asleep' })).is(202);
  (await server.delete(warehouse('asleep'))).is(400, 'IN_USE', { tasks: [accepted.at('taskId')] });
  await eventually(
    'it was started',
    async () => (await server.get(String(accepted.result.uri))).at('startedAt') !== null,
  );
  await end(accepted);
  (await server.delete(String(accepted.result.uri))).is(200);
  (await server.delete(warehouse('asleep'))).is(400, 'IN_USE', { openChanges: 1 });
  (await move('default', { warehouse: 'asleep' })).is(503, 'WAREHOUSE_SUSPENDED');
  (await server.post(`${warehouse('asleep')}/resume`)).is(200);
  await services.catalog.recover();
  (await server.delete(warehouse('asleep'))).is(200, '0', { deleted: true });
  assert.equal(await openChanges('asleep'), 0);
  (await server.get(warehouse('asleep'))).is(404, 'OBJECT_NOT_FOUND');
});

test('a warehouse is not deleted before the copy that a move has left there', async () => {
  await createWarehouses('left');
  await createCatalog('leaving', 'left');
  const accepted = (await move('leaving', { warehouse: 'default', retainSeconds: 3600 })).is(202);
  const ended = (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
  const retainedUntil = ended.at('result', 'retainedUntil');
  (await server.delete(warehouse('left'))).is(400, 'IN_USE', { retainedUntil });
  (await server.get(warehouse('left'))).is(200);
});

test('a warehouse is deleted after the copy that a move has left there', async () => {
  await createWarehouses('emptied');
  await createCatalog('gone', 'emptied');
  const accepted = (await move('gone', { warehouse: 'default', retainSeconds: 0 })).is(202);
  (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
  await services.catalog.purge();
  (await server.delete(warehouse('emptied'))).is(200, '0', { deleted: true });
});
