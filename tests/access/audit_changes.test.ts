// Every endpoint that changes something writes one audit event per call: when it changed something, when it was refused, when it
// failed. Derived from the declarations, so that new endpoints are covered; statements and tasks are tested separately.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { anonymousLoggedPerMinuteMax } from '../../src/access/audit/refusal_sampling.ts';
import { isMutation } from '../../src/standard/endpoint.ts';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { bodyOf, fixtureOf, makeFor, namedBody, newNameOf } from '../every_endpoint/fixtures.ts';
import {
  call,
  exampleBody,
  keyOf,
  nameOf,
  operations,
  type Params,
  pathOf,
  titleOf,
} from '../every_endpoint/operation_call.ts';
import { type Reply, start, type TestServer, uri } from '../server.ts';
import { grant, newPerson, type Person } from './people.ts';

interface Event {
  readonly action: string;
  readonly outcome: string;
  readonly principal: string | null;
  readonly principalId: string | null;
  readonly address: string | null;
  readonly target: string | null;
  readonly objectId: string | null;
  readonly details: Readonly<Record<string, unknown>> | null;
}

let server: TestServer;
let nobody: Person;
before(async () => {
  server = await start({ failedLoginsPerAddressMax: 1_000_000 });
  nobody = await newPerson(server, 'nobody');
  // The objects that are restored.
  for (const operation of operations.filter((candidate) => keyOf(candidate) === 'backup')) {
    const { path, body = {} } = await prepared(operation);
    (await server.ended(await call(server, operation, path, { body }))).is(200, '0', { state: 'succeeded' });
  }
});
after(() => server.close());

async function eventsOf(requestId: string): Promise<Event[]> {
  return (await server.post('/api/v2/audit_events/search', { requestId })).is(200).at<Event[]>('auditEvents').reverse();
}

const changing = operations.filter(({ endpoint }) => isMutation(endpoint));
/** Work of an engine has an event before it, too. */
const isBegun = ({ outcome }: Event) => outcome === 'begun';

/** Calls the operation with the body of its fixture, on a new object. */
async function prepared(operation: Operation): Promise<{ readonly path: string; readonly body: object | undefined }> {
  const { category, endpoint } = operation;
  const fixture = fixtureOf(category);
  const params: Params = await makeFor(category, keyOf(operation), server);
  const name = newNameOf(category);
  const isCreate = endpoint.verb === 'create';
  const path = pathOf(operation.path, isCreate ? { ...params, [category.parameter]: name } : params);
  if (!endpoint.body) return { path, body: undefined };
  if (fixture.refused?.[keyOf(operation)]) return { path, body: exampleBody(operation) };
  const fields = bodyOf(category, keyOf(operation), params);
  return { path, body: namedBody(operation, name, fields) };
}

function sendAs(operation: Operation, path: string, body: object | undefined, authorization?: string | null) {
  const requestId = randomUUID();
  const headers = {
    'x-service-request-id': requestId,
    ...(authorization === undefined ? {} : { authorization: authorization ?? undefined }),
  };
  return { requestId, reply: call(server, operation, path, { headers, ...(body ? { body } : {}) }) };
}

/** One event for each changed object, usually one. */
function requireOne(events: readonly Event[], expected: Partial<Event>, context: string): void {
  const outcomes = events.filter((candidate) => !isBegun(candidate));
  assert.ok(outcomes.length > 0, `${context} leaves no line`);
  const objects = outcomes.map(({ objectId }) => objectId);
  assert.equal(
    new Set(objects).size,
    objects.length,
    `${context} leaves more than one line: ${JSON.stringify(outcomes)}`,
  );
  for (const event of outcomes) assert.partialDeepStrictEqual(event, expected, context);
}

describe('a change writes one event', () => {
  for (const operation of changing)
    test(titleOf(operation), async () => {
      const { path, body } = await prepared(operation);
      const refused = fixtureOf(operation.category).refused?.[keyOf(operation)];
      const { requestId, reply } = sendAs(operation, path, body);
      const response = await reply;
      if (response.status === 202) (await server.ended(response)).is(200, '0', { state: 'succeeded' });
      assert.equal(response.code, refused ?? '0', response.text);
      const events = await eventsOf(requestId);
      requireOne(
        events,
        {
          action: nameOf(operation),
          outcome: refused ?? '0',
          principal: 'root',
          principalId: 'root',
          address: '127.0.0.1',
          target: path.split('?')[0] as string,
        },
        titleOf(operation),
      );
      const objects = events.map(({ objectId }) => objectId);
      if (refused === undefined && !nothingChanges.has(nameOf(operation)))
        assert.ok(
          objects.some((candidate) => candidate !== null),
          `${titleOf(operation)} names no object`,
        );
    });
});

