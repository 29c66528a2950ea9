// Rights and credentials that end while a request is under way: while its body is received, while it waits for its warehouse, or for the
// first request with its idempotency key. What it does then needs the rights of that moment, on the object that has the name by then.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Session } from '../../src/access/authentication/authenticator.ts';
import { engineWith } from '../../src/engines/derived_engine.ts';
import type { Engine, EngineWarehouse } from '../../src/engines/port/engine.ts';
import type { RequestAuthorizer } from '../../src/http/request_pipeline.ts';
import { Failure } from '../../src/standard/failure.ts';
import { newPerson, newToken, type Person } from '../access/people.ts';
import { backUpSucceeding, filesIn } from '../backups/backing_up.ts';
import { eventually } from '../deadline.ts';
import { heldFile } from '../held_file.ts';
import { endOfTask, start, type TestServer, uri } from '../server.ts';
import { isFailure, requestHead, Wire, type WireAnswer } from './connection/wire.ts';

/** Runs until the test lets it end. */
const longText = 'SELECT 1 AS long';
let long = Promise.withResolvers<void>();
const held = (engine: EngineWarehouse): EngineWarehouse =>
  engineWith(engine, {
    async execute(...[statement, options]: Parameters<EngineWarehouse['execute']>) {
      if (statement.sql === longText) await long.promise;
      return engine.execute(statement, options);
    },
  });

const backups = mkdtempSync(join(tmpdir(), 'tabularium-rights-'));
/** Called when a password is to be checked. */
let onPassword = (): void => {};
const wrapAuthorizer = (authorizer: RequestAuthorizer): RequestAuthorizer =>
  Object.assign(Object.create(authorizer) as RequestAuthorizer, {
    authenticate(...[authorization, address]: Parameters<RequestAuthorizer['authenticate']>) {
      if (authorization?.startsWith('Basic ')) onPassword();
      return authorizer.authenticate(authorization, address);
    },
    isValid: (session: Session) => authorizer.isValid(session),
  });

let server: TestServer;
/** A second one who runs statements, because a principal without any is not made to wait for those of one other. */
let occupant: Person;
before(async () => {
  const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => held(engine.open(options)) });
  server = await start({ queueWaitMs: 600_000, backupDirectories: backups }, { wrapEngine, wrapAuthorizer });
  (await server.put('/api/v2/databases/other')).is(201);
  occupant = await newPerson(server, 'occupant', [
    ['use', '/warehouses/default'],
    ['read', '/databases/other'],
  ]);
  (await server.patch('/api/v2/warehouses/default', { queriesMax: 1 })).is(200);
});
after(async () => {
  long.resolve();
  await server.close();
  rmSync(backups, { recursive: true, force: true });
});

interface Scene {
  readonly tables: string;
  readonly person: Person;
}

const userOf = ({ name }: Person) => uri`/users/${name}`;
const tokenOf = ({ name }: Person, token: string) => uri`/users/${name}/tokens/${token}`;
const remove = async (path: string) => void (await server.delete(path)).is(200, '0', { deleted: true });

async function revoke(person: Person, privilege: string): Promise<void> {
  const grants = (await server.get(`${userOf(person)}/grants`))
    .is(200)
    .at<{ privilege: string; uri: string }[]>('grants');
  for (const grant of grants) if (grant.privilege === privilege) await remove(grant.uri);
}

let scenes = 0;

/** A database with two tables, of which a new person may write to one. */
async function scene(privileges: readonly string[] = ['write']): Promise<Scene> {
  const database = `d${scenes++}`;
  const tables = `/api/v2/databases/${database}/tables`;
  (await server.put(`/api/v2/databases/${database}`)).is(201);
  for (const name of ['own', 'foreign'])
    (await server.post(tables, { name, comment: name, columns: [{ name: 'a', type: 'BIGINT' }] })).is(201);
  const path = `/databases/${database}/tables/own`;
  const person = await newPerson(server, `person_${database}`, [
    ['use', '/warehouses/default'],
    ...privileges.map((privilege) => [privilege, path] as const),
  ]);
  return { tables, person };
}

