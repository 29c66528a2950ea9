// Every way to reach every endpoint with a valid call: the status of its verb, the declared result, and the guarantees of the
// standard for it (rest-standard A2, A3, B1, B3, B4).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { listKeyOf } from '../../src/standard/parameters.ts';
import type { Reply, TestServer } from '../server.ts';
import { bodyOf, fixtureOf, freshName, makeFor, namedBody, newNameOf } from './fixtures.ts';
import {
  call,
  categories,
  exampleBody,
  keyOf,
  nameOf,
  operations,
  type Params,
  pathOf,
  titleOf,
} from './operation_call.ts';
import { testedIn, worldOf } from './worlds.ts';

const world = worldOf(import.meta.url);
let server: TestServer;
before(async () => {
  server = await world.start();
});
after(() => server.close());

const idFieldOf = ({ category }: Operation) => category.idField ?? 'name';

/** The complete form of the path, as in records. */
const wholePath = (path: string) => path.replace(/^\/api\/v2\/databases/, '/api/v2/catalogs/default/databases');

function find(category: string, verb: string): Operation | undefined {
  return operations.find((operation) => operation.category.name === category && operation.endpoint.verb === verb);
}

async function waitUntilSettled(reply: Reply): Promise<void> {
  if (reply.status === 202) (await server.ended(reply)).is(200, '0', { state: 'succeeded' });
}

