// Catalogs and databases: created, read, changed, renamed, emptied, searched, page by page.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer, uri } from '../../server.ts';
import { scenarios } from '../scenario.ts';

let server: TestServer;
before(async () => {
  server = await start();
  (await server.put('/api/v2/users/ann')).is(201);
});
after(() => server.close());

const catalogs = '/api/v2/catalogs';
const databases = '/api/v2/databases';

scenarios(
  () => server,
  [
    {
      name: 'the catalog default is there from the start',
      method: 'GET',
      url: catalogs,
      status: 200,
      result: { catalogs: [{ name: 'default', warehouse: 'default', owner: 'root', createdBy: 'system', version: 1 }] },
    },
    {
      name: 'and cannot be deleted',
      method: 'DELETE',
      url: `${catalogs}/default?cascade=true`,
      status: 400,
      code: 'OBJECT_PROTECTED',
    },
    {
      name: 'or renamed',
      method: 'POST',
      url: `${catalogs}/default/rename`,
      body: { newName: 'other' },
      status: 400,
      code: 'OBJECT_PROTECTED',
    },
    {
      name: 'a catalog with everything',
      method: 'POST',
      url: catalogs,
      body: {
        name: 'lake',
        comment: 'Raw',
        properties: { team: 'a', __proto__x: 'b' },
        owner: 'ann',
        warehouse: 'default',
      },
      status: 201,
      result: { name: 'lake', comment: 'Raw', properties: { team: 'a' }, owner: 'ann', created: true, version: 1 },
    },
    {
      name: 'a property may be called __proto__',
      method: 'PATCH',
      url: `${catalogs}/lake`,
      body: '{"properties":{"__proto__":"x","constructor":"y"}}',
      status: 200,
      contains: ['"__proto__":"x","constructor":"y"}'],
    },
    {
      name: 'of a name that differs in case only there is no second',
      method: 'POST',
      url: catalogs,
      body: { name: 'LAKE' },
      status: 400,
      code: 'OBJECT_ALREADY_EXISTS',
      contains: ['case'],
    },
    {
      name: 'nor does PUT take one for the other',
      method: 'PUT',
      url: `${catalogs}/LAKE`,
      status: 400,
      code: 'OBJECT_ALREADY_EXISTS',
    },
    {
      name: 'a warehouse that is not there is named',
      method: 'POST',
      url: catalogs,
      body: { name: 'x', warehouse: 'nowhere' },
      status: 400,
      code: 'INVALID_PARAMETER',
      result: { violations: [{ pointer: '/warehouse' }] },
      afterwards: async (client) => void (await client.get(`${catalogs}/x`)).is(404, 'OBJECT_NOT_FOUND'),
    },
    {
      name: 'names that the engine keeps for itself',
      method: 'PUT',
      url: `${catalogs}/system`,
      status: 400,
      code: 'INVALID_NAME',
    },
    ...['.', '..', '\u0000', 'a\nb', '\u007f', '', 'x'.repeat(129), '😀'.repeat(129)].map((name) => ({
      name: `a name that is none: ${JSON.stringify(name).slice(0, 20)}`,
      method: 'POST' as const,
      url: databases,
      body: { name },
      status: 400,
      code: 'INVALID_NAME' as const,
    })),
    {
      name: 'PATCH with null clears, what is not said stays',
      method: 'PATCH',
      url: `${catalogs}/lake`,
      body: { comment: null },
      status: 200,
      result: { comment: null, owner: 'ann', version: 3 },
      contains: ['"constructor":"y"'],
    },
    {
      name: 'PATCH that changes nothing is a change of nothing',
      method: 'PATCH',
      url: `${catalogs}/lake`,
      body: { properties: null },
      status: 200,
      result: { properties: {} },
    },
    {
      name: 'a catalog moves to no other warehouse by PATCH',
      method: 'PATCH',
      url: `${catalogs}/lake`,
      body: { warehouse: 'default' },
      status: 400,
      code: 'UNKNOWN_FIELD',
    },
    {
      name: 'a comment beyond its limit',
      method: 'PATCH',
      url: `${catalogs}/lake`,
      body: { comment: 'x'.repeat(4097) },
      status: 400,
      code: 'INVALID_PARAMETER',
      result: { violations: [{ pointer: '/comment' }] },
    },
    {
      name: 'an owner that is nobody',
      method: 'PATCH',
      url: `${catalogs}/lake`,
      body: { owner: '' },
      status: 400,
      code: 'INVALID_PARAMETER',
    },
    {
      name: 'a database in it',
      method: 'PUT',
      url: `${catalogs}/lake/databases/raw`,
      status: 201,
      result: { tableCount: 0 },
    },
    {
      name: 'makes the catalog one that is not deleted',
      method: 'DELETE',
      url: `${catalogs}/lake`,
      status: 400,
      code: 'NOT_EMPTY',
      afterwards: async (client) => void (await client.get(`${catalogs}/lake/databases/raw`)).is(200),
    },
    {
      name: 'nor with cascade=false',
      method: 'DELETE',
      url: `${catalogs}/lake?cascade=false`,
      status: 400,
      code: 'NOT_EMPTY',
    },
    {
      name: 'renamed, it takes its database along',
      method: 'POST',
      url: `${catalogs}/lake/rename`,
      body: { newName: 'sea' },
      status: 200,
      result: { name: 'sea', uri: `${catalogs}/sea` },
      afterwards: async (client) => {
        (await client.get(`${catalogs}/lake`)).is(404, 'OBJECT_NOT_FOUND');
        (await client.get(`${catalogs}/sea/databases/raw`)).is(200, '0', { uri: `${catalogs}/sea/databases/raw` });
        (await client.post(`${catalogs}/sea/databases/raw/query`, { sql: 'SELECT 1' })).is(200);
      },
    },
    {
      name: 'renamed to a name that is taken',
      method: 'POST',
      url: `${catalogs}/sea/rename`,
      body: { newName: 'default' },
      status: 400,
      code: 'OBJECT_ALREADY_EXISTS',
    },
    {
      name: 'renamed in case only',
      method: 'POST',
      url: `${catalogs}/sea/rename`,
      body: { newName: 'Sea' },
      status: 200,
      result: { name: 'Sea' },
      afterwards: async (client) => void (await client.post(`${catalogs}/Sea/query`, { sql: 'SELECT 1' })).is(200),
    },
    {
      name: 'renamed to what is no name',
      method: 'POST',
      url: `${catalogs}/Sea/rename`,
      body: { newName: 'a\tb' },
      status: 400,
      code: 'INVALID_NAME',
    },
    {
      name: 'deleted with all that is in it',
      method: 'DELETE',
      url: `${catalogs}/Sea?cascade=true`,
      status: 200,
      result: { deleted: true },
      afterwards: async (client) =>
        void (await client.get(`${catalogs}/Sea/databases/raw`)).is(404, 'OBJECT_NOT_FOUND', { category: 'catalogs' }),
    },
  ],
);