async function swap(tables: string): Promise<void> {
  for (const [from, to] of [
    ['own', 'spare'],
    ['foreign', 'own'],
    ['spare', 'foreign'],
  ])
    (await server.post(`${tables}/${from}/rename`, { newName: to })).is(200);
}

const rowsIn = async (tables: string) => {
  const names = ['own', 'foreign'];
  const counts = names.map(
    async (name) => (await server.get(`${tables}/${name}/rows`)).is(200).at<unknown[]>('rows').length,
  );
  return (await Promise.all(counts)).reduce((sum, count) => sum + count);
};

interface Sent {
  readonly authorization: string;
  readonly first: string;
  readonly body: object;
  readonly key?: string | undefined;
}

/** Sends a request, whose body ends after `meanwhile`. */
async function interrupted(
  { authorization, first, body, key }: Sent,
  meanwhile: () => Promise<unknown>,
): Promise<WireAnswer> {
  const wire = new Wire(server.port);
  const text = JSON.stringify(body);
  const half = text.length >> 1;
  const head = [
    `${first} HTTP/1.1`,
    'Host: test',
    `Authorization: ${authorization}`,
    'Content-Type: application/json',
    `Content-Length: ${text.length}`,
    'Expect: 100-continue',
    ...(key === undefined ? [] : [`X-Service-Idempotency-Key: ${key}`]),
  ];
  wire.write(`${head.join('\r\n')}\r\n\r\n${text.slice(0, half)}`);
  assert.equal((await wire.answer()).status, 100);
  await meanwhile();
  wire.write(text.slice(half));
  const answer = await wire.answer();
  wire.close();
  return answer;
}

const insertInto = (tables: string) => ({ first: `POST ${tables}/own/rows`, body: { rows: [[1]] } });
for (const key of [undefined, 'with a key'])
  for (const [what, end, status, code] of [
    ['the grant is revoked', ({ person }) => revoke(person, 'write'), 403, 'FORBIDDEN'],
    ['the name belongs to another table', ({ tables }) => swap(tables), 403, 'FORBIDDEN'],
    ['the token is deleted', ({ person }) => remove(tokenOf(person, 'test')), 401, 'UNAUTHENTICATED'],
    [
      'the user is disabled',
      async ({ person }) => void (await server.patch(userOf(person), { disabled: true })).is(200),
      401,
      'UNAUTHENTICATED',
    ],
  ] as const satisfies readonly (readonly [string, (made: Scene) => Promise<void>, number, string])[])
    test(`rows are not inserted if ${what} while they are received${key ? `, ${key}` : ''}`, async () => {
      const made = await scene();
      const authorization = `Bearer ${made.person.token}`;
      const request = { ...insertInto(made.tables), authorization, key: key && randomUUID() };
      isFailure(await interrupted(request, () => end(made)), status, code);
      assert.equal(await rowsIn(made.tables), 0);
      assert.equal(
        (await interrupted({ ...insertInto(made.tables), authorization: `Bearer ${server.token}` }, async () => {}))
          .status,
        201,
      );
    });

test('a table is not changed under the name of another one', async () => {
  for (const [method, path, body] of [
    ['PATCH', '', { comment: 'changed' }],
    ['POST', '/rename', { newName: 'stolen' }],
    ['POST', '/columns', { name: 'b', type: 'BIGINT' }],
    ['POST', '/truncate', {}],
  ] as const) {
    const { tables, person } = await scene(['alter', 'write']);
    const request = { first: `${method} ${tables}/own${path}`, authorization: `Bearer ${person.token}`, body };
    isFailure(await interrupted(request, () => swap(tables)), 403, 'FORBIDDEN', request.first);
    (await server.get(`${tables}/own`)).is(200, '0', { comment: 'foreign', version: 2 });
  }
});

