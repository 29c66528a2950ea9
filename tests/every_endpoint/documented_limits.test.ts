// Limits that handlers check and only the OpenAPI document states (src/standard/documented_limits.ts): the schema of the document
// and the server agree on which bodies are valid.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { start, type TestServer } from '../server.ts';
import { freshName } from './fixtures.ts';

interface LimitedPart {
  readonly schema: string;
  readonly method: string;
  readonly path: string;
  /** Fields of each body. */
  readonly base: () => object;
  /** Fields of which each body has a part. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** The body that contains the object; by default it is the object. */
  readonly bodyOf?: (object: object) => object;
}

const database = '/api/v2/databases/shop';
const store = { endpoint: 'http://127.0.0.1:1', bucket: 'files', key: 'a.csv' };
const query = { sql: 'SELECT 1' };
const request = { on: `${database}/tables/orders`, action: 'optimize' };
const newNameBody = () => ({ name: freshName() });

const limited: readonly LimitedPart[] = [
  {
    schema: 'CreateScheduleRequest',
    method: 'POST',
    path: '/api/v2/schedules',
    base: () => ({ ...newNameBody(), cron: '@yearly', disabled: true }),
    fields: { query, request },
  },
  {
    schema: 'UpdateScheduleRequest',
    method: 'PATCH',
    path: '/api/v2/schedules/yearly',
    base: () => ({ comment: 'changed' }),
    fields: { query, request },
  },
  {
    schema: 'CreateTableRequest',
    method: 'POST',
    path: `${database}/tables`,
    base: newNameBody,
    fields: { columns: [{ name: 'a', type: 'INT' }], asSelect: query },
  },
  {
    schema: 'CreateTableRequest',
    method: 'PUT',
    path: `${database}/tables`,
    base: () => ({ name: 'by_statement' }),
    fields: { sql: 'CREATE TABLE by_statement (a INT)', columns: [{ name: 'a', type: 'INT' }], asSelect: query },
  },
  {
    schema: 'UndropRequest',
    method: 'POST',
    path: `${database}/views/undrop`,
    base: () => ({}),
    fields: { name: 'gone', id: 'gone' },
  },
  {
    schema: 'UndropByTaskRequest',
    method: 'POST',
    path: `${database}/tables/undrop`,
    base: () => ({ newName: 'back' }),
    fields: { name: 'gone', id: 'gone' },
  },
  {
    schema: 'LoadDatabaseRequest',
    method: 'POST',
    path: `${database}/load`,
    base: () => ({ table: freshName(), source: { s3: store } }),
    fields: { columns: [{ name: 'a', type: 'INT' }], types: { a: 'INT' } },
  },
  {
    schema: 'ObjectStoreFile',
    method: 'POST',
    path: `${database}/tables/orders/load`,
    base: () => store,
    fields: { accessKeyId: 'x', secretAccessKey: 'x', sessionToken: 'x' },
    bodyOf: (s3) => ({ source: { s3 } }),
  },
  {
    schema: 'LoadSource',
    method: 'POST',
    path: `${database}/tables/orders/load`,
    base: () => ({}),
    fields: { url: 'http://127.0.0.1:1/a.csv', s3: store },
    bodyOf: (source) => ({ source }),
  },
  ...['', 'ftp://127.0.0.1/keys', 'http://127.0.0.1:1/keys'].map((jwksUri) => ({
    schema: 'CreateIdentityProviderRequest',
    method: 'POST',
    path: '/api/v2/identity_providers',
    base: () => ({ ...newNameBody(), issuer: `https://${randomUUID()}.invalid`, audiences: ['tests'], disabled: true }),
    fields: { jwksUri },
  })),
  ...['/api/v2', '/api/v2/users', 'users', '/users', ''].map((parentUri) => ({
    schema: 'CreateRoleGrantRequest',
    method: 'PUT',
    path: '/api/v2/roles/readers/grants',
    base: () => ({ privilege: 'read', on: parentUri }),
    fields: {},
  })),
];

const { components } = JSON.parse(await readFile(new URL('../../openapi.json', import.meta.url), 'utf8')) as {
  readonly components: { readonly schemas: Readonly<Record<string, TSchema>> };
};

/** The schema with those that it refers to in it. */
function resolved(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(resolved);
  const { $ref } = schema as { readonly $ref?: string };
  if (typeof $ref === 'string') return resolved(components.schemas[$ref.split('/').at(-1) as string]);
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, resolved(value)]));
}

/** All parts of the fields, from none to all. */
const parts = (fields: LimitedPart['fields']): object[] =>
  Object.entries(fields).reduce<object[]>(
    (all, [name, value]) => all.flatMap((part) => [part, { ...part, [name]: value }]),
    [{}],
  );

let server: TestServer;
before(async () => {
  server = await start();
  (await server.put(database)).is(201);
  (await server.put(`${database}/tables/orders`, { columns: [{ name: 'a', type: 'INT' }] })).is(201);
  (await server.put('/api/v2/roles/readers')).is(201);
  (await server.put('/api/v2/schedules/yearly', { query, cron: '@yearly', disabled: true })).is(201);
});
after(() => server.close());

const refusals = ['INVALID_PARAMETER', 'EMPTY_BODY'];
for (const { schema, method, path, base, fields, bodyOf = (object: object) => object } of limited) {
  const validator = Compile(resolved(components.schemas[schema]) as TSchema);
  for (const part of parts(fields)) {
    const named = { ...base(), ...part };
    const isValid = validator.Check(named);
    test(`${method} ${path} ${isValid ? 'accepts' : 'refuses'} ${JSON.stringify(part)}, as ${schema} documents`, async () => {
      const { code, text } = await server.request(method, path, { body: bodyOf(named) });
      assert.equal(!refusals.includes(code), isValid, text);
    });
  }
}
