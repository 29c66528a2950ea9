// What every endpoint refuses before it looks up any object, in each of the ways to reach it (rest-standard A4, A5, A6, B2).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TSchema } from 'typebox';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { bodyOf, parametersOf } from '../../src/standard/parameters.ts';
import { sampled } from '../budget.ts';
import type { RequestOptions, TestServer } from '../server.ts';
import {
  operations as allOperations,
  call,
  exampleBody,
  limits,
  noLoginThrottling,
  pathOf,
  takesBody,
  titleOf,
} from './operation_call.ts';
import { testedIn, worldOf } from './worlds.ts';
import { wrongValues } from './wrong_values.ts';

const world = worldOf(import.meta.url);
/** None of them reaches the catalog. */
const operationsElsewhere = 8;
const operations = testedIn(world, allOperations, operationsElsewhere);
let server: TestServer;
before(async () => {
  server = await world.start({ ...limits, ...noLoginThrottling });
});
after(() => server.close());

const everyOperation = (
  description: string,
  check: (operation: Operation, path: string) => Promise<void>,
  only = (_: Operation) => true,
) =>
  test(description, async () => {
    for (const operation of operations.filter(only)) await check(operation, pathOf(operation.path));
  });

/** A valid call, except for the given parts. */
const send = (operation: Operation, path: string, options: RequestOptions = {}) =>
  call(server, operation, path, { ...(takesBody(operation) ? { body: exampleBody(operation) } : {}), ...options });

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

const wrongCredentials = (token: string): readonly (string | undefined)[] => [
  '',
  'Bearer',
  'Bearer ',
  `Bearer ${token} ${token}`,
  `Bearer "${token}"`,
  token,
  `Token ${token}`,
  'Negotiate AAAA',
  basic('root', 'wrong'),
  basic('admin', token),
  basic('', token),
  basic('root', ''),
  `Basic ${Buffer.from(token).toString('base64')}`,
  'Basic %%%',
  `Bearer ${'x'.repeat(9000)}`,
];

async function isUnauthenticated(operation: Operation, authorization: string | undefined): Promise<void> {
  const reply = await send(operation, pathOf(operation.path), { headers: { authorization } });
  reply.is(401, 'UNAUTHENTICATED', {});
  assert.match(reply.headers['www-authenticate'] ?? '', /Bearer.*Basic/, titleOf(operation));
  assert.ok(!reply.text.includes(server.token), 'a token is never said back');
}

everyOperation('credentials that are missing or of nobody: 401', async (operation) => {
  await isUnauthenticated(operation, undefined);
  await isUnauthenticated(operation, `Bearer ${server.token}x`);
});

test('malformed or otherwise wrong credentials: 401', async (t) => {
  const wrong = wrongCredentials(server.token);
  for (const authorization of wrong) await isUnauthenticated(operations[0] as Operation, authorization);
  const cases = operations.flatMap((operation) => wrong.map((authorization) => ({ operation, authorization })));
  for (const { operation, authorization } of sampled(t, 6, cases)) await isUnauthenticated(operation, authorization);
});

test('valid credentials of both kinds are accepted', async () => {
  for (const authorization of [`Bearer ${server.token}`, `bearer ${server.token}`, basic('root', server.token)])
    (await server.request('GET', '/api/v2/catalogs', { headers: { authorization } })).is(200);
});

everyOperation('an Accept that does not admit application/json: 406', async (operation, path) => {
  for (const accept of ['text/html', 'application/json;q=0', '*/*, application/json;q=0', 'application/problem+json']) {
    (await send(operation, path, { headers: { accept } })).is(406, 'NOT_ACCEPTABLE');
  }
});

everyOperation(
  'content that is not of the declared media type: 415',
  async (operation, path) => {
    const body = JSON.stringify(exampleBody(operation));
    const requireRefusal = async (options: RequestOptions) => {
      const reply = await send(operation, path, options);
      reply.is(415, 'UNSUPPORTED_MEDIA_TYPE');
    };
    const padded = body === '{}' ? '{ }' : body;
    for (const type of [
      undefined,
      '',
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/json; charset=utf-16',
    ])
      await requireRefusal({ body: padded, headers: { 'content-type': type } });
    for (const text of ['hello', '<xml/>', '\u0000', ']', '=']) await requireRefusal({ body: text });
    await requireRefusal({ body: padded, headers: { 'content-encoding': 'gzip' } });
  },
  takesBody,
);

everyOperation(
  'JSON that starts well and breaks: 400 with line and column',
  async (operation, path) => {
    (await send(operation, path, { body: '{"a":\n  x}' })).is(400, 'MALFORMED_JSON', { line: 2, column: 3 });
    (await send(operation, path, { body: '{"a":"' })).is(400, 'MALFORMED_JSON', { line: 1, column: 6 });
    (await send(operation, path, { body: '  ' })).is(415, 'UNSUPPORTED_MEDIA_TYPE');
    (await send(operation, path, { body: `{"a":${'['.repeat(200)}${']'.repeat(200)}}` })).is(400, 'MALFORMED_JSON');
    const invalidBytes = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]); // {"\xff":1}
    (await send(operation, path, { body: invalidBytes })).is(400, 'MALFORMED_JSON', { line: 1, column: 3 });
  },
  takesBody,
);

everyOperation(
  'JSON that is no object: 400',
  async (operation, path) => {
    for (const body of ['[]', '"text"', '1', '-1e400', 'true', 'null'])
      (await send(operation, path, { body })).is(400, 'INVALID_PARAMETER');
  },
  takesBody,
);

