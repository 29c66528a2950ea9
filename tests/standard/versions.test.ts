// A throw-away category, served for real: adding v3 of one endpoint is one more declaration next to the first, and nothing
// else changes. What a handler returns decides the status; it sees neither status nor header (rest-standard A2, A3).
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { after, before, test } from 'node:test';
import { action, category, create, get, list, remove, update } from '../../src/api/declare.ts';
import { noFields } from '../../src/api/fields.ts';
import { implementWith } from '../../src/api/implement.ts';
import { Bodies } from '../../src/http/bodies/bodies.ts';
import { BodyBudget } from '../../src/http/bodies/body_budget.ts';
import { BodyThreads } from '../../src/http/bodies/body_threads.ts';
import { RequestPipeline } from '../../src/http/request_pipeline.ts';
import { HttpServer } from '../../src/http/server.ts';
import type { Category } from '../../src/standard/endpoint.ts';
import { Failure } from '../../src/standard/failure.ts';
import { openApi } from '../../src/standard/openapi/document.ts';
import { operationsOf } from '../../src/standard/openapi/operations.ts';
import { uriOf } from '../../src/standard/paths.ts';
import { Type } from '../../src/standard/type.ts';

interface Shelf {
  readonly version: string;
  readonly notes: Map<string, { text: string }>;
}

const permission = { privilege: 'read', on: 'object' } as const;
const Note = Type.Object({ name: Type.String(), text: Type.String(), uri: Type.String() });
const NoteWithLength = Type.Object({ ...Note.properties, length: Type.Integer() });
const example = { name: 'a', text: 'x', uri: '/api/v2/side_notes/a' };
const text = Type.Object({ text: Type.Optional(Type.String()) }, { additionalProperties: false });

function record(name: string, { notes, version }: Shelf) {
  const note = notes.get(name);
  if (!note) throw new Failure('OBJECT_NOT_FOUND', 'no such note', { category: 'side_notes', name });
  return { name, text: note.text, uri: uriOf(version, [{ category: 'side_notes', name }]) };
}

/** The text of a note whose location no header can contain. */
const unsendable = 'unsendable';

const sideNotesApi = category({
  name: 'side_notes',
  singular: 'side_note',
  title: 'Side notes',
  doc: 'Notes.',
  parameter: 'sideNote',
  record: Note,
  example,
  endpoints: {
    list: list({ summary: 'Lists notes.', permission }),
    get: get({
      summary: 'Shows a note.',
      permission,
      until: 'v3',
      deprecated: { since: '2026-06-30', sunset: '2027-06-30' },
    }),
    get_with_length: get({ summary: 'Shows a note and its length.', permission, since: 'v3', result: NoteWithLength }),
    create: create({ summary: 'Writes a note.', permission, body: text }),
    update: update({ summary: 'Changes a note.', permission, body: text }),
    delete: remove({ summary: 'Forgets a note.', permission }),
    burn: action('object', {
      summary: 'Fails in a way that nobody foresaw.',
      permission,
      body: noFields,
      result: Type.Object({}),
    }),
  },
});

const sideNotes = implementWith<typeof sideNotesApi, Shelf>(sideNotesApi, {
  list: async ({ page }, shelf) => {
    const names = [...shelf.notes.keys()].sort().filter((name) => page.after === undefined || name > page.after);
    const items = names.slice(0, page.limit).map((name) => record(name, shelf));
    return { outcome: 'listed', items, next: names.length > page.limit ? items.at(-1)?.name : undefined };
  },
  get: async ({ path }, shelf) => ({ outcome: 'found', record: record(path.sideNote, shelf) }),
  get_with_length: async ({ path }, shelf) => {
    const rendered = record(path.sideNote, shelf);
    return { outcome: 'found', record: { ...rendered, length: rendered.text.length } };
  },
  create: async ({ body: { name, text: written = '' }, ifExists }, shelf) => {
    const isNew = !shelf.notes.has(name);
    if (!isNew && ifExists === 'fail') throw new Failure('OBJECT_ALREADY_EXISTS', 'it exists');
    if (isNew) shelf.notes.set(name, { text: written });
    const rendered = record(name, shelf);
    const uri = written === unsendable ? `${rendered.uri}\n` : rendered.uri;
    return { outcome: 'created', record: rendered, created: isNew, uri };
  },
  update: async ({ path, body }, shelf) => {
    const { name } = record(path.sideNote, shelf);
    shelf.notes.set(name, { text: body.text ?? '' });
    return { outcome: 'updated', record: record(name, shelf) };
  },
  delete: async ({ path }, shelf) => ({ outcome: 'deleted', deleted: shelf.notes.delete(path.sideNote) }),
  burn: async () => {
    throw new Error('secret: /etc/passwd');
  },
});

