// A request whose object changes between its look-up and its change is retried in one place only, as often as that happens.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Catalog } from '../../../src/catalog/catalog.ts';
import { ObjectChanged } from '../../../src/standard/expected_version.ts';
import { start, type TestServer, uri } from '../../server.ts';

type Change = 'create' | 'update' | 'drop';

let backups: string;
let server: TestServer;
let failuresLeft = 0;
let attempts = 0;
let deepest = 0;

/** Makes the first changes fail as if another request had changed the object, and counts attempts and nested retries. */
function observe(catalog: Catalog): void {
  const depth = new AsyncLocalStorage<number>();
  const retrying = catalog.retrying.bind(catalog);
  catalog.retrying = (attempt) => {
    const level = (depth.getStore() ?? 0) + 1;
    deepest = Math.max(deepest, level);
    return depth.run(level, () => retrying(attempt));
  };
  for (const name of ['create', 'update', 'drop'] as const satisfies readonly Change[]) {
    const change = catalog[name].bind(catalog) as (...parameters: unknown[]) => Promise<never>;
    catalog[name] = async (...parameters: readonly unknown[]) => {
      attempts++;
      if (failuresLeft-- > 0) throw new ObjectChanged('an object');
      return change(...parameters);
    };
  }
}

before(async () => {
  backups = await mkdtemp(join(tmpdir(), 'tabularium-retries-'));
  const settings = { logLevel: 'silent', warehouseThreads: 1, backupDirectories: backups } as const;
  server = await start(settings, { assembled: ({ catalog }) => observe(catalog) });
});
after(async () => {
  await server.close();
  await rm(backups, { recursive: true, force: true });
});

const columns = [{ name: 'id', type: 'BIGINT' }];
const calls: readonly (readonly [string, () => ReturnType<TestServer['get']>])[] = [
  ['a database is created', () => server.put(uri`/databases/d`)],
  ['a table is created', () => server.post(uri`/databases/d/tables`, { name: 't', columns })],
  ['a column is added', () => server.post(uri`/databases/d/tables/t/columns`, { name: 'c', type: 'INT' })],
  ['a table is renamed', () => server.post(uri`/databases/d/tables/t/rename`, { newName: 'u' })],
  ['a table is changed', () => server.patch(uri`/databases/d/tables/u`, { comment: 'a table' })],
  ['a view is created', () => server.post(uri`/databases/d/views`, { name: 'v', sql: 'SELECT 1 AS n' })],
  ['a view is dropped', () => server.delete(uri`/databases/d/views/v`)],
  ['a table is dropped', () => server.delete(uri`/databases/d/tables/u`)],
  ['a database is changed', () => server.patch(uri`/databases/d`, { comment: 'a database' })],
  ['a database is dropped', () => server.delete(uri`/databases/d`)],
  ['a user is created', () => server.post('/api/v2/users', { name: 'anna' })],
  ['a user is changed', () => server.patch(uri`/users/anna`, { comment: 'a user' })],
  ['a role is created', () => server.post('/api/v2/roles', { name: 'readers' })],
  ['a role is dropped', () => server.delete(uri`/roles/readers`)],
  ['a warehouse is changed', () => server.patch(uri`/warehouses/default`, { comment: 'a warehouse' })],
];

for (const [description, call] of calls) {
  test(`${description} in the sixth attempt after five changes by others`, async () => {
    [failuresLeft, attempts, deepest] = [5, 0, 0];
    const reply = await call();
    assert.ok(reply.status === 200 || reply.status === 201, reply.text);
    assert.equal(attempts, 6);
    assert.equal(deepest, 1, 'no retry runs within another');
  });
}

test('a backup of the server is deleted without a retry within the retry of its request', async () => {
  const to = { path: join(backups, 'all') };
  const task = await server.post('/api/v2/server_backups', { name: 'all', to });
  (await server.ended(task)).is(200, '0', { state: 'succeeded' });
  [failuresLeft, attempts, deepest] = [1, 0, 0];
  (await server.delete(uri`/server_backups/all`)).is(200, '0', { deleted: true });
  assert.equal(attempts, 3, 'the update that failed, its repetition, and the drop');
  assert.equal(deepest, 1, 'no retry runs within another');
});