/** Operations that change nothing when repeated, or that delete something other than an object. */
const nothingChanges = new Set([
  'queries.delete',
  'queries.cancel',
  'tasks.cancel',
  'warehouses.resume',
  'backends.enable',
]);

/** How many requests without credentials were sent. Each of the first of a minute has an event (access/audit/refusal_sampling.ts). */
let unauthenticated = 0;

describe('a refusal writes one event', () => {
  for (const operation of changing)
    test(titleOf(operation), async () => {
      const { path, body } = await prepared(operation);
      const target = path.split('?')[0] as string;
      const stranger = sendAs(operation, path, body, null);
      (await stranger.reply).is(401, 'UNAUTHENTICATED');
      const expected = {
        action: nameOf(operation),
        outcome: 'UNAUTHENTICATED',
        target,
      };
      const events = await eventsOf(stranger.requestId);
      // Those beyond a limit are counted instead.
      if (unauthenticated++ < anonymousLoggedPerMinuteMax || events.length > 0)
        requireOne(
          events,
          { ...expected, principal: null, principalId: null, address: '127.0.0.1' },
          'without credentials',
        );
      // Everybody may change what belongs to the caller.
      if (operation.endpoint.permission.on === 'caller') return;
      const forbidden = sendAs(operation, path, body, `Bearer ${nobody.token}`);
      (await forbidden.reply).is(403, 'FORBIDDEN');
      requireOne(
        await eventsOf(forbidden.requestId),
        { ...expected, outcome: 'FORBIDDEN', principal: 'nobody', address: '127.0.0.1' },
        'without a grant',
      );
    });
});

describe('a failed change writes its code, and no 0', () => {
  for (const operation of changing.filter(({ endpoint }) => endpoint.body))
    test(titleOf(operation), async () => {
      const { path } = await prepared(operation);
      const { requestId, reply } = sendAs(operation, path, { 'no such field': 1 });
      const { code } = await reply;
      assert.notEqual(code, '0');
      requireOne(await eventsOf(requestId), { outcome: code, principal: 'root' }, titleOf(operation));
    });

  for (const operation of changing.filter(({ endpoint, method }) => endpoint.verb === 'create' && method === 'post'))
    test(`${titleOf(operation)}, which exists`, async () => {
      if (operation.endpoint.named === false || fixtureOf(operation.category).refused?.create) return;
      const { path, body } = await prepared(operation);
      const created = await sendAs(operation, path, body).reply;
      if (created.status === 202) await server.ended(created);
      else created.is(201);
      const { requestId, reply } = sendAs(operation, path, body);
      (await reply).is(400, 'OBJECT_ALREADY_EXISTS');
      requireOne(await eventsOf(requestId), { outcome: 'OBJECT_ALREADY_EXISTS', objectId: null }, titleOf(operation));
    });
});

