// One fixture per category: an object on which its endpoints are called, and the bodies with which they succeed. A category without
// a fixture fails the tests over every endpoint; everything else is read from its declaration.

import { randomUUID } from 'node:crypto';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Code } from '../../src/standard/codes.ts';
import { type Category, nameFieldOf } from '../../src/standard/endpoint.ts';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { startObjectStore } from '../outbound/object_store_server.ts';
import type { TestServer } from '../server.ts';
import { uri } from '../server.ts';
import type { Params } from './operation_call.ts';

export interface Fixture {
  /** Path parameters of an existing object and its parents; a new object if one can be created. */
  make(server: TestServer): Promise<Params>;
  /** For endpoints that need another object than `make` creates, by action or verb. */
  readonly makeFor?: Readonly<Record<string, Fixture['make']>>;
  /** The body of each endpoint that accepts one, by action or verb; that of a create without the name. */
  readonly bodies: Readonly<Record<string, (params: Params) => object>>;
  /** Endpoints that are refused for the object by design, with their code. */
  readonly refused?: Readonly<Record<string, Code>>;
  /** The name that its `create` uses, if it cannot be chosen freely. */
  readonly nameOfNew?: () => string;
}

let created = 0;
/** An unused name that is hostile enough to reveal a missing escape. */
export const freshName = () => `n ${++created}/"é%`;

const emptyBody = () => ({});
const renamed = () => ({ newName: freshName() });
const describingBody = () => ({ comment: 'changed', properties: { a: 'b' } });
const objects = await startObjectStore();
after(() => objects.close());
const { endpoint, bucket, accessKeyId, secretAccessKey } = objects;
const exported = { format: 'csv', to: { s3: { endpoint, bucket, accessKeyId, secretAccessKey } } };
const backups = { s3: { endpoint, bucket, prefix: 'backups', accessKeyId, secretAccessKey } };
const wholeServer = { s3: { endpoint, bucket, prefix: 'servers', accessKeyId, secretAccessKey } };
const durableBodies = {
  backup: () => ({ to: backups }),
  restore: () => ({ name: freshName(), from: backups }),
};
const sql = {
  query: () => ({ sql: 'SELECT 1' }),
  explain: () => ({ sql: 'SELECT 1' }),
  profile: () => ({ sql: 'SELECT 1' }),
  export: () => ({ sql: 'SELECT 1', ...exported }),
};
const inDefault = { catalog: 'default' };

async function database(server: TestServer): Promise<Params> {
  const name = freshName();
  (await server.put(uri`/databases/${name}`)).is(201);
  return { ...inDefault, database: name };
}

/** One for all tables: creating it is not what is tested. */
const holders = new WeakMap<TestServer, Promise<Params>>();
function holder(server: TestServer): Promise<Params> {
  const shared = holders.get(server) ?? database(server);
  holders.set(server, shared);
  return shared;
}

const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'note', type: 'STRING', comment: 'free' },
];

/** The warehouse of servers whose catalogs are on an engine that enforces no keys. */
export const warehousesWithoutKeys = new WeakMap<TestServer, string>();

async function table(server: TestServer): Promise<Params> {
  const params = await holder(server);
  const name = freshName();
  const keys = warehousesWithoutKeys.has(server) ? {} : { primaryKey: ['id'], unique_key_constraints: ['note'] };
  (await server.put(uri`/databases/${params.database as string}/tables/${name}`, { columns, ...keys })).is(201);
  return { ...params, table: name };
}

async function tablet(server: TestServer): Promise<Params> {
  const params = await table(server);
  const path = uri`/databases/${params.database as string}/tables/${params.table as string}/tablets`;
  return { ...params, tabletId: (await server.get(path)).is(200).at('tablets', 0, 'tabletId') };
}

async function replica(server: TestServer): Promise<Params> {
  const params = await tablet(server);
  const path = uri`/databases/${params.database as string}/tables/${params.table as string}/tablets/${params.tabletId as string}/replicas`;
  return { ...params, replicaId: (await server.get(path)).is(200).at('replicas', 0, 'replicaId') };
}

async function view(server: TestServer): Promise<Params> {
  const params = await holder(server);
  const name = freshName();
  (await server.put(uri`/databases/${params.database as string}/views/${name}`, { sql: 'SELECT 1 AS a' })).is(201);
  return { ...params, view: name };
}

async function warehouse(server: TestServer): Promise<Params> {
  const warehouseName = freshName();
  (await server.put(uri`/warehouses/${warehouseName}`)).is(201);
  return { warehouseName };
}

