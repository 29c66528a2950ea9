// The typed client against a real server: lists, changes, tasks, queries with exact values, failures, retries and cancellation.
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import { createClient, errors, TabulariumError, Task } from '../../src/client/index.ts';
import { start, type TestServer } from '../server.ts';

let server: TestServer;
let client: ReturnType<typeof createClient>;

before(async () => {
  server = await start();
  client = createClient({ url: server.url, token: server.token });
  await client.databases.create({ name: 'shop' });
});
after(() => server.close());

const noFailure = () => assert.fail('it did not fail');

describe('categories', () => {
  it('creates, shows, changes, lists and deletes objects', async () => {
    const shop = client.catalogs('default').databases('shop');
    const columns = [{ name: 'id', type: 'BIGINT' }];
    const created = await shop.tables.create({ name: 'a/b', columns, primaryKey: ['id'] });
    assert.ok(!(created instanceof Task));
    assert.equal(created.created, true);
    const returned = await shop.tables.create({ name: 'a/b', columns }, { ifExists: 'return' });
    assert.ok(!(returned instanceof Task));
    assert.equal(returned.created, false);
    const changed = await client.databases('shop').tables('a/b').update({ comment: 'letters' });
    assert.ok(!(changed instanceof Task));
    assert.equal(changed.comment, 'letters');
    assert.equal((await shop.tables('a/b').get()).version, changed.version);
    await shop.tables('a/b').rename({ newName: 'c' }).done();
    const matches = await shop.tables.search({ namePattern: 'c%' }).all();
    assert.deepEqual(
      matches.map(({ name }) => name),
      ['c'],
    );
    assert.deepEqual(await shop.tables('c').delete(), { deleted: true });
    assert.deepEqual(await shop.tables('c').delete(), { deleted: false });
  });

  it('sends no request for a name that URLs resolve to another object', async () => {
    const shop = client.catalogs('default').databases('shop');
    for (const name of ['', '.', '..']) {
      await assert.rejects(shop.tables(name).delete(), errors.INVALID_NAME);
      await assert.rejects(client.databases(name).get(), errors.INVALID_NAME);
      await assert.rejects(client.task(name), errors.INVALID_NAME);
    }
    assert.equal((await shop.get()).name, 'shop');
  });

  it('follows the pages of a list', async () => {
    for (let n = 0; n < 5; n++) await client.roles.create({ name: `reader${n}` });
    const names: string[] = [];
    for await (const { name } of client.roles.list({ pageSize: 2 })) if (name.startsWith('reader')) names.push(name);
    assert.deepEqual(names, ['reader0', 'reader1', 'reader2', 'reader3', 'reader4']);
    const first = await client.roles.list({ pageSize: 2 }).page();
    assert.equal(first.items.length, 2);
    assert.equal((await client.roles.list({ pageSize: 2 }).page(first.nextPageToken)).items.length, 2);
    const searched = await client.roles.search({ namePattern: 'reader%', pageSize: 2 }).all();
    assert.equal(searched.length, 5);
    await client.users.create({ name: 'reader' });
    await client.users('reader').grants.create({ privilege: 'read', on: '/api/v2/catalogs' });
    const effective = await client.users('reader').effectiveGrants().all();
    assert.deepEqual(
      effective.map(({ privilege, on }) => `${privilege} ${on}`),
      ['read /api/v2/catalogs'],
    );
  });

  it('sends a condition', async () => {
    const role = await client.roles.create({ name: 'writer' });
    await client.roles('writer').update({ comment: 'x', expectedVersion: role.version });
    await assert.rejects(
      client.roles('writer').update({ comment: 'y', expectedVersion: role.version }),
      errors.VERSION_CONFLICT,
    );
    await assert.rejects(client.roles('writer').delete({ ifMatch: '"stale"' }), TabulariumError);
  });
});

