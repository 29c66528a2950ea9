// What a grant can be on (src/api, `securable`): the objects of the categories that say so, and every top-level collection.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../server.ts';
import { fixtureOf } from './fixtures.ts';
import { categories, operations, pathOf } from './operation_call.ts';

let server: TestServer;
before(async () => {
  server = await start();
  (await server.put('/api/v2/roles/readers')).is(201);
});
after(() => server.close());

const grantOn = (on: string) => server.put('/api/v2/roles/readers/grants', { privilege: 'read', on });

for (const { category, path } of operations.filter(({ endpoint, aliasOf }) => endpoint.verb === 'get' && !aliasOf))
  test(`${category.securable ? 'a grant' : 'no grant'} can be on an object of ${path}`, async () => {
    const objectPath = pathOf(path, await fixtureOf(category).make(server));
    const reply = await grantOn(objectPath);
    if (category.securable) reply.is(201, '0', { on: objectPath });
    else assert.match(reply.is(400, 'INVALID_PARAMETER').message, /which have no grants/);
  });

test('a grant can be on every top-level collection, and on no other', async () => {
  for (const { name, parent, endpoints } of categories) {
    const reply = await grantOn(`/api/v2/${name}`);
    // Nobody else has access to what belongs to the caller, whatever is granted.
    const isPrivate = endpoints.every(({ permission }) => permission.on === 'caller');
    if (parent === undefined && !isPrivate) reply.is(201);
    else assert.match(reply.is(400, 'INVALID_PARAMETER').message, /not a top-level collection/, name);
  }
});
