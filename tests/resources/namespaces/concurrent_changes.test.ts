// Concurrent changes of one object: each succeeds in turn, or responds with the state at that time; a 503 only if a change takes
// long, with Retry-After and `notApplied`.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Reply, start, type TestServer, uri } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

let created = 0;
async function newDatabase(): Promise<string> {
  const name = `d${++created}`;
  (await server.put(uri`/databases/${name}`)).is(201);
  return name;
}
async function newTable(): Promise<{ database: string; table: string; path: string }> {
  const database = await newDatabase();
  const body = { name: 't', columns: [{ name: 'id', type: 'BIGINT' }] };
  (await server.post(uri`/databases/${database}/tables`, body)).is(201);
  return { database, table: 't', path: uri`/databases/${database}/tables/t` };
}

const manyAtOnce = <T>(count: number, run: (n: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => run(n)));

const codesOf = (replies: readonly Reply[]) => replies.map(({ status, code }) => `${status} ${code}`);

test('of 8 and of 24 columns added to one table at once, all are added', async () => {
  for (const count of [8, 24]) {
    const { path } = await newTable();
    const replies = await manyAtOnce(count, (n) => server.post(`${path}/columns`, { name: `c${n}`, type: 'INT' }));
    assert.deepEqual(new Set(codesOf(replies)), new Set(['201 0']));
    const columns = (await server.get(path)).at<{ name: string }[]>('columns').map(({ name }) => name);
    assert.deepEqual(columns.toSorted(), ['id', ...replies.map((_, n) => `c${n}`)].toSorted());
    assert.equal((await server.get(path)).at('version'), 1 + count, 'one version each');
  }
});

test('of 8 columns dropped and 8 changed at once, all changes succeed', async () => {
  const { path } = await newTable();
  for (let n = 0; n < 16; n++) (await server.post(`${path}/columns`, { name: `c${n}`, type: 'INT' })).is(201);
  const replies = await manyAtOnce(16, (n) =>
    n < 8 ? server.delete(`${path}/columns/c${n}`) : server.patch(`${path}/columns/c${n}`, { comment: `comment ${n}` }),
  );
  assert.deepEqual(new Set(codesOf(replies)), new Set(['200 0']));
  const columns = (await server.get(path)).at<{ name: string; comment?: string }[]>('columns');
  assert.equal(columns.length, 9);
  for (let n = 8; n < 16; n++) assert.equal(columns.find(({ name }) => name === `c${n}`)?.comment, `comment ${n}`);
});

test('of 16 comments set at once on each kind of object, all succeed, in some order', async () => {
  const { database, path } = await newTable();
  const paths = [path, uri`/databases/${database}`, '/api/v2/warehouses/default', '/api/v2/users/root'];
  for (const objectPath of paths) {
    const before = (await server.get(objectPath)).at<number>('version');
    const replies = await manyAtOnce(16, (n) => server.patch(objectPath, { comment: `comment ${n}` }));
    assert.deepEqual(new Set(codesOf(replies)), new Set(['200 0']), objectPath);
    const versions = replies.map((reply) => reply.at<number>('version'));
    assert.deepEqual(
      versions.toSorted((a, b) => a - b),
      versions.map((_, n) => before + 1 + n),
      `${objectPath}: each answer is the record that its own change made`,
    );
  }
});

test('of 8 renames of one table at once, one succeeds and the others find no table', async () => {
  const { database, path } = await newTable();
  const replies = await manyAtOnce(8, (n) => server.post(`${path}/rename`, { newName: `renamed ${n}` }));
  assert.equal(replies.filter(({ status }) => status === 200).length, 1, String(codesOf(replies)));
  const rest = replies.filter(({ status }) => status !== 200);
  assert.deepEqual(new Set(codesOf(rest)), new Set(['404 OBJECT_NOT_FOUND']));
  const tables = (await server.get(uri`/databases/${database}/tables`)).at<{ name: string }[]>('tables');
  assert.deepEqual(
    tables.map(({ name }) => name),
    [replies.find(({ status }) => status === 200)?.at('name')],
  );
});

test('of 8 creates of one name and 8 drops of one table at once, one each takes effect', async () => {
  const { database, path } = await newTable();
  const tables = uri`/databases/${database}/tables`;
  const body = { name: 'same', columns: [{ name: 'id', type: 'BIGINT' }] };
  const creates = await manyAtOnce(8, () => server.post(tables, body));
  assert.deepEqual(codesOf(creates).toSorted(), ['201 0', ...Array(7).fill('400 OBJECT_ALREADY_EXISTS')].toSorted());
  const drops = await manyAtOnce(8, () => server.delete(path));
  assert.deepEqual(new Set(codesOf(drops)), new Set(['200 0']));
  assert.equal(drops.filter((reply) => reply.at('deleted') === true).length, 1);
});

test('concurrent creates, changes and renames in one database each succeed or report the current state', async () => {
  const database = await newDatabase();
  const path = uri`/databases/${database}`;
  const column = { name: 'id', type: 'BIGINT' };
  const replies = await manyAtOnce(24, (n) => {
    if (n === 12) return server.post(`${path}/rename`, { newName: `${database} renamed` });
    if (n % 4 === 3) return server.patch(path, { comment: `comment ${n}` });
    return server.post(`${path}/tables`, { name: `t${n}`, columns: [column] });
  });
  for (const reply of replies) {
    if (reply.status === 503) reply.is(503, 'CHANGE_IN_PROGRESS', { outcome: 'notApplied' });
    else assert.ok(['201 0', '200 0', '404 OBJECT_NOT_FOUND'].includes(codesOf([reply])[0] as string), reply.text);
  }
  assert.ok(replies.filter(({ status }) => status === 503).length <= 2, String(codesOf(replies)));
  const isRenamed = replies[12]?.status === 200;
  const now = uri`/databases/${isRenamed ? `${database} renamed` : database}/tables`;
  const tables = (await server.get(now)).at<{ name: string }[]>('tables').map(({ name }) => name);
  const created = replies.filter(({ status }) => status === 201).map((reply) => reply.at<string>('name'));
  assert.deepEqual(tables.toSorted(), created.toSorted(), 'what was answered is what is there');
});