everyOperation(
  'a body that is missing where one is needed: 400',
  async (operation, path) => {
    (await send(operation, path, { body: undefined })).is(400, 'EMPTY_BODY');
    (await send(operation, path, { body: '{}' })).is(400, 'EMPTY_BODY');
  },
  ({ endpoint }) => endpoint.bodyRequired === true,
);

everyOperation(
  'a field that is not declared: 400 with its pointer',
  async (operation, path) => {
    for (const field of ['surprise', 'Name', '__proto__', 'constructor', 'a/b~c']) {
      const body = JSON.stringify(exampleBody(operation)).replace(/\}$/, (end) => `,${JSON.stringify(field)}:1${end}`);
      const reply = await send(operation, path, { body: body.replace('{,', '{') });
      const pointer = `/${field.replace('~', '~0').replace('/', '~1')}`;
      reply.is(400, 'UNKNOWN_FIELD', { violations: [{ pointer, rule: 'unknownField' }] });
    }
  },
  takesBody,
);

/** The first way to reach each endpoint, and the one with the name in the path: their declared bodies differ. */
const isFirstOfItsBody = (operation: Operation) =>
  operations.find((other) => other.endpoint === operation.endpoint && other.nameInPath === operation.nameInPath) ===
  operation;

everyOperation(
  'a declared field of a wrong type or value: 400 with its pointer',
  async (operation, path) => {
    const schema = bodyOf(operation.endpoint, !operation.nameInPath);
    for (const [field, declared] of Object.entries(schema?.properties ?? {})) {
      const wrong = wrongValues(declared as TSchema);
      for (const value of wrong) {
        const reply = await send(operation, path, { body: { ...exampleBody(operation), [field]: value } });
        assert.ok([400].includes(reply.status), `${titleOf(operation)} took ${field}: ${JSON.stringify(value)}`);
        const [{ pointer }] = reply.at<[{ pointer: string }]>('violations');
        assert.ok(pointer === `/${field}` || pointer.startsWith(`/${field}/`), `${field}: ${reply.text}`);
      }
    }
  },
  (operation) => takesBody(operation) && isFirstOfItsBody(operation),
);

everyOperation(
  'a body over the limit: 400, whether its length is said or not',
  async (operation, path) => {
    const bytesMax = operation.endpoint.bodyBytesMax ?? limits.requestBodyBytesMax;
    const body = `{"a":"${'x'.repeat(bytesMax)}"}`;
    (await send(operation, path, { body })).is(400, 'BODY_TOO_LARGE', { bytesMax });
    const chunked = { 'transfer-encoding': 'chunked', 'content-length': undefined };
    (await send(operation, path, { body, headers: chunked })).is(400, 'BODY_TOO_LARGE', { bytesMax });
  },
  takesBody,
);

everyOperation(
  'a body on GET or DELETE: 400',
  async (operation, path) => {
    (await send(operation, path, { body: {} })).is(400, 'BODY_NOT_ALLOWED');
    const chunked = { 'transfer-encoding': 'chunked', 'content-length': undefined };
    (await send(operation, path, { body: '{}', headers: chunked })).is(400, 'BODY_NOT_ALLOWED');
  },
  (operation) => !takesBody(operation),
);

everyOperation(
  'query parameters beside a body: 400',
  async (operation, path) => {
    for (const query of ['x=1', 'pageSize=1', '=', 'name=a'])
      (await send(operation, `${path}?${query}`)).is(400, 'BODY_AND_QUERY');
  },
  takesBody,
);

everyOperation(
  'query parameters that are unknown, repeated, or of a wrong type: 400',
  async (operation, path) => {
    for (const query of ['x=1', 'PageSize=1', '__proto__=1', '%00=1'])
      (await send(operation, `${path}?${query}`)).is(400, 'UNKNOWN_QUERY_PARAMETER');
    const { query } = parametersOf(operation.endpoint);
    for (const [name, schema] of Object.entries(query?.properties ?? {})) {
      const validValue = (schema as { type: string }).type === 'boolean' ? 'true' : '1';
      (await send(operation, `${path}?${name}=${validValue}&${name}=${validValue}`)).is(
        400,
        'REPEATED_QUERY_PARAMETER',
      );
      if ((schema as { type: string }).type === 'string') continue;
      for (const invalidValue of ['', '-1', 'x', '1.5', '1e1', '99999999999999999999', 'null', '%00'])
        (await send(operation, `${path}?${name}=${invalidValue}`)).is(400, 'INVALID_PARAMETER', {
          violations: [{ pointer: `query:${name}` }],
        });
    }
  },
  (operation) => !takesBody(operation),
);

everyOperation('a request id that is no visible ASCII, or too long: 400', async (operation, path) => {
  for (const id of ['a b', 'x'.repeat(129), 'é'])
    (await send(operation, path, { headers: { 'x-service-request-id': id } })).is(400, 'INVALID_REQUEST_ID');
  const longest = '~'.repeat(128);
  const reply = await send(operation, path, { headers: { 'x-service-request-id': longest, accept: 'text/html' } });
  assert.equal(reply.headers['x-service-request-id'], longest, 'echoed by a failure too');
});

test('a path that is almost right is not a registered REST API', async () => {
  for (const operation of operations) {
    const path = pathOf(operation.path);
    const method = operation.method.toUpperCase();
    for (const similarPath of [`${path}/`, path.replace('/v2/', '/v1/'), path.replace('/v2/', '/v2//'), `${path}/%zz`])
      (await server.request(method, similarPath)).is(404, 'API_NOT_FOUND');
  }
});