describe('queries', () => {
  it('gives rows by name with exact values', async () => {
    const sql = `SELECT 9007199254740993::BIGINT AS big, 1.10::DECIMAL(18,2) AS money, 'x' AS text, [1, 2]::BIGINT[] AS list,
      map {'k': 5::BIGINT} AS map, {'a': 12345678901234567890123::HUGEINT} AS struct, 'a'::BLOB AS bytes, 'NaN'::DOUBLE AS nan, NULL AS none`;
    const [row] = await client.query(sql, { database: 'shop' }).all();
    assert.deepEqual(row, {
      big: 9007199254740993n,
      money: '1.10',
      text: 'x',
      list: [1n, 2n],
      map: new Map([['k', 5n]]),
      struct: { a: 12345678901234567890123n },
      bytes: new Uint8Array([97]),
      nan: Number.NaN,
      none: null,
    });
  });

  it('reads all pages of a result, and those of a task', async () => {
    const sql = "SELECT range AS n, repeat('x', 1000) AS text FROM range(20000)";
    for (const waitSeconds of [30, 0]) {
      let [rows, sum] = [0, 0n];
      const query = client.query<{ n: bigint; text: string }>(sql, { waitSeconds });
      for await (const { n, text } of query) {
        assert.equal(text.length, 1000);
        rows++;
        sum += n;
      }
      assert.deepEqual([rows, sum], [20_000, 199_990_000n]);
      const { rowCount, columns } = await query.summary();
      assert.equal(rowCount, 20_000);
      assert.deepEqual(
        columns.map(({ name }) => name),
        ['n', 'text'],
      );
    }
  });

  it('iterates pages while later ones are computed, and waits for the summary', async () => {
    const sql = "SELECT range AS n, repeat('x', 1000) AS text FROM range(50000)";
    const query = client.query<{ n: bigint }>(sql);
    let rows = 0n;
    for await (const { n } of query) assert.equal(n, rows++);
    assert.equal(rows, 50_000n);
    const { rowCount, truncated, pageCount } = await query.summary();
    assert.deepEqual([rowCount, truncated, pageCount > 1], [50_000, false, true]);
  });

  it('reads the first page while later ones are computed, and pages in any order', async () => {
    const sql = "SELECT range AS n, repeat('x', 1000) AS text FROM range(50000)";
    const query = client.query(sql);
    const { columns, rowCount } = await query.begun();
    assert.deepEqual([columns.map(({ name }) => name), rowCount], [['n', 'text'], null]);
    assert.equal((await query.page(0))[0]?.[0], 0n);
    const { pageCount } = await query.summary();
    const pages = await query.pages();
    assert.equal(pages.length, pageCount);
    for (const { page, firstRow, rowCount: own } of pages.toReversed()) {
      const rows = await query.page(page);
      assert.deepEqual([rows.length, rows[0]?.[0]], [own, BigInt(firstRow)]);
    }
    const small = client.query('SELECT 1 AS one');
    assert.deepEqual(await small.pages(), [{ page: 0, firstRow: 0, rowCount: 1 }]);
    assert.deepEqual(await small.page(0), [[1]]);
  });

  it('gives all rows as an Arrow file, of which nothing is left on the server', async () => {
    for (const waitSeconds of [30, 0]) {
      const query = client.query('SELECT range AS n FROM range(20000) WHERE range >= $1', {
        parameters: [5],
        waitSeconds,
      });
      const table = tableFromIPC(await query.arrow());
      assert.deepEqual([table.numRows, table.get(0)?.toJSON()], [19_995, { n: 5n }]);
    }
    assert.deepEqual(await readdir(join(server.dataDirectory, 'files')), []);
    const stream = await client.query('SELECT 1 AS n').arrowStream();
    assert.equal(tableFromIPC(await new Response(stream).bytes()).numRows, 1);
    await assert.rejects(client.query('DELETE FROM nothing').arrow(), errors.SQL_INVALID);
  });

  it('binds parameters and counts changed rows', async () => {
    await client
      .databases('shop')
      .tables.create({ name: 'n', columns: [{ name: 'id', type: 'INT' }] })
      .done();
    const inserted = await client
      .databases('shop')
      .tables('n')
      .rows.create({ rows: [[1], [2], { id: 3 }] });
    assert.equal(inserted.rowCount, 3);
    const { rowCount } = await client
      .query('DELETE FROM n WHERE id > $1', { database: 'shop', parameters: [1] })
      .summary();
    assert.equal(rowCount, 2);
    assert.deepEqual(await client.databases('shop').tables('n').rows.list().all(), [{ id: 1 }]);
  });

  it('is cancelled by its signal', async () => {
    const cancel = new AbortController();
    const rows = client.query('SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b', {
      signal: cancel.signal,
    });
    setTimeout(() => cancel.abort(new Error('enough')), 200);
    await assert.rejects(rows.all(), /enough/);
  });
});

