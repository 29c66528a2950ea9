// `ETag`, `If-Match` and `expectedVersion` at every endpoint that changes an object or acts on one (rest-standard B4).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { acceptsExpectedVersion, isConditional } from '../../src/standard/endpoint.ts';
import type { TestServer } from '../server.ts';
import { bodyOf, fixtureOf, makeFor } from './fixtures.ts';
import { call, keyOf, nameOf, operations, pathOf, titleOf } from './operation_call.ts';
import { testedIn, worldOf } from './worlds.ts';

const operationsElsewhere = 12;
const world = worldOf(import.meta.url);
let server: TestServer;
before(async () => {
  server = await world.start();
});
after(() => server.close());

/** Their version depends on their progress, whoever reads it. */
const changeByThemselves = ['tasks', 'queries'];
const stale = '"AAAAAAAAAAAAAAAAAAAAAA"';

const operationOfEndpoint = new Map(operations.map((operation) => [operation.endpoint, operation]));
const conditional = [...operationOfEndpoint.values()].filter(({ endpoint }) => isConditional(endpoint));
const refused = conditional.filter((operation) => world.refusal(operation) !== undefined);
for (const operation of refused)
  console.log(`not here, because the engine refuses it before conditions are checked: ${nameOf(operation)}`);
const possible = conditional.filter((operation) => !refused.includes(operation));
for (const operation of testedIn(world, possible, operationsElsewhere)) {
  const { endpoint, category } = operation;
  const bodyFor = (params: Record<string, string>) =>
    endpoint.body ? { body: bodyOf(category, keyOf(operation), params) } : {};

  if (endpoint.on === 'collection') {
    test(`${nameOf(operation)}: a collection has no entity tag`, async () => {
      const params = await fixtureOf(category).make(server);
      const path = pathOf(operation.path, params);
      const headers = { 'if-match': stale };
      (await call(server, operation, path, { ...bodyFor(params), headers })).is(400, 'VERSION_CONFLICT');
    });
    continue;
  }

  test(`${nameOf(operation)}: ${titleOf(operation)}`, async () => {
    const params = await makeFor(category, keyOf(operation), server);
    const path = pathOf(operation.path, params);
    const objectPath = endpoint.verb === 'action' ? path.slice(0, path.lastIndexOf('/')) : path;
    const sent = bodyFor(params);
    const record = (await server.get(objectPath)).is(200);
    const etag = String(record.headers.etag);
    assert.match(etag, /^"[\w-]{22}"$/, 'strong');
    const attempt = (ifMatch: string, more: object = {}) =>
      call(server, operation, path, {
        ...(endpoint.body ? { body: { ...sent.body, ...more } } : {}),
        headers: { 'if-match': ifMatch },
      });
    for (const tags of [stale, `W/${etag}`, `${stale}, W/"x", "a,b"`])
      (await attempt(tags)).is(400, 'VERSION_CONFLICT');
    for (const malformed of ['', 'x', '"x', `${etag} ${etag}`, `*, ${etag}`])
      (await attempt(malformed)).is(400, 'INVALID_PARAMETER');
    const isSteady = !changeByThemselves.includes(category.name);
    const matching = isSteady ? `${stale} ,, ${etag}` : '*';
    if (acceptsExpectedVersion(endpoint)) {
      const version = record.at<number>('version');
      const conflict = await attempt(matching, { expectedVersion: version + 7 });
      if (isSteady) conflict.is(400, 'VERSION_CONFLICT', { version });
      (await attempt(stale, { expectedVersion: version })).is(400, 'VERSION_CONFLICT');
    }
    if (isSteady) assert.equal((await server.get(objectPath)).headers.etag, etag, 'nothing was changed');
    const reply = await attempt(matching);
    const code = fixtureOf(category).refused?.[keyOf(operation)];
    if (code !== undefined) reply.is(400, code);
    else assert.ok(reply.status < 300, reply.text);
    if (reply.status === 202) await server.ended(reply);
    if (endpoint.verb === 'delete' && code === undefined) (await attempt(stale)).is(200, '0', { deleted: false });
    if (endpoint.verb === 'update') {
      assert.notEqual((await server.get(objectPath)).headers.etag, etag);
      (await attempt(etag)).is(400, 'VERSION_CONFLICT');
    }
  });
}

test('of concurrent changes with one tag, one succeeds', async () => {
  (await server.put('/api/v2/databases/together')).is(201);
  const etag = (await server.get('/api/v2/databases/together')).headers.etag;
  const replies = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      server.request('PATCH', '/api/v2/databases/together', {
        body: { comment: `${i}` },
        headers: { 'if-match': etag },
      }),
    ),
  );
  assert.deepEqual(replies.map(({ code }) => code).sort(), ['0', ...Array(7).fill('VERSION_CONFLICT')]);
});

test('a tag identifies the object, not its name and version; no response is 304', async () => {
  const createRole = async () =>
    (await server.post('/api/v2/roles', { name: 'made anew' })).is(201).headers.etag as string;
  const first = await createRole();
  (await server.delete('/api/v2/roles/made%20anew')).is(200);
  const second = await createRole();
  assert.notEqual(first, second);
  const conditional = { headers: { 'if-none-match': second } };
  (await server.request('GET', '/api/v2/roles/made%20anew', conditional)).is(200);
  const headers = { 'if-match': first };
  (await server.request('DELETE', '/api/v2/roles/made%20anew', { headers })).is(400, 'VERSION_CONFLICT');
  assert.equal((await server.get('/api/v2/roles/made%20anew')).is(200).headers.etag, second);
});

test('PATCH merges properties: null removes one of them, or all', async () => {
  for (const operation of operationOfEndpoint.values()) {
    const { endpoint, category } = operation;
    if (endpoint.verb !== 'update' || endpoint.body?.properties.properties === undefined) continue;
    const params = await makeFor(category, 'update', server);
    const path = pathOf(operation.path, params);
    const merged = async (properties: unknown) =>
      (await call(server, operation, path, { body: { properties } })).is(200).at('properties');
    assert.deepEqual(await merged({ a: '1', b: '2', __proto__x: '3' }), { a: '1', b: '2', __proto__x: '3' });
    assert.deepEqual(await merged({ b: null, c: '4', none: null }), { a: '1', __proto__x: '3', c: '4' }, category.name);
    assert.deepEqual(await merged({}), { a: '1', __proto__x: '3', c: '4' });
    const manyProperties = Object.fromEntries(Array.from({ length: 256 }, (_, i) => [`p${i}`, '']));
    (await call(server, operation, path, { body: { properties: manyProperties } })).is(400, 'INVALID_PARAMETER');
    assert.deepEqual(await merged(null), {});
  }
});