async function task(server: TestServer): Promise<Params> {
  const accepted = await server.post('/api/v2/catalogs/default/query', { sql: 'SELECT 1', waitSeconds: 0 });
  (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
  return { taskId: accepted.at('taskId') };
}

const password = 'correct horse battery';

async function user(server: TestServer): Promise<Params> {
  const name = freshName();
  (await server.put(uri`/users/${name}`)).is(201);
  return { user: name };
}

async function role(server: TestServer): Promise<Params> {
  const name = freshName();
  (await server.put(uri`/roles/${name}`)).is(201);
  return { role: name };
}

/** Disabled, so that no keys are fetched; each issuer belongs to one provider. */
const provider = () => ({ issuer: `https://issuer-${++created}.invalid`, audiences: ['tests'], disabled: true });

const scheduled = () => ({ query: { sql: 'SELECT 1' }, cron: '0 0 1 1 *', disabled: true });
const notes = fileURLToPath(new URL('../data/notes.csv', import.meta.url));
/** Dropped objects, to be restored. */
const droppedBy = (makeObject: Fixture['make'], pathOf: (params: Params) => string): Fixture['make'] => {
  return async (server) => {
    const params = await makeObject(server);
    (await server.delete(pathOf(params))).is(200, '0', { deleted: true });
    return params;
  };
};

async function catalog(server: TestServer): Promise<Params> {
  const name = freshName();
  const warehouse = warehousesWithoutKeys.get(server);
  (await server.put(uri`/catalogs/${name}`, warehouse === undefined ? {} : { warehouse })).is(201);
  return { catalog: name };
}

async function draft(server: TestServer): Promise<Params> {
  return { draftId: (await server.post('/api/v2/drafts', { sql: 'SELECT 1' })).is(201).at('draftId') };
}

async function savedQuery(server: TestServer): Promise<Params> {
  const name = freshName();
  (await server.put(uri`/saved_queries/${name}`, { sql: 'SELECT 1' })).is(201);
  return { savedQuery: name };
}

async function serverBackup(server: TestServer): Promise<Params> {
  const name = freshName();
  const task = await server.ended(await server.put(uri`/server_backups/${name}`, { to: wholeServer }));
  task.is(200, '0', { state: 'succeeded' });
  return { serverBackup: name };
}
/** Shared by all that only read it: each one is a copy of the whole server. */
const sharedBackups = new WeakMap<TestServer, Promise<Params>>();

const fixtures: Readonly<Record<string, Fixture>> = {
  catalogs: {
    make: catalog,
    makeFor: {
      undrop: droppedBy(catalog, (params) => uri`/catalogs/${params.catalog as string}`),
      move: async (server) => ({ ...(await catalog(server)), ...(await warehouse(server)) }),
    },
    bodies: {
      create: describingBody,
      update: describingBody,
      rename: renamed,
      browse: emptyBody,
      search: emptyBody,
      undrop: (params) => ({ name: params.catalog }),
      check: emptyBody,
      move: (params) => ({ warehouse: params.warehouseName ?? 'default', dryRun: true }),
      ...sql,
      ...durableBodies,
    },
  },
  databases: {
    make: database,
    makeFor: { undrop: droppedBy(database, (params) => uri`/databases/${params.database as string}`) },
    bodies: {
      create: describingBody,
      update: describingBody,
      rename: renamed,
      browse: emptyBody,
      search: emptyBody,
      undrop: (params) => ({ name: params.database }),
      load: () => ({ table: freshName(), source: { path: notes } }),
      ...sql,
      ...durableBodies,
    },
  },
  tables: {
    make: table,
    makeFor: {
      undrop: droppedBy(
        table,
        (params) => uri`/databases/${params.database as string}/tables/${params.table as string}`,
      ),
    },
    bodies: {
      undrop: (params) => ({ name: params.table }),
      create: () => ({ columns }),
      update: describingBody,
      rename: renamed,
      truncate: emptyBody,
      update_rows: () => ({ set: { note: "'x'" }, where: 'id = 1' }),
      delete_rows: () => ({ where: 'id = 1' }),
      insert_select: () => ({ sql: "SELECT 1, 'x'" }),
      optimize: emptyBody,
      checksum: emptyBody,
      export_table: () => exported,
      compare: () => ({ name: freshName(), columns }),
      copy_definition: renamed,
      dependents: emptyBody,
      load: () => ({ source: { path: notes } }),
      clone: renamed,
      search: emptyBody,
    },
  },
  columns: {
    make: async (server) => {
      const params = await table(server);
      const name = freshName();
      const collection = uri`/databases/${params.database as string}/tables/${params.table as string}/columns`;
      (await server.post(collection, { name, type: 'INT' })).is(201);
      return { ...params, column: name };
    },
    bodies: {
      create: () => ({ type: 'DATE' }),
      update: () => ({ comment: 'changed' }),
      rename: renamed,
      search: emptyBody,
    },
  },
  rows: {
    make: async (server) => {
      const params = await table(server);
      const rows = uri`/databases/${params.database as string}/tables/${params.table as string}/rows`;
      (await server.post(rows, { rows: [[1, 'one'], { id: 2 }] })).is(201);
      return params;
    },
    bodies: { create: () => ({ rows: [[3, 'three'], { id: 4, note: null }] }) },
  },
  views: {
    make: view,
    makeFor: {
      undrop: droppedBy(view, (params) => uri`/databases/${params.database as string}/views/${params.view as string}`),
    },
    bodies: {
      create: () => ({ sql: 'SELECT 1 AS a', comment: 'made' }),
      update: describingBody,
      compare: () => ({ name: freshName(), sql: 'SELECT 1 AS a' }),
      dependents: emptyBody,
      rename: renamed,
      search: emptyBody,
      undrop: (params) => ({ name: params.view }),
    },
  },
  servers: {
    make: async (server) => {
      const [one] = (await server.get('/api/v2/servers')).is(200).at<{ serverId: string }[]>('servers');
      return { serverId: one?.serverId ?? '' };
    },
    bodies: {},
    refused: { delete: 'SERVER_AVAILABLE' },
  },
  tablets: { make: tablet, bodies: {} },
  replicas: { make: replica, bodies: {} },
  warehouses: {
    make: warehouse,
    bodies: {
      create: describingBody,
      update: () => ({ queriesMax: 3 }),
      search: emptyBody,
      suspend: emptyBody,
      resume: emptyBody,
      release_blocked_changes: emptyBody,
      release_quarantine: emptyBody,
    },
  },
  backends: {
    make: async (server) => ({ ...(await warehouse(server)), backendId: 'embedded' }),
    bodies: {
      create: emptyBody,
      update: () => ({ comment: 'changed', zone: 'eu-1a' }),
      disable: emptyBody,
      enable: emptyBody,
      decommission: emptyBody,
      cancel_decommission: emptyBody,
    },
    refused: {
      create: 'CHANGE_NOT_SUPPORTED',
      delete: 'OBJECT_PROTECTED',
      decommission: 'CHANGE_NOT_SUPPORTED',
      cancel_decommission: 'CHANGE_NOT_SUPPORTED',
    },
  },
  queries: {
    make: async (server) => {
      const reply = await server.post('/api/v2/catalogs/default/query', { sql: 'SELECT 1' });
      return { queryId: reply.is(200).at('queryId') };
    },
    bodies: { cancel: emptyBody, search: emptyBody, explain: emptyBody },
  },
  tasks: { make: task, bodies: { cancel: emptyBody, search: emptyBody } },
  users: {
    make: user,
    bodies: {
      create: describingBody,
      update: describingBody,
      rename: renamed,
      change_password: () => ({ currentPassword: password, newPassword: 'another staple of words' }),
      effective_grants: emptyBody,
      identify: emptyBody,
      search_grants: () => ({ on: '/api/v2' }),
      search: emptyBody,
    },
    makeFor: {
      change_password: async (server) => {
        const params = await user(server);
        (await server.patch(uri`/users/${params.user as string}`, { password })).is(200);
        return params;
      },
    },
  },
  tokens: {
    make: async (server) => {
      const params = await user(server);
      const token = freshName();
      (await server.put(uri`/users/${params.user as string}/tokens/${token}`)).is(201);
      return { ...params, token };
    },
    bodies: { create: () => ({ scopes: [{ privilege: 'use', on: '/api/v2/warehouses/default' }] }), search: emptyBody },
  },
  /** In users and in roles: the fixtures are the same. */
  grants: {
    make: async (server) => {
      const params = { ...(await user(server)), ...(await role(server)) };
      const body = { privilege: 'use', on: '/api/v2/warehouses' };
      const grant = await server.post(uri`/users/${params.user as string}/grants`, body);
      (await server.post(uri`/roles/${params.role as string}/grants`, body)).is(201);
      return { ...params, grantId: grant.is(201).at('grantId') };
    },
    bodies: {
      create: () => ({ privilege: 'read', on: '/api/v2/warehouses' }),
      check: () => ({ checks: [{ privilege: 'read', on: '/api/v2/catalogs/default' }] }),
      search: () => ({ on: '/api/v2/warehouses' }),
    },
    nameOfNew: () => 'read-all-warehouses',
  },
  roles: {
    make: role,
    bodies: {
      create: describingBody,
      update: () => ({ ...describingBody(), members: ['root'] }),
      rename: renamed,
      add_members: () => ({ members: ['root'] }),
      remove_members: () => ({ members: ['root'] }),
      search: emptyBody,
    },
  },
  identity_providers: {
    make: async (server) => {
      const identityProvider = freshName();
      (await server.put(uri`/identity_providers/${identityProvider}`, provider())).is(201);
      return { identityProvider };
    },
    bodies: { create: provider, update: () => ({ ...describingBody(), userClaim: 'email' }), search: emptyBody },
  },
  audit_events: {
    make: async (server) => {
      const { eventId } = (await server.get('/api/v2/audit_events?pageSize=1')).at<Params>('auditEvents', 0);
      return { eventId: eventId as string };
    },
    bodies: { search: emptyBody, verify: emptyBody },
  },
  schedules: {
    make: async (server) => {
      const schedule = freshName();
      (await server.put(uri`/schedules/${schedule}`, scheduled())).is(201);
      return { schedule };
    },
    bodies: {
      create: scheduled,
      update: () => ({ ...describingBody(), priority: 'low' }),
      run: emptyBody,
      rename: renamed,
      search: emptyBody,
    },
  },
  drafts: {
    make: draft,
    bodies: { create: () => ({ name: 'new', sql: 'SELECT 1' }), update: () => ({ sql: 'SELECT 2' }) },
    nameOfNew: randomUUID,
  },
  saved_queries: {
    make: savedQuery,
    bodies: {
      create: () => ({ ...describingBody(), sql: 'SELECT 1' }),
      update: () => ({ ...describingBody(), folder: 'a/b', chart: { kind: 'line' } }),
      rename: renamed,
      search: emptyBody,
    },
  },
  /** In drafts and in saved queries. */
  versions: {
    make: async (server) => ({ ...(await draft(server)), ...(await savedQuery(server)), version: '1' }),
    bodies: {},
  },
  uploads: {
    make: async (server) => ({ uploadId: (await server.post('/api/v2/uploads')).is(201).at('uploadId') }),
    bodies: { create: () => ({ name: 'rows.csv', bytes: 3 }), search: emptyBody },
    nameOfNew: randomUUID,
  },
  server_backups: {
    make: (server) => {
      const shared = sharedBackups.get(server) ?? serverBackup(server);
      sharedBackups.set(server, shared);
      return shared;
    },
    makeFor: { get: serverBackup, delete: serverBackup },
    bodies: { create: () => ({ to: wholeServer }), search: emptyBody },
  },
  pages: { make: async (server) => ({ ...(await task(server)), page: '0' }), bodies: {} },
};

export function fixtureOf(category: Category): Fixture {
  const fixture = fixtures[category.name];
  if (fixture) return fixture;
  throw new Error(
    `the category "${category.name}" has no fixture: add one to tests/every_endpoint/fixtures.ts, with a make() that ` +
      `returns its path parameters (${category.parameter} and its parents') and a body for each endpoint that takes one`,
  );
}

/** The name for a create. */
export function newNameOf(category: Category): string {
  return (fixtureOf(category).nameOfNew ?? freshName)();
}

/** The body of a call, with the name if the operation expects it there. */
export function namedBody({ endpoint, nameInPath }: Operation, name: string, body: object): object {
  if (endpoint.verb !== 'create' || endpoint.named === false || nameInPath) return body;
  return { [nameFieldOf(endpoint)]: name, ...body };
}

/** An object on which an endpoint can be called. */
export function makeFor(category: Category, endpoint: string, server: TestServer): Promise<Params> {
  const { makeFor, make } = fixtureOf(category);
  return (makeFor?.[endpoint] ?? make)(server);
}

export function bodyOf(category: Category, endpoint: string, params: Params): object {
  const body = fixtureOf(category).bodies[endpoint];
  if (body) return body(params);
  throw new Error(
    `${category.name}.${endpoint} takes a body and has none to test with: add "${endpoint}" to the bodies of ` +
      `"${category.name}" in tests/every_endpoint/fixtures.ts`,
  );
}