test('nobody gets a token of a user under the name of another one', async () => {
  const { person } = await scene();
  const other = await newPerson(server, 'other', []);
  const request = {
    first: `POST ${userOf(person)}/tokens`,
    authorization: `Bearer ${person.token}`,
    body: { name: 'stolen' },
  };
  const answer = await interrupted(request, async () => {
    (await server.post(`${userOf(person)}/rename`, { newName: 'former' })).is(200);
    (await server.post(`${userOf(other)}/rename`, { newName: person.name })).is(200);
  });
  isFailure(answer, 403, 'FORBIDDEN');
  (await server.get(`${userOf(person)}/tokens/stolen`)).is(404, 'OBJECT_NOT_FOUND');
});

/** Gives a person a password. Returns the header for it. */
async function passwordOf(person: Person): Promise<string> {
  (await server.patch(userOf(person), { password: 'correct horse battery' })).is(200);
  return `Basic ${Buffer.from(`${person.name}:correct horse battery`).toString('base64')}`;
}

test('a request with a password or a renewed grant continues when credentials of others end', async () => {
  const { tables, person } = await scene();
  const authorization = await passwordOf(person);
  const { name } = person;
  const privilege = { privilege: 'write', on: `${tables}/own` };
  const inserted = await interrupted({ ...insertInto(tables), authorization }, async () => {
    await revoke(person, 'write');
    (await server.post(`${userOf(person)}/grants`, privilege)).is(201);
    await newPerson(server, `created_for_${name}`, []);
  });
  assert.equal(inserted.status, 201, inserted.body);
  const changed = await interrupted({ ...insertInto(tables), authorization }, async () => {
    (await server.patch(userOf(person), { password: 'another horse battery' })).is(200);
  });
  isFailure(changed, 401, 'UNAUTHENTICATED');
});

/** Waits until so many statements run in the warehouse, and so many wait for it. */
const load = (running: number, queued: number) =>
  eventually(`${running} run and ${queued} wait`, async () => {
    const { result } = (await server.get('/api/v2/warehouses/default')).is(200);
    return result.runningQueries === running && result.queuedQueries === queued;
  });

/** Occupies the warehouse for as long as `meanwhile`, which begins when the request waits. */
async function whileQueued(send: () => Promise<WireAnswer>, meanwhile: () => Promise<unknown>): Promise<WireAnswer> {
  long = Promise.withResolvers<void>();
  const running = Promise.all(
    [server, occupant].map((client) =>
      client.post(`/api/v2/databases/other/query`, { sql: longText, waitSeconds: 60 }),
    ),
  );
  await load(2, 0);
  try {
    const waiting = send();
    await load(2, 1);
    await meanwhile();
    long.resolve();
    return await waiting;
  } finally {
    long.resolve();
    await running;
  }
}

const send = async (token: string, first: string, body: object, ...more: readonly string[]): Promise<WireAnswer> => {
  const wire = new Wire(server.port);
  const text = JSON.stringify(body);
  const headers = ['Content-Type: application/json', `Content-Length: ${text.length}`, ...more];
  wire.write(requestHead(token, first, ...headers) + text);
  const answer = await wire.answer();
  wire.close();
  return answer;
};

test('rows that waited for the warehouse are inserted only with the rights of then', async () => {
  for (const [end, status, code] of [
    [({ person }) => revoke(person, 'write'), 403, 'FORBIDDEN'],
    [({ person }) => revoke(person, 'use'), 403, 'FORBIDDEN'],
    [({ tables }) => swap(tables), 404, 'OBJECT_NOT_FOUND'],
  ] as const satisfies readonly (readonly [(made: Scene) => Promise<void>, number, string])[]) {
    const made = await scene();
    const { first, body } = insertInto(made.tables);
    isFailure(
      await whileQueued(
        () => send(made.person.token, first, body),
        () => end(made),
      ),
      status,
      code,
    );
    assert.equal(await rowsIn(made.tables), 0);
  }
});