const notes = new Map<string, { text: string }>();
const observations: ({ readonly kind: string } & Partial<Record<string, unknown>>)[] = [];
const api = new RequestPipeline<Shelf>({
  changes: { upToDate: () => undefined, position: undefined },
  requireRoom: () => {},
  requireQueueCapacity: async () => {},
  categories: [sideNotes],
  access: {
    authenticate: (authorization) => {
      if (authorization === undefined) throw new Failure('UNAUTHENTICATED', 'who are you');
      const principal = { id: authorization, name: authorization };
      return { principal, credential: 'token', expiresAt: Number.MAX_SAFE_INTEGER, version: 0, token: undefined };
    },
    isValid: () => true,
    authorizer: {
      generation: 0,
      identityOf: async () => [],
      authorize: (principal, { privilege }) => {
        if (principal.name === 'stranger') throw new Failure('FORBIDDEN', `this needs ${privilege}`);
        return { reach: 'all', objects: [] };
      },
      require: async () => {},
      record: () => [],
      requireStillAllowed: async () => {},
    },
  },
  limits: { charge: () => {}, chargeAddress: () => {} },
  audit: { enqueue: () => {} },
  addressOf: () => '127.0.0.1',
  idempotencyKeys: undefined as never,
  earlier: undefined as never,
  recordOf: async () => undefined,
  contextOf: ({ version }) => ({ version, notes }),
  pageTokenKey: randomBytes(32),
  bodies: new Bodies({
    limits: { requestBodyBytesMax: 4096, requestBodyValuesMax: 100_000, rowsBodyValuesMax: 100_000 },
    threads: new BodyThreads({
      spoolDirectory: tmpdir(),
      threadsMax: 1,
      memoryBytesMax: 2 ** 28,
      timeoutMs: 5000,
      heldMsMax: 5000,
    }),
    budget: new BodyBudget(2 ** 20),
  }),
  observe: (event) => void observations.push(event),
});
const server = new HttpServer<Shelf>({
  api,
  operation: () => undefined,
  limits: {
    connectionsMax: 100,
    headersBytesMax: 8192,
    headersTimeoutMs: 5000,
    requestTimeoutMs: 5000,
    keepAliveTimeoutMs: 1000,
    connectionsPerAddressMax: 0,
    requestsPerConnectionMax: 0,
    headersCountMax: 100,
    tlsHandshakeTimeoutMs: 1000,
    hstsMaxAgeSeconds: 0,
  },
  observe: (event) => void observations.push(event),
});
let base = '';

before(async () => {
  base = `http://127.0.0.1:${await server.listen('127.0.0.1', 0)}`;
});
after(() => server.close(1000));

