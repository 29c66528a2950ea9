// What is known about an object by its URI: who was granted something on it or above it, which views are made of it, and its audit trail;
// each as far as the caller may see it.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { grant, newPerson, type Person } from '../../access/people.ts';
import { start, type TestServer } from '../../server.ts';

const table = '/api/v2/catalogs/default/databases/shop/tables/orders';
let server: TestServer;
let ann: Person;

before(async () => {
  server = await start();
  (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
  for (const name of ['orders', 'parts'])
    (await server.post('/api/v2/databases/shop/tables', { name, columns: [{ name: 'id', type: 'INT' }] })).is(201);
  for (const name of ['a', 'b'])
    (await server.post('/api/v2/databases/shop/views', { name, sql: 'SELECT id FROM orders' })).is(201);
  ann = await newPerson(server, 'ann', [
    ['read', '/catalogs/default/databases/shop/tables/orders'],
    ['read', '/catalogs/default/databases/shop/views/a'],
  ]);
  await newPerson(server, 'bob', [['write', '/catalogs/default/databases/shop/tables/parts']]);
  (await server.post('/api/v2/roles', { name: 'analysts' })).is(201);
  await grant(server, 'roles/analysts', [['read', '/catalogs']]);
});
after(() => server.close());

interface EffectiveGrant {
  readonly privilege: string;
  readonly on: string;
  readonly via: { readonly category: string; readonly name: string };
}

it('finds the grants on an object and above it, of the users and roles that the caller may see', async () => {
  const search = async (request: Pick<Person, 'post'>, body: object) =>
    (await request.post('/api/v2/users/search_grants', body)).is(200).at<readonly EffectiveGrant[]>('grants');
  const describeGrants = (grants: readonly EffectiveGrant[]) =>
    grants.map(({ privilege, on, via }) => `${via.category} ${via.name} ${privilege} ${on}`).sort();
  const byAnn = `users ann read ${table}`;
  assert.deepEqual(describeGrants(await search(server, { on: table })), [
    'roles analysts read /api/v2/catalogs',
    byAnn,
  ]);
  assert.deepEqual(describeGrants(await search(server, { on: table, privilege: 'write' })), []);
  assert.deepEqual(describeGrants(await search(ann, { on: table })), [byAnn]);
  const first = (await server.post('/api/v2/users/search_grants', { on: table, pageSize: 1 })).is(200);
  const pageToken = first.at<string>('nextPageToken');
  const rest = await search(server, { on: table, pageSize: 1, pageToken });
  assert.equal(new Set(describeGrants([...first.at<readonly EffectiveGrant[]>('grants'), ...rest])).size, 2);
});

it('shows the views that are made of a table, and counts those that the caller may not read', async () => {
  const path = `${table}/dependents`;
  const views = (name: string) => `/api/v2/catalogs/default/databases/shop/views/${name}`;
  assert.deepEqual((await server.post(path)).is(200).result, { views: [views('a'), views('b')], otherViews: 0 });
  assert.deepEqual((await ann.post(path)).is(200).result, { views: [views('a')], otherViews: 1 });
  (await server.delete('/api/v2/databases/shop/views/b')).is(200);
  assert.deepEqual((await ann.post(path)).is(200).result, { views: [views('a')], otherViews: 0 });
});

it('finds the audit events of an object under all its names', async () => {
  (await server.post(`${table}/rename`, { newName: 'x' })).is(400, 'IN_USE');
  const parts = '/api/v2/databases/shop/tables/parts';
  (await server.post(`${parts}/rename`, { newName: 'pieces' })).is(200);
  const search = async (object: string) =>
    (await server.post('/api/v2/audit_events/search', { object }))
      .is(200)
      .at<readonly { action: string }[]>('auditEvents');
  const actions = (await search('/api/v2/databases/shop/tables/pieces')).map(({ action }) => action);
  assert.deepEqual(actions, ['tables.rename', 'tables.create']);
  assert.deepEqual(await search(parts), []);
});