test('a running request does not end because its password cannot be checked now', async () => {
  const { tables, person } = await scene();
  const authorization = await passwordOf(person);
  const answer = await whileQueued(
    () => interrupted({ ...insertInto(tables), authorization }, async () => {}),
    async () => {
      const { promise: refused, resolve } = Promise.withResolvers<void>();
      onPassword = () => {
        resolve();
        throw new Failure('RATE_LIMITED', 'too many passwords wait to be checked');
      };
      // Another role or user, after which passwords are checked again.
      await newPerson(server, `since_${person.name}`, []);
      await refused;
      onPassword = () => {};
    },
  );
  assert.equal(answer.status, 201, answer.body);
  assert.equal(await rowsIn(tables), 1);
});

test('a statement that waited for the warehouse runs only with the rights of then', async () => {
  for (const [privilege, sql] of [
    ['use', 'SELECT 1'],
    ['read', 'SELECT * FROM own'],
  ] as const) {
    const { tables, person } = await scene(['read']);
    const query = tables.replace(/tables$/, 'query');
    const waiting = () => send(person.token, `POST ${query}`, { sql });
    isFailure(await whileQueued(waiting, () => revoke(person, privilege)), 403, 'FORBIDDEN');
  }
});

test('a task on a table that waited for the warehouse runs only with the rights of then', async () => {
  for (const [privilege, action, revoked] of [
    ['read', 'checksum', 'read'],
    ['alter', 'optimize', 'alter'],
    ['read', 'checksum', 'use'],
  ] as const) {
    const { tables, person } = await scene([privilege]);
    const waiting = () => send(person.token, `POST ${tables}/own/${action}`, {});
    const { status, body } = await whileQueued(waiting, () => revoke(person, revoked));
    assert.equal(status, 202, body);
    const task = await endOfTask(server, JSON.parse(body).result.uri);
    task.is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
  }
});

test('a task on a catalog that waited for the warehouse runs only with the rights of then', async () => {
  (await server.post('/api/v2/warehouses', { name: 'elsewhere' })).is(201);
  for (const [action, fields, revoked] of [
    ['check', {}, 'alter'],
    ['check', {}, 'use'],
    ['move', { warehouse: 'elsewhere' }, 'alter'],
    ['move', { warehouse: 'elsewhere' }, 'use'],
    ['move', { warehouse: 'elsewhere', dryRun: true }, 'alter'],
  ] as const) {
    const catalog = `lake${scenes++}`;
    (await server.post('/api/v2/catalogs', { name: catalog })).is(201);
    const person = await newPerson(server, `person_${catalog}`, [
      ['alter', `/catalogs/${catalog}`],
      ['use', '/warehouses/default'],
      ['use', '/warehouses/elsewhere'],
    ]);
    const waiting = () => send(person.token, `POST /api/v2/catalogs/${catalog}/${action}`, fields);
    const { status, body } = await whileQueued(waiting, () => revoke(person, revoked));
    assert.equal(status, 202, body);
    const task = await endOfTask(server, JSON.parse(body).result.uri);
    task.is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
    (await server.get(`/api/v2/catalogs/${catalog}`)).is(200, '0', { warehouse: 'default' });
  }
});

test('a backup that waited for the warehouse is taken only with the rights of then', async () => {
  for (const revoked of ['use', 'read']) {
    const { tables, person } = await scene([]);
    const database = tables.slice(0, -'/tables'.length);
    (await server.post(`${userOf(person)}/grants`, { privilege: 'read', on: database })).is(201);
    const to = { path: join(backups, person.name) };
    const waiting = () => send(person.token, `POST ${database}/backup`, { to });
    const { status, body } = await whileQueued(waiting, () => revoke(person, revoked));
    assert.equal(status, 202, body);
    const task = await endOfTask(server, JSON.parse(body).result.uri);
    task.is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
    assert.deepEqual(await filesIn(to.path), []);
  }
});