async function call(method: string, path: string, body?: object, caller = 'friend') {
  const response = await fetch(base + path, {
    method,
    headers: { authorization: caller, ...(body ? { 'content-type': 'application/json' } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const json = (await response.json()) as { code: string; message: string; result: Record<string, unknown> };
  return { status: response.status, headers: response.headers, ...json };
}

test('both versions respond, each with its own endpoint and its own URIs; all others are shared', async () => {
  assert.equal((await call('POST', '/api/v2/side_notes', { name: 'a b', text: 'four' })).status, 201);
  const v2 = await call('GET', '/api/v2/side_notes/a%20b');
  assert.deepEqual(v2.result, { name: 'a b', text: 'four', uri: '/api/v2/side_notes/a%20b' });
  const v3 = await call('GET', '/api/v3/side_notes/a%20b');
  assert.deepEqual(v3.result, { name: 'a b', text: 'four', uri: '/api/v3/side_notes/a%20b', length: 4 });
  assert.deepEqual(
    [v2, v3].map(({ headers }) => [headers.get('deprecation'), headers.get('sunset')]),
    [
      [`@${Date.UTC(2026, 5, 30) / 1000}`, 'Wed, 30 Jun 2027 00:00:00 GMT'],
      [null, null],
    ],
  );
  assert.equal((await call('GET', '/api/v2/side_notes/none')).headers.get('sunset'), v2.headers.get('sunset'));
  assert.equal((await call('PATCH', '/api/v3/side_notes/a%20b', { text: 'x' })).result.text, 'x');
  assert.equal((await call('GET', '/api/v4/side_notes')).code, 'API_NOT_FOUND');
});

test('the outcome determines status and envelope', async () => {
  const reply = await call('PUT', '/api/v2/side_notes/n', { text: 'x' });
  assert.deepEqual([reply.status, reply.code, reply.message, reply.result.created], [201, '0', 'OK', true]);
  assert.equal(reply.headers.get('location'), '/api/v2/side_notes/n');
  const repeated = await call('PUT', '/api/v2/side_notes/n', { text: 'y' });
  assert.deepEqual([repeated.status, repeated.result.created, repeated.result.text], [201, false, 'x']);
  assert.equal((await call('POST', '/api/v2/side_notes/create', { name: 'n' })).code, 'OBJECT_ALREADY_EXISTS');
  assert.deepEqual((await call('DELETE', '/api/v2/side_notes/n')).result, { deleted: true });
  assert.deepEqual((await call('DELETE', '/api/v2/side_notes/n')).result, { deleted: false });
});

test('the path takes precedence over the body', async () => {
  const { result } = await call('PUT', '/api/v2/side_notes/path', { name: 'body', text: 'x' });
  assert.equal(result.name, 'path');
  assert.ok(!notes.has('body'));
});

test('lists have the category in camelCase as their key, and pages', async () => {
  for (const name of ['p1', 'p2', 'p3']) await call('PUT', `/api/v2/side_notes/${name}`, {});
  const names: string[] = [];
  let token: string | undefined;
  do {
    const query = `pageSize=2${token === undefined ? '' : `&pageToken=${token}`}`;
    const { result } = await call('GET', `/api/v2/side_notes?${query}`);
    names.push(...(result.sideNotes as { name: string }[]).map((note) => note.name));
    token = result.nextPageToken as string | undefined;
  } while (token !== undefined);
  assert.deepEqual(names, [...notes.keys()].sort());
});

test('an unexpected error is a 500 with an id, and its text is only logged', async () => {
  const { status, code, message, result } = await call('POST', '/api/v2/side_notes/a/burn', {});
  assert.deepEqual([status, code], [500, 'INTERNAL_ERROR']);
  assert.deepEqual(Object.keys(result), ['errorId', 'outcome']);
  assert.ok(!message.includes('secret'));
  const logged = observations.find((event) => event.errorId === result.errorId);
  assert.match(String(logged?.error), /secret/);
});

test('a response that cannot be written is a 500, which is logged, and the server continues to serve', async () => {
  const { status, code, result, headers } = await call('PUT', '/api/v2/side_notes/unsent', { text: unsendable });
  assert.deepEqual([status, code], [500, 'INTERNAL_ERROR']);
  assert.equal(result.outcome, 'unknown');
  const logged = observations.find((event) => event.errorId === result.errorId);
  assert.match(String(logged?.error), /header/);
  const ended = observations.find(({ kind, path }) => kind === 'requestEnded' && path === '/api/v2/side_notes/unsent');
  const requestId = headers.get('x-service-request-id');
  assert.deepEqual([ended?.status, ended?.code, ended?.requestId], [500, 'INTERNAL_ERROR', requestId]);
  assert.equal((await call('GET', '/api/v2/side_notes/unsent')).status, 200);
});

test('an authenticated but unauthorized caller gets 403, before the body is read and the object is looked up', async () => {
  assert.deepEqual((await call('GET', '/api/v2/side_notes/nowhere', undefined, 'stranger')).code, 'FORBIDDEN');
  assert.deepEqual((await call('PATCH', '/api/v2/side_notes/a', { no: 1 }, 'stranger')).code, 'FORBIDDEN');
});

test('documents of both versions are generated from the same declarations', () => {
  const ids = (version: 'v2' | 'v3') =>
    operationsOf([sideNotes as Category], version).map((operation) => operation.operationId);
  assert.deepEqual(ids('v2'), ids('v3'));
  const info = { title: 't', description: 'd', release: '1', version: 'v3' } as const;
  const { paths } = openApi([sideNotes as Category], info) as { paths: Record<string, { get: { summary: string } }> };
  assert.equal(paths['/api/v3/side_notes/{sideNote}']?.get.summary, 'Shows a note and its length.');
  assert.ok(Object.keys(paths).every((path) => path.startsWith('/api/v3/')));
});
