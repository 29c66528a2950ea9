// Missing objects at every level of every path: 404 OBJECT_NOT_FOUND with the first missing name, and a DELETE that succeeds
// (rest-standard B1, B2).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import type { TestServer } from '../server.ts';
import { fixtureOf, freshName } from './fixtures.ts';
import {
  operations as allOperations,
  call,
  categories,
  exampleBody,
  type Params,
  parametersIn,
  pathOf,
  titleOf,
} from './operation_call.ts';
import { testedIn, worldOf } from './worlds.ts';

const operationsElsewhere = 32;
const world = worldOf(import.meta.url);
const operations = testedIn(world, allOperations, operationsElsewhere);
let server: TestServer;
const params = new Map<string, Params>();
before(async () => {
  server = await world.start();
  for (const category of new Set(operations.map((operation) => operation.category)))
    params.set(category.name, await fixtureOf(category).make(server));
});
after(() => server.close());

const categoryOf = (parameter: string) =>
  categories.find((category) => category.parameter === parameter)?.name as string;

/** Parameters whose object must exist. */
function required({ path, nameInPath }: Operation): string[] {
  const all = parametersIn(path);
  return nameInPath ? all.slice(0, -1) : all;
}

for (const operation of operations.filter((candidate) => required(candidate).length > 0)) {
  test(titleOf(operation), async () => {
    const { category, endpoint, path } = operation;
    const existing = params.get(category.name) as Params;
    const body = endpoint.body ? { body: exampleBody(operation) } : {};
    for (const parameter of required(operation)) {
      for (const name of [freshName(), '..', 'a\u0000b', '😀'.repeat(200)]) {
        const target = pathOf(path, { ...existing, [parameter]: name });
        const reply = await call(server, operation, target, body);
        if (endpoint.verb === 'delete') assert.deepEqual(reply.is(200).result, { deleted: false });
        else {
          // What an engine cannot do is refused as soon as the catalog is known.
          const refusal = parameter === 'catalog' ? undefined : world.refusal(operation);
          if (refusal !== undefined) reply.is(400, refusal);
          else reply.is(404, 'OBJECT_NOT_FOUND', { category: categoryOf(parameter), name });
        }
      }
    }
  });
}

test('names are compared exactly', async () => {
  for (const { path, endpoint, category } of operations) {
    if (endpoint.verb !== 'get' || category.idField !== undefined) continue;
    const { [category.parameter]: name, ...parents } = params.get(category.name) as Params;
    (await server.get(pathOf(path, { ...parents, [category.parameter]: (name as string).toUpperCase() }))).is(
      404,
      'OBJECT_NOT_FOUND',
      { category: category.name },
    );
  }
});