describe('tasks', () => {
  it('are waited for, watched and cancelled', async () => {
    const requests: string[] = [];
    const table = client.databases('shop').tables('n');
    const optimized = await table.optimize().done({ onProgress: ({ state }) => requests.push(state) });
    assert.ok(optimized);
    assert.equal(requests.at(-1), 'succeeded');
    const sql = 'SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b';
    const task = await client.catalogs('default').query({ sql, waitSeconds: 0 });
    assert.ok(task instanceof Task);
    await task.cancel();
    await assert.rejects(task.done(), errors.TASK_CANCELLED);
    assert.equal((await client.task(task.taskId)).record.state, 'cancelled');
  });

  it('that fail reject with the error of the task', async () => {
    const task = client.catalogs('default').query({ sql: "SELECT 'x'::INT", waitSeconds: 0 });
    await assert.rejects(task.done(), (error) => error instanceof TabulariumError && error.result.task !== undefined);
  });
});

describe('failures', () => {
  it('are of a class for each code, and say what became of the request', async () => {
    const error = await client
      .databases('none')
      .get()
      .then(noFailure, (failure: unknown) => failure);
    assert.ok(error instanceof errors.OBJECT_NOT_FOUND && error instanceof TabulariumError);
    assert.deepEqual(
      [error.code, error.status, error.result.category, error.outcome, error.retryable],
      ['OBJECT_NOT_FOUND', 404, 'databases', 'notApplied', false],
    );
    assert.match(error.requestId ?? '', /./);
    await assert.rejects(
      createClient({ url: server.url, token: 'wrong' }).catalogs.list().all(),
      errors.UNAUTHENTICATED,
    );
    const closed = createClient({ url: 'http://127.0.0.1:1', token: '', retryForMs: 0 });
    const broken = await closed
      .catalogs('a')
      .get()
      .then(noFailure, (failure: unknown) => failure);
    assert.ok(broken instanceof errors.NO_ANSWER && broken.outcome === 'unknown');
  });

  it('are not reported before the time has passed for which a request lets the server wait', async () => {
    const slow = createServer((request, response) => {
      const waits = /query$/.test(String(request.url));
      const answer = JSON.stringify({ code: '0', message: 'OK', result: { columns: [], rows: [], rowCount: 0 } });
      setTimeout(() => response.end(answer), waits ? 300 : 60_000).unref();
    });
    await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
    const client = createClient({ url, timeoutMs: 100, retryForMs: 0 });
    try {
      await client.catalogs('a').query({ sql: 'SELECT 1', waitSeconds: 60 });
      await client.catalogs('a').query({ sql: 'SELECT 1' });
      await client.query('SELECT 1').summary();
      await assert.rejects(client.catalogs('a').query({ sql: 'SELECT 1', waitSeconds: 0 }).done(), errors.NO_ANSWER);
      await assert.rejects(client.catalogs('a').get(), errors.NO_ANSWER);
    } finally {
      slow.closeAllConnections();
      slow.close();
    }
  });

  it('are retried only where that cannot do anything twice', async () => {
    const requests: { method: string; key: string | undefined }[] = [];
    let failures: { status: number; outcome: string }[] = [];
    const proxy = createServer((request, response) => {
      requests.push({
        method: String(request.method),
        key: request.headers['x-service-idempotency-key'] as string | undefined,
      });
      const failure = failures.shift();
      const status = failure?.status ?? 200;
      const code = failure ? 'WAREHOUSE_BUSY' : '0';
      response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '0' });
      response.end(
        JSON.stringify({ code, message: code, result: failure ? { outcome: failure.outcome } : { rowCount: 0 } }),
      );
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const flaky = createClient({ url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` });
    const retriesOf = async (call: () => PromiseLike<unknown>, outcome: string): Promise<number> => {
      requests.length = 0;
      failures = [{ status: 503, outcome }];
      await Promise.resolve(call()).catch((error: unknown) => assert.ok(error instanceof errors.WAREHOUSE_BUSY));
      return requests.length;
    };
    try {
      assert.equal(await retriesOf(() => flaky.catalogs('a').get(), 'unknown'), 2, 'it changes nothing');
      assert.equal(await retriesOf(() => flaky.catalogs('a').update({ comment: '' }), 'unknown'), 2, 'it has a key');
      assert.equal(new Set(requests.map(({ key }) => key)).size, 1, 'the same key each time');
      assert.ok(requests[0]?.key);
      const noKey = { idempotencyKey: false } as const;
      assert.equal(
        await retriesOf(() => flaky.catalogs('a').update({ comment: '' }, noKey), 'unknown'),
        1,
        'it has no key',
      );
      assert.equal(await retriesOf(() => flaky.catalogs('a').update({ comment: '' }, noKey), 'notApplied'), 2);
      assert.equal(await retriesOf(() => flaky.query('DELETE FROM t').summary(), 'unknown'), 1, 'it may change rows');
    } finally {
      proxy.close();
    }
  });
});
