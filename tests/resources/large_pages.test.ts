// The pages of lists are bounded in bytes: the pager, the batches in which rows are read, and lists of a server whose records together
// exceed a page.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { inMemory, pageOf } from '../../src/resources/records/list_page.ts';
import { listBytesMax } from '../../src/standard/page_limits.ts';
import { JsonText } from '../../src/standard/record_body.ts';
import { type Reply, start, type TestServer } from '../server.ts';

const MiB = 1024 * 1024;

describe('a page', () => {
  const named = (...sizes: readonly number[]) =>
    sizes.map((bytes, i) => ({ name: String(i), text: 'x'.repeat(bytes) }));
  const sizeOfPage = async (sizes: readonly number[], limit = 1000) => {
    const page = await pageOf({ limit }, 'name', inMemory(named(...sizes)), (record) => record);
    assert.ok(page.items.every((item) => item instanceof JsonText));
    return [page.items.length, page.next];
  };

  test('ends before the record with which it would be too large, and has at least one', async () => {
    assert.deepEqual(await sizeOfPage([3 * MiB, 3 * MiB, 3 * MiB]), [2, '1']);
    assert.deepEqual(await sizeOfPage([listBytesMax + 1, 1]), [1, '0']);
    assert.deepEqual(await sizeOfPage([1, listBytesMax + 1]), [1, '0']);
    assert.deepEqual(await sizeOfPage([listBytesMax + 1]), [1, undefined]);
  });

  test('ends at the requested number of records', async () => {
    assert.deepEqual(await sizeOfPage([1, 1, 1], 2), [2, '1']);
    assert.deepEqual(await sizeOfPage([1, 1, 1], 3), [3, undefined]);
    assert.deepEqual(await sizeOfPage([], 3), [0, undefined]);
  });

  test('continues after what the caller may not see', async () => {
    const visible = (record: { readonly name: string }) => (Number(record.name) % 2 === 0 ? undefined : record);
    const page = await pageOf({ limit: 2 }, 'name', inMemory(named(1, 1, 1, 1, 1, 1)), visible);
    assert.deepEqual([page.items.length, page.next], [2, '3']);
  });
});

describe('on a server', () => {
  let server: TestServer;
  before(async () => {
    server = await start();
  });
  after(() => server.close());

  /** All pages of a list: their numbers of records, and the names of these. */
  async function pagesOf(fetch: (pageToken: string | undefined) => Promise<Reply>, field: string, key: string) {
    const counts: number[] = [];
    const names: string[] = [];
    let token: string | undefined;
    do {
      const reply = (await fetch(token)).is(200);
      assert.ok(Buffer.byteLength(reply.text) < listBytesMax + 3 * MiB, `${Buffer.byteLength(reply.text)} bytes`);
      const records = reply.at<Record<string, string>[]>(field);
      counts.push(records.length);
      names.push(...records.map((record) => record[key] ?? ''));
      token = reply.at('nextPageToken');
    } while (token !== undefined);
    return { counts, names };
  }
  const withToken = (pageToken: string | undefined) => ({ pageSize: 1000, ...(pageToken ? { pageToken } : {}) });
  const queryOf = (pageToken: string | undefined) =>
    new URLSearchParams(pageToken ? { pageSize: '1000', pageToken } : { pageSize: '1000' });

  test('lists and searches of saved queries', async () => {
    const names = ['a', 'b', 'c', 'd', 'e'];
    const parameters = ['y'.repeat(2.5 * MiB)];
    for (const name of names)
      (await server.post('/api/v2/saved_queries', { name, sql: 'SELECT ?', parameters })).is(201);
    const expected = { counts: [3, 2], names };
    const list = (token?: string) => server.get(`/api/v2/saved_queries?${queryOf(token)}`);
    assert.deepEqual(await pagesOf(list, 'savedQueries', 'name'), expected);
    const search = (token?: string) => server.post('/api/v2/saved_queries/search', { sql: '?', ...withToken(token) });
    assert.deepEqual(await pagesOf(search, 'savedQueries', 'name'), expected);
    // Somebody who may see only some.
    (await server.post('/api/v2/users', { name: 'ann', password: 'long enough, Ann' })).is(201);
    for (const name of names)
      (await server.post('/api/v2/users/ann/grants', { privilege: 'read', on: `/api/v2/saved_queries/${name}` })).is(
        201,
      );
    const headers = { authorization: `Basic ${Buffer.from('ann:long enough, Ann').toString('base64')}` };
    const herList = (token?: string) => server.request('GET', `/api/v2/saved_queries?${queryOf(token)}`, { headers });
    assert.deepEqual(await pagesOf(herList, 'savedQueries', 'name'), expected);
  });

  test('lists of the rows of a table', async () => {
    (await server.post('/api/v2/databases', { name: 'd' })).is(201);
    const columns = [
      { name: 'a', type: 'BIGINT' },
      { name: 'text', type: 'VARCHAR' },
    ];
    (await server.post('/api/v2/databases/d/tables', { name: 't', columns })).is(201);
    (await server.query('d', `INSERT INTO t SELECT i, repeat('x', ${2.5 * MiB}) FROM range(6) r(i)`)).is(200);
    const list = (token?: string) => server.get(`/api/v2/databases/d/tables/t/rows?${queryOf(token)}`);
    assert.deepEqual(await pagesOf(list, 'rows', 'a'), { counts: [4, 2], names: [0, 1, 2, 3, 4, 5] });
  });

  test('lists of tasks, which contain their requests', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) {
      const query = { sql: 'SELECT length(?)', parameters: ['y'.repeat(2.5 * MiB)], waitSeconds: 0 };
      const accepted = await server.post('/api/v2/catalogs/default/query', query);
      ids.push((await server.ended(accepted)).at('taskId'));
    }
    const list = (token?: string) => server.get(`/api/v2/tasks?${queryOf(token)}`);
    assert.deepEqual(await pagesOf(list, 'tasks', 'taskId'), { counts: [3, 2], names: ids.toReversed() });
  });
});