test('a restore that waited for the warehouse is done only with the rights of then', async () => {
  for (const revoked of ['create', 'use', 'read']) {
    const { tables, person } = await scene([]);
    const database = tables.slice(0, -'/tables'.length);
    for (const [privilege, on] of [
      ['read', database],
      ['create', '/api/v2/catalogs/default'],
    ])
      (await server.post(`${userOf(person)}/grants`, { privilege, on })).is(201);
    const from = { path: join(backups, person.name) };
    const { backupId } = await backUpSucceeding(server, database, from);
    const request = { name: `restored_${revoked}`, from, backupId, database: database.split('/').at(-1) };
    const waiting = () => send(person.token, 'POST /api/v2/databases/restore', request);
    const { status, body } = await whileQueued(waiting, () => revoke(person, revoked));
    assert.equal(status, 202, body);
    const task = await endOfTask(server, JSON.parse(body).result.uri);
    task.is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
  }
});

test('a file that took long to arrive is loaded only with the rights of then', async (t) => {
  const file = await heldFile(t);
  for (const end of [
    ({ person }) => revoke(person, 'write'),
    ({ tables }) => swap(tables),
  ] as const satisfies readonly ((made: Scene) => Promise<void>)[]) {
    const made = await scene();
    const load = () => made.person.post(`${made.tables}/own/load`, { source: file.source });
    const task = (await file.during(load, () => end(made))).is(202);
    (await server.ended(task)).is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
    assert.equal(await rowsIn(made.tables), 0);
  }
});

test('a file that took long to arrive becomes a table, or is read, only with the rights of then', async (t) => {
  const file = await heldFile(t);
  for (const [privilege, more] of [
    ['create', {}],
    ['use', {}],
    ['create', { dryRun: true }],
    ['create', { inferOnly: true, waitSeconds: 0 }],
  ] as const) {
    const { tables, person } = await scene([]);
    const database = tables.slice(0, -'/tables'.length);
    (await server.post(`${userOf(person)}/grants`, { privilege: 'create', on: database })).is(201);
    const load = () => person.post(`${database}/load`, { table: 'new', source: file.source, ...more });
    const task = (await file.during(load, () => revoke(person, privilege))).is(202);
    (await server.ended(task)).is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
    (await server.get(`${tables}/new`)).is(404, 'OBJECT_NOT_FOUND');
  }
});

test('a file that arrives while its table is changed is loaded into the table of then', async (t) => {
  const file = await heldFile(t);
  const { tables } = await scene();
  const load = () => server.post(`${tables}/own/load`, { source: file.source });
  const change = { name: 'b', type: 'BIGINT', defaultValue: 7 };
  const task = (await file.during(load, async () => (await server.post(`${tables}/own/columns`, change)).is(201))).is(
    202,
  );
  (await server.ended(task)).is(200, '0', { state: 'succeeded', attempt: 2 });
  const rows = (await server.get(`${tables}/own/rows`)).at('rows');
  assert.deepEqual(rows, [
    { a: 1, b: 7 },
    { a: 2, b: 7 },
  ]);
});

test('a request that waited for the first one with its key is authenticated again', async () => {
  const { tables, person } = await scene();
  const { first, body } = insertInto(tables);
  const header = `X-Service-Idempotency-Key: ${randomUUID()}`;
  const token = await newToken(server, person.name, 'again');
  let second: Promise<WireAnswer> | undefined;
  const answer = await whileQueued(
    () => send(person.token, first, body, header),
    async () => {
      second = send(token, first, body, header);
      await eventually(
        'the token is used',
        async () => (await server.get(tokenOf(person, 'again'))).at('lastUsedAt') !== null,
      );
      await remove(tokenOf(person, 'again'));
    },
  );
  assert.equal(answer.status, 201, answer.body);
  isFailure((await second) as WireAnswer, 401, 'UNAUTHENTICATED');
  assert.equal(await rowsIn(tables), 1);
});