/** The record of what a task created. */
async function madeByTask(accepted: Reply): Promise<Reply> {
  const task = (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
  return (await server.get(task.at('target'))).is(200);
}

const checks: Record<Operation['endpoint']['verb'], (operation: Operation, params: Params) => Promise<void>> = {
  async get(operation, params) {
    const path = pathOf(operation.path, params);
    const reply = (await call(server, operation, path)).is(200);
    if (idFieldOf(operation) in operation.category.record.properties)
      assert.equal(String(reply.at(idFieldOf(operation))), params[operation.category.parameter], titleOf(operation));
    assert.equal(reply.at('uri'), wholePath(path));
    const fullPathReply = await server.get(wholePath(path));
    assert.deepEqual(
      Object.keys(fullPathReply.result),
      Object.keys(reply.result),
      'both shapes of the path answer alike',
    );
  },
  async list(operation, params) {
    const path = pathOf(operation.path, params);
    const key = listKeyOf(operation.category);
    const all = (await call(server, operation, path)).is(200).at<Record<string, unknown>[]>(key);
    const ownName = params[operation.category.parameter];
    if (ownName !== undefined)
      assert.ok(
        all.some((record) => String(record[idFieldOf(operation)]) === ownName),
        `${titleOf(operation)} does not show ${ownName}`,
      );
    const pagedIds: unknown[] = [];
    let token: string | undefined;
    for (let pages = 0; pagedIds.length < Math.min(all.length, 5); pages++) {
      const query = token === undefined ? '' : `&pageToken=${token}`;
      const page = (await call(server, operation, `${path}?pageSize=1${query}`)).is(200);
      pagedIds.push(...page.at<unknown[]>(key));
      token = page.at('nextPageToken');
      assert.equal(pagedIds.length, pages + 1, titleOf(operation));
    }
    const ids = (records: unknown[]) =>
      records.map((record) => (record as Record<string, unknown>)[idFieldOf(operation)]);
    assert.deepEqual(ids(pagedIds), ids(all).slice(0, pagedIds.length), `${titleOf(operation)}: page by page`);
    assert.equal(token === undefined, pagedIds.length === all.length, 'the last page has no token');
  },
  async create(operation, params) {
    const { category, endpoint, method } = operation;
    const name = newNameOf(category);
    const path = pathOf(operation.path, { ...params, [category.parameter]: name });
    const fields = bodyOf(category, 'create', params);
    const body = namedBody(operation, name, fields);
    const created = await call(server, operation, path, { body });
    const reply = created.status === 202 ? await madeByTask(created) : created.is(201, '0', { created: true });
    if (endpoint.named === false) return;
    assert.equal(reply.at(idFieldOf(operation)), name);
    // A secret is in this response only, or generated for each response.
    const { secretFields = [] } = endpoint;
    const isLasting = ([field]: [string, unknown]) =>
      field in category.record.properties && !secretFields.includes(field);
    const withoutVolatileFields = (result: object) => Object.fromEntries(Object.entries(result).filter(isLasting));
    const record = withoutVolatileFields(reply.result);
    const shown = (await server.get(reply.at('uri'))).is(200);
    assert.deepEqual(
      withoutVolatileFields(shown.result),
      record,
      `${titleOf(operation)}: the created object is the one that a GET returns`,
    );
    const secondReply = await call(server, operation, path, { body });
    if (method === 'post') secondReply.is(400, 'OBJECT_ALREADY_EXISTS');
    else secondReply.is(201, '0', { ...record, created: false });
  },
  async update(operation, params) {
    const path = pathOf(operation.path, params);
    const before = (await server.get(path)).is(200).at<number>('version');
    const body = bodyOf(operation.category, 'update', params);
    (await call(server, operation, path, { body: { ...body, expectedVersion: before + 7 } })).is(
      400,
      'VERSION_CONFLICT',
    );
    const reply = await call(server, operation, path, { body: { ...body, expectedVersion: before } });
    await waitUntilSettled(reply);
    const { version, ...record } = (await server.get(path)).result;
    assert.equal(version, before + 1, titleOf(operation));
    assert.partialDeepStrictEqual(record, body);
  },
  async delete(operation, params) {
    const path = pathOf(operation.path, params);
    const reply = await call(server, operation, path);
    if (reply.status === 200) assert.deepEqual(reply.result, { deleted: true });
    await waitUntilSettled(reply);
    if (find(operation.category.name, 'get')) (await server.get(path)).is(404, 'OBJECT_NOT_FOUND');
    assert.deepEqual((await call(server, operation, path)).is(200).result, { deleted: false });
  },
  async action(operation, params) {
    const path = pathOf(operation.path, params);
    const body = bodyOf(operation.category, keyOf(operation), params);
    const reply = await call(server, operation, path, { body });
    await waitUntilSettled(reply);
    const { newName } = body as { newName?: string };
    if (newName === undefined || reply.status === 202) return;
    assert.equal(reply.at(idFieldOf(operation)), newName);
    // The statistics of a table are refreshed in the background.
    const { created: _, statistics: _before, ...record } = reply.result;
    const { statistics: _after, ...shown } = (await server.get(reply.at('uri'))).is(200).result;
    assert.deepEqual(shown, record);
  },
};

test('every category has a fixture', () => {
  for (const category of categories) fixtureOf(category);
});

/** They return data, not a record. */
const dataCategories = ['rows', 'pages'];

test('every record declares its state as a closed list, its creator and last editor with times, its version and its URI', () => {
  for (const category of categories.filter(({ name }) => !dataCategories.includes(name))) {
    const { properties } = category.record;
    const required = (category.record.required ?? []) as readonly string[];
    const fields = ['state', 'createdAt', 'createdBy', 'updatedAt', 'updatedBy', 'version', 'uri'];
    assert.deepEqual(
      fields.filter((field) => !required.includes(field)),
      [],
      `${category.name} lacks fields of rest-standard B4`,
    );
    const { enum: states = [] } = properties.state as { enum?: readonly string[] };
    assert.ok(states.length > 0, `${category.name}: its states are no closed list`);
    assert.ok(states.includes(category.example.state as string), `${category.name}: its example`);
  }
});

for (const operation of testedIn(world, operations)) {
  test(`${nameOf(operation)}: ${titleOf(operation)}`, async () => {
    const { category, endpoint } = operation;
    const fixture = fixtureOf(category);
    const params = await makeFor(category, keyOf(operation), server);
    const code = fixture.refused?.[keyOf(operation)] ?? world.refusal(operation);
    if (code === undefined) return checks[endpoint.verb](operation, params);
    const isCreate = endpoint.verb === 'create';
    const path = pathOf(operation.path, isCreate ? { ...params, [category.parameter]: freshName() } : params);
    (await call(server, operation, path, endpoint.body ? { body: exampleBody(operation) } : {})).is(400, code);
  });
}