test('a list is ordered by name, stable during additions, and bound to its collection', async () => {
  for (let i = 0; i < 25; i++) (await server.put(uri`/databases/${`d${String(i).padStart(2, '0')}`}`)).is(201);
  const first = (await server.get(`${databases}?pageSize=10`)).is(200);
  const token = first.at<string>('nextPageToken');
  await server.put(`${databases}/d00a`); // before the position of the page token: not listed again
  await server.put(`${databases}/d10a`); // after it: listed
  const second = (await server.get(`${databases}?pageSize=10&pageToken=${token}`)).is(200);
  const names = (reply: typeof first) => reply.at<{ name: string }[]>('databases').map((database) => database.name);
  assert.deepEqual([...names(first), ...names(second)].length, 20);
  assert.deepEqual(names(second).slice(0, 2), ['d10', 'd10a']);
  assert.equal(new Set([...names(first), ...names(second)]).size, 20);
  (await server.get(`${catalogs}?pageToken=${token}`)).is(400, 'INVALID_PAGE_TOKEN');
  (await server.get(`/api/v2/tasks?pageToken=${token}`)).is(400, 'INVALID_PAGE_TOKEN');
  const tampered = `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`;
  (await server.get(`${databases}?pageToken=${tampered}`)).is(400, 'INVALID_PAGE_TOKEN');
});

test('search: pattern, comment, pages; a token is valid for its own search only', async () => {
  for (const [name, comment] of [
    ['s_a%b', 'Alpha'],
    ['s_axb', 'alphabet'],
    ['S\\_z', 'omega'],
  ] as const)
    (await server.post(databases, { name, comment })).is(201);
  const searchNames = async (body: object) =>
    (await server.post(`${databases}/search`, body))
      .is(200)
      .at<{ name: string }[]>('databases')
      .map((record) => record.name);
  assert.deepEqual(await searchNames({ namePattern: 's\\_a%' }), ['s_a%b', 's_axb']);
  assert.deepEqual(await searchNames({ namePattern: 's\\_a\\%b' }), ['s_a%b']);
  assert.deepEqual(await searchNames({ namePattern: 'S\\_A_B' }), ['s_a%b', 's_axb'], 'case does not count');
  assert.deepEqual(await searchNames({ namePattern: 's\\\\\\_%' }), ['S\\_z']);
  assert.deepEqual(await searchNames({ comment: 'ALPHA' }), ['s_a%b', 's_axb']);
  assert.deepEqual(await searchNames({ namePattern: 'd0%', comment: 'x' }), []);
  const page = (await server.post(`${databases}/search`, { namePattern: 'd%', pageSize: 7 })).is(200);
  const next = { namePattern: 'd%', pageSize: 7, pageToken: page.at('nextPageToken') };
  const second = (await server.post(`${databases}/search`, next)).is(200);
  assert.equal(second.at<{ name: string }[]>('databases')[0]?.name, 'd06');
  (await server.get(`${databases}?pageToken=${page.at<string>('nextPageToken')}`)).is(400, 'INVALID_PAGE_TOKEN');
  (await server.post(`${databases}/search`, { pageToken: 'x' })).is(400, 'INVALID_PAGE_TOKEN');
});

test('of two concurrent creates of one object, one succeeds and the other reports the existing object', async () => {
  const replies = await Promise.all(Array.from({ length: 8 }, () => server.post(databases, { name: 'race' })));
  assert.equal(replies.filter((reply) => reply.status === 201).length, 1);
  for (const reply of replies) if (reply.status !== 201) reply.is(400, 'OBJECT_ALREADY_EXISTS');
  const puts = await Promise.all(Array.from({ length: 8 }, () => server.put(`${databases}/race2`)));
  assert.equal(puts.filter((reply) => reply.is(201).at('created')).length, 1);
});