describe('a statement', () => {
  const database = 'audited';
  let requestId = '';
  before(async () => {
    await server.client.databases.create({ name: database });
    const columns = [{ name: 'id', type: 'INT' }];
    await server.client
      .databases(database)
      .tables.create({ name: 't', columns, primaryKey: ['id'] })
      .done();
  });
  const send = (sql: string, more: object = {}, token = server.token): Promise<Reply> => {
    requestId = randomUUID();
    const headers = { 'x-service-request-id': requestId, authorization: `Bearer ${token}` };
    return server.request('POST', uri`/databases/${database}/query`, { headers, body: { sql, ...more } });
  };
  const outcomes = async () => (await eventsOf(requestId)).map(({ outcome }) => outcome);

  test('that writes has an event before and after, without its literals', async () => {
    (await send('INSERT INTO t VALUES (7654321)')).is(200);
    const events = await eventsOf(requestId);
    assert.deepEqual(
      events.map(({ outcome }) => outcome),
      ['begun', '0'],
    );
    assert.deepEqual(events[0]?.details?.tables, ['default.audited.t']);
    assert.ok(!JSON.stringify(events).includes('7654321'));
    assert.deepEqual(
      events.map(({ action, principal }) => `${action} ${principal}`),
      Array(2).fill('databases.query root'),
    );
  });

  test('that fails while it writes has an event with its code', async () => {
    (await send('INSERT INTO t VALUES (7654321)')).is(400, 'CONSTRAINT_VIOLATED');
    assert.deepEqual(await outcomes(), ['begun', 'CONSTRAINT_VIOLATED']);
  });

  test('that reads has none', async () => {
    (await send('SELECT * FROM t')).is(200);
    assert.deepEqual(await outcomes(), []);
  });

  test('that is refused has one', async () => {
    (await send('INSERT INTO t VALUES (2)', {}, nobody.token)).is(403, 'FORBIDDEN');
    assert.deepEqual(await outcomes(), ['FORBIDDEN']);
  });

  test('that a task runs has its event from the task, and so has its refusal', async () => {
    await grant(server, 'users/nobody', [
      ['use', '/warehouses/default'],
      ['own', '/catalogs/default/databases/audited'],
    ]);
    const auditEventsAbout = async (task: string) => {
      const events = await server.post('/api/v2/audit_events/search', { action: 'tasks.run', principal: 'nobody' });
      return events
        .at<Event[]>('auditEvents')
        .reverse()
        .filter((event) => JSON.stringify(event).includes(task));
    };
    const written = await send('INSERT INTO t VALUES (3)', { waitSeconds: 0 }, nobody.token);
    (await server.ended(written)).is(200, '0', { state: 'succeeded' });
    const { queryId } = (await server.get(written.at('uri'))).at<{ queryId: string }>('result');
    assert.deepEqual(
      (await auditEventsAbout(queryId)).map(({ outcome }) => outcome),
      ['begun', '0'],
    );
    const refused = await send('INSERT INTO t SELECT count(*) FROM elsewhere.t', { waitSeconds: 0 }, nobody.token);
    const ended = await server.ended(refused);
    assert.equal(ended.at('error', 'code'), 'FORBIDDEN');
    assert.deepEqual(
      (await auditEventsAbout(refused.at('taskId'))).map(({ outcome }) => outcome),
      ['FORBIDDEN'],
    );
  });
});

test('the events of an object include the outcome of the rows that were written to it', async () => {
  const columns = [{ name: 'a', type: 'INT' as const, nullable: false }];
  await server.client.databases.create({ name: 'outcomes' });
  const table = '/api/v2/databases/outcomes/tables/t';
  (await server.post('/api/v2/databases/outcomes/tables', { name: 't', columns, primaryKey: ['a'] })).is(201);
  (await server.post(`${table}/rows`, { rows: [[1]] })).is(201);
  (await server.post(`${table}/rows`, { rows: [[1]] })).is(400, 'CONSTRAINT_VIOLATED');
  const events = (await server.post('/api/v2/audit_events/search', { object: table }))
    .is(200)
    .at<Event[]>('auditEvents');
  const outcomes = events.filter(({ action }) => action === 'rows.create').map(({ outcome }) => outcome);
  assert.deepEqual(outcomes.sort(), ['0', 'CONSTRAINT_VIOLATED', 'begun', 'begun']);
});

test('a wrong path writes no event, and refusals outside the API write one', async () => {
  const count = async () => (await server.post('/api/v2/audit_events/verify')).is(200).at<number>('eventCount');
  await server.post('/api/v2/audit_events/search');
  const before = await count();
  await server.send('GET', '/api/v2/nothing');
  await server.send('GET', '/metrics', { headers: { authorization: `Bearer ${nobody.token}` } });
  const events = (await server.post('/api/v2/audit_events/search', { action: 'metrics' })).at<Event[]>('auditEvents');
  assert.partialDeepStrictEqual(events, [{ outcome: 'FORBIDDEN', principal: 'nobody', target: '/metrics' }]);
  assert.equal(await count(), before + 1);
});

test('the trail verifies afterwards', async () => {
  const verification = (await server.post('/api/v2/audit_events/verify')).is(200);
  assert.deepEqual(verification.at('faults'), []);
  assert.equal(verification.at<unknown[]>('heads').length, 1);
});
