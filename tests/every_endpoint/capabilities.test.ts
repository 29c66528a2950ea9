// An engine that lacks each of its capabilities in turn: every endpoint that declares to need the capability refuses the call and names
// it, and dropped objects that could not be restored are deleted at once.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Engine } from '../../src/engines/port/engine.ts';
import { type EngineCapability, engineCapabilities } from '../../src/model/engine_capabilities.ts';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { start, type TestServer, uri } from '../server.ts';
import { bodyOf, freshName, makeFor, namedBody, newNameOf } from './fixtures.ts';
import { call, keyOf, nameOf, operations, type Params, pathOf, takesBody, titleOf } from './operation_call.ts';

const capabilities = Object.keys(engineCapabilities) as EngineCapability[];
let server: TestServer;
let missing: EngineCapability | undefined;
const lacking = (engine: Engine): Engine => ({
  ...engine,
  get capabilities() {
    return missing === undefined ? engine.capabilities : { ...engine.capabilities, [missing]: false };
  },
});
before(async () => {
  server = await start({}, { wrapEngine: lacking });
});
after(() => server.close());

const needsOf = ({ endpoint }: Operation, capability: EngineCapability) =>
  endpoint.needs?.some((need) => need.capability === capability) === true;

/** Fields that make a call need the capability, if not every call does. */
const neededWith: Readonly<Record<string, object>> = {
  'tables.create': { primaryKey: ['id'] },
  'tables.compare': { primaryKey: ['id'] },
  'tables.update': { unique_key_constraints: ['note'] },
  'databases.load': { primaryKey: ['id'], format: 'parquet' },
  'tables.load': { mode: 'upsert', format: 'parquet' },
  'catalogs.query': { format: 'csv' },
  'databases.query': { format: 'csv' },
};

function bodyFor(operation: Operation, params: Params): object | undefined {
  if (!takesBody(operation)) return undefined;
  const { category } = operation;
  const body = { ...bodyOf(category, keyOf(operation), params), ...neededWith[nameOf(operation)] };
  return namedBody(operation, newNameOf(category), body);
}

async function lackingOnly<T>(capability: EngineCapability, work: () => Promise<T>): Promise<T> {
  missing = capability;
  try {
    return await work();
  } finally {
    missing = undefined;
  }
}

for (const capability of capabilities) {
  const needing = operations.filter((operation) => needsOf(operation, capability));

  test(`${capability} is needed by an endpoint`, () => assert.notEqual(needing.length, 0));

  for (const operation of needing)
    test(`${capability}: ${nameOf(operation)}: ${titleOf(operation)}`, async () => {
      const made = await makeFor(operation.category, keyOf(operation), server);
      const { category, endpoint } = operation;
      const params = endpoint.verb === 'create' ? { ...made, [category.parameter]: newNameOf(category) } : made;
      const body = bodyFor(operation, params);
      const options = body === undefined ? {} : { body };
      const reply = await lackingOnly(capability, () =>
        call(server, operation, pathOf(operation.path, params), options),
      );
      reply.is(400, 'NOT_SUPPORTED_BY_ENGINE', { capability, engine: 'duckdb' });
      assert.match(reply.message, /^the engine "duckdb" does not support /);
    });
}

test('a table without keys needs no enforced keys', () =>
  lackingOnly('enforcedKeys', async () => {
    const database = freshName();
    (await server.put(uri`/databases/${database}`)).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    const path = uri`/databases/${database}/tables/t`;
    (await server.put(path, { columns })).is(201);
    (await server.patch(path, { comment: 'changed' })).is(200);
    (await server.post(`${path}/copy_definition`, { newName: 'copy' })).is(201);
    (await server.put(uri`/databases/${database}/tables/keyed`, { columns, primaryKey: ['id'] })).is(
      400,
      'NOT_SUPPORTED_BY_ENGINE',
    );
  }));

test('without undrop, DELETE deletes at once', () =>
  lackingOnly('undrop', async () => {
    const database = freshName();
    (await server.put(uri`/databases/${database}`)).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await server.put(uri`/databases/${database}/tables/t`, { columns })).is(201);
    (await server.delete(uri`/databases/${database}/tables/t`)).is(200, '0', { deleted: true });
    const dropped = await server.post(uri`/databases/${database}/tables/search`, { dropped: true });
    assert.deepEqual(dropped.is(200).at('tables'), []);
  }));

for (const [capability, addTo] of [
  [
    'backups',
    async (database: string) => {
      const path = uri`/databases/${database}/tables/t`;
      (await server.put(path, { columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
      return server.post(`${path}/rows`, { rows: [[1]] });
    },
  ],
  ['views', (database: string) => server.put(uri`/databases/${database}/views/v`, { sql: 'SELECT 1 AS a' })],
  [
    'enforcedKeys',
    (database: string) =>
      server.put(uri`/databases/${database}/tables/t`, {
        columns: [{ name: 'id', type: 'BIGINT' }],
        primaryKey: ['id'],
      }),
  ],
] as const)
  test(`the restore of a backup that needs ${capability} fails and leaves nothing`, async () => {
    const database = freshName();
    (await server.put(uri`/databases/${database}`)).is(201);
    (await addTo(database)).is(201);
    const [backup, restore] = ['backup', 'restore'].map((action) =>
      operations.find(({ category, endpoint }) => category.name === 'databases' && endpoint.action === action),
    );
    assert.ok(backup && restore);
    const params = { catalog: 'default', database };
    const saved = await server.post(uri`/databases/${database}/backup`, bodyOf(backup.category, 'backup', params));
    const backupId = (await server.ended(saved)).is(200, '0', { state: 'succeeded' }).at<string>('taskId');
    const name = freshName();
    const body = { ...bodyOf(restore.category, 'restore', params), name, backupId };
    await lackingOnly(capability, async () => {
      const task = await server.ended(await server.post('/api/v2/databases/restore', body));
      task.is(200, '0', { state: 'failed', error: { code: 'NOT_SUPPORTED_BY_ENGINE' } });
    });
    (await server.get(uri`/databases/${name}`)).is(404, 'OBJECT_NOT_FOUND');
  });
