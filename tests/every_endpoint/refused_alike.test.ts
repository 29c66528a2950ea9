// Hidden objects are indistinguishable from missing ones: the same response, headers and number of statements of the store, for
// every endpoint and every name of its path; and a refusal is sent before the body is read.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { deadlineMs } from '../deadline.ts';
import type { RequestOptions, TestServer } from '../server.ts';
import { openToAll } from './access_needs.ts';
import {
  attempt,
  makeParams,
  newTestUser,
  startWorld,
  type TestUser,
  targetOf,
  uriOfSibling,
  uriOfTarget,
  type World,
} from './access_world.ts';
import {
  call,
  exampleBody,
  limits,
  nameOf,
  operations,
  type Params,
  parametersIn,
  pathOf,
  takesBody,
  titleOf,
} from './operation_call.ts';

let world: World;
let server: TestServer;
/** Has no privileges except those that a test grants. */
let nobody: TestUser;

before(async () => {
  world = await startWorld();
  server = world.server;
  nobody = await newTestUser(server, 'nobody');
});
after(() => server.close());

/** What belongs to the caller is found among its own only: access.test.ts. */
const secret = operations.filter(
  (operation) => openToAll[nameOf(operation)] === undefined && operation.endpoint.permission.on !== 'caller',
);

/** Of the same length, so that only the name differs. */
function absentName(name: string): string {
  const other = (character: string) =>
    character === '0' ? '1' : character === 'x' ? 'y' : /\d/.test(character) ? '0' : 'x';
  return name.slice(0, -1) + other(name.at(-1) as string);
}

/**
 * The part of a response that must not depend on a name: without the name, its length (on which `Vary` depends), the request id,
 * the time.
 */
async function comparableReply(
  caller: TestServer,
  operation: Operation,
  params: Params,
  name: string,
): Promise<object> {
  const { status, headers, text } = await attempt(caller, operation, params);
  const { date: _date, 'x-service-request-id': _id, 'content-length': length, vary: _vary, ...rest } = headers;
  const encodedName = JSON.stringify(`/${encodeURIComponent(name)}`).slice(1, -1);
  const withoutName = text.split(encodedName).join('/*');
  return { status, text: withoutName, headers: rest, length: Number(length) - Buffer.byteLength(text) };
}

/** The minimum of several tries: background work, such as recording refusals, can only add to it. */
async function assertAsManyStatements(first: () => Promise<unknown>, second: () => Promise<unknown>, context: string) {
  let [ofOne, ofOther] = [Infinity, Infinity];
  for (let i = 0; i < 3 || (i < 20 && ofOne !== ofOther); i++) {
    ofOne = Math.min(ofOne, await world.statementsOf(first));
    ofOther = Math.min(ofOther, await world.statementsOf(second));
  }
  assert.equal(ofOther, ofOne, `${context}: statements`);
}

const hostileNames = ['..', 'a\u0000b', '😀'.repeat(200), '%%', '""', "' OR 1=1 --", 'ROOT', 'default\n'];

/** Tried by a user without privileges, and by the owner of a sibling. */
async function assertAlike(operation: Operation, params: Params, parameter: string, isMany: boolean): Promise<void> {
  const existing = params[parameter] as string;
  const summary = `${titleOf(operation)}: ${parameter}`;
  const refusal = await comparableReply(nobody, operation, params, existing);
  assert.equal((refusal as { status: number }).status, 403, summary);
  const names = [absentName(existing), ...(isMany ? hostileNames : [])];
  for (const name of names)
    assert.deepEqual(
      await comparableReply(nobody, operation, { ...params, [parameter]: name }, name),
      refusal,
      `${summary}: ${name}`,
    );
  const missing = { ...params, [parameter]: absentName(existing) };
  await assertAsManyStatements(
    () => attempt(nobody, operation, params),
    () => attempt(nobody, operation, missing),
    summary,
  );
}

for (const operation of secret) {
  test(`existing or not: ${nameOf(operation)}: ${titleOf(operation)}`, async () => {
    const params = await makeParams(server, operation);
    const isFirst = operations.find(({ endpoint }) => endpoint === operation.endpoint) === operation;
    const { nameInPath } = operation;
    const names = parametersIn(operation.path).slice(0, nameInPath ? -1 : undefined);
    for (const parameter of names) await assertAlike(operation, params, parameter, isFirst);
    const place = targetOf(operation, params);
    const last = place.path.at(-1);
    if (!last || !isFirst) return;
    const parameter = last.category.parameter;
    await nobody.with([['own', await uriOfSibling(server, place)]], () =>
      assertAlike(operation, params, parameter, false),
    );
    // A user with a grant on an ancestor, but not on this object, learns nothing more.
    if (place.path.length > 1)
      await nobody.with([['use', uriOfTarget({ ...place, path: place.path.slice(0, -1) })]], () =>
        assertAlike(operation, params, parameter, false),
      );
  });
}

const overLong = 'x'.repeat(limits.rowsBodyBytesMax);
const bodies: readonly RequestOptions[] = [
  { body: `{"a":"${overLong}"}` },
  { body: `{"a":"${overLong}"}`, headers: { 'transfer-encoding': 'chunked', 'content-length': undefined } },
  { body: '{"a":' },
  { body: '[' },
  { body: '{"surprise":1}' },
  { body: '<xml/>', headers: { 'content-type': 'text/xml' } },
  { body: new Uint8Array([0xff, 0xfe]), headers: { 'content-encoding': 'gzip' } },
  { body: '' },
];

test('a refusal is sent before the body is read', async () => {
  for (const operation of secret.filter(takesBody)) {
    // The handler decides: the object of the grant is in the body, and it finds out itself whom a task belongs to.
    if (operation.endpoint.permission.on === 'target') continue;
    const path = pathOf(operation.path, await makeParams(server, operation));
    const refusal = (await call(nobody, operation, path, { body: exampleBody(operation) })).is(403, 'FORBIDDEN');
    for (const options of bodies) {
      const reply = await call(nobody, operation, path, options);
      assert.equal(reply.text, refusal.text, titleOf(operation));
    }
  }
});

test('a refusal does not wait for the body', async () => {
  for (const operation of secret.filter(takesBody)) {
    if (operation.endpoint.permission.on === 'target') continue;
    const path = pathOf(operation.path, await makeParams(server, operation));
    const headers = { 'content-length': '1000', 'content-type': 'application/json' };
    (await call(nobody, operation, path, { body: '{', headers, signal: AbortSignal.timeout(deadlineMs(10_000)) })).is(
      403,
      'FORBIDDEN',
    );
  }
});
