// A full warehouse recognizes the connection that it refused, or the principal on a new one: when it returns, it is served before a
// connection that came later. Tested for each kind of statement, because each uses the queue in its own way. Requests are refused before
// their body is read, after authentication and authorization.
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { after, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { newPerson } from '../../access/people.ts';
import { eventually } from '../../deadline.ts';
import { isFailure, requestHead, Wire } from '../../http/connection/wire.ts';
import { start, type TestServer } from '../../server.ts';

const warehouse = '/api/v2/warehouses/default';
const table = '/api/v2/databases/shop/tables/t';
const query = '/api/v2/databases/shop/query';
const endless = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';

let server: TestServer;
/** For a new principal in each test, which has no places reserved by earlier tests. */
let token = '';
let callers = 0;
before(async () => {
  server = await start({ queueWaitMs: 600_000, warehouseThreads: 1 });
  (await server.put('/api/v2/databases/shop')).is(201);
  (await server.post('/api/v2/databases/shop/tables', { sql: 'CREATE TABLE t (i INT)' })).is(201);
  (await server.patch(warehouse, { queriesMax: 1, queueMax: 1 })).is(200);
});
after(() => server.close());

async function newCaller(): Promise<string> {
  const flags = [
    ['use', '/warehouses/default'],
    ['read', '/databases/shop'],
    ['write', '/databases/shop'],
  ] as const;
  return (await newPerson(server, `caller_${callers++}`, flags)).token;
}

/** One persistent connection, or a new one for each request. */
function connection(keepAlive = true) {
  const agent = new Agent({ keepAlive, maxSockets: 1 });
  const send = (path: string, body: object) =>
    new Promise<{ status: number; retryAfter: number }>((resolve, reject) => {
      const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
      const sent = request(new URL(path, server.url), { method: 'POST', agent, headers }, (answer) => {
        const { statusCode = 0, headers: responseHeaders } = answer;
        answer
          .resume()
          .on('end', () => resolve({ status: statusCode, retryAfter: Number(responseHeaders['retry-after']) }));
      });
      sent.on('error', reject).end(JSON.stringify(body));
    });
  return { send, end: () => agent.destroy() };
}

const untilQueued = (load: string) =>
  eventually(load, async () => {
    const { result } = await server.get(warehouse);
    return `${result.runningQueries} ${result.queuedQueries}` === load;
  });

describe('a full warehouse', () => {
  beforeEach(async () => {
    token = await newCaller();
  });
  const statements = [
    ['a query', query, { sql: 'SELECT 1' }, 200],
    ['rows', `${table}/rows`, { rows: [{ i: 1 }] }, 201],
    ['an update', `${table}/update`, { set: { i: '2' }, where: 'i = 1' }, 200],
  ] as const;
  for (const [description, path, body, status] of statements) {
    it(`serves a connection that it refused before one that came later: ${description}`, async () => {
      const [runs, waits, refused, late] = [connection(), connection(), connection(), connection()];
      const running = runs.send(query, { sql: endless }).catch(() => undefined);
      await untilQueued('1 0');
      const waiting = waits.send(query, { sql: 'SELECT 1' }).catch(() => undefined);
      await untilQueued('1 1');
      const first = await refused.send(path, body);
      assert.equal(first.status, 503);
      assert.ok(first.retryAfter >= 1, `Retry-After ${first.retryAfter}`);
      waits.end();
      await waiting;
      await untilQueued('1 0');
      const laterReply = late.send(query, { sql: 'SELECT 1' });
      await untilQueued('1 1');
      const retry = refused.send(path, body);
      assert.equal((await laterReply).status, 503);
      await untilQueued('1 1');
      runs.end();
      await running;
      assert.equal((await retry).status, status);
      for (const statement of [refused, late]) statement.end();
    });
  }

  it('delays a connection that ignores Retry-After, and serves it if there is room then', async () => {
    const [runs, waits, refused] = [connection(), connection(), connection()];
    const running = runs.send(query, { sql: endless }).catch(() => undefined);
    await untilQueued('1 0');
    const waiting = waits.send(query, { sql: 'SELECT 1' }).catch(() => undefined);
    await untilQueued('1 1');
    const from = performance.now();
    const { status, retryAfter } = await refused.send(query, { sql: 'SELECT 1' });
    assert.equal(status, 503);
    // Displaces none: the waiting one came first.
    const earlyReply = await refused.send(query, { sql: 'SELECT 2' });
    const waitedMs = performance.now() - from;
    assert.equal(earlyReply.status, 503);
    assert.ok(waitedMs > retryAfter * 1000 - 500, `refused again after ${waitedMs} ms, Retry-After ${retryAfter}`);
    const retry = refused.send(query, { sql: 'SELECT 3' });
    await sleep(100);
    runs.end();
    await Promise.all([running, waiting]);
    assert.equal((await retry).status, 200);
    for (const statement of [waits, refused]) statement.end();
  });

  /** @returns false if the later connection came so late that the refused one was expected, and was taken for it. */
  async function servedBeforeLater(): Promise<boolean> {
    const [runs, waits, refused, late] = [connection(), connection(), connection(false), connection()];
    const running = runs.send(query, { sql: endless }).catch(() => undefined);
    await untilQueued('1 0');
    const waiting = waits.send(query, { sql: 'SELECT 1' }).catch(() => undefined);
    await untilQueued('1 1');
    const first = await refused.send(query, { sql: 'SELECT 1' });
    assert.equal(first.status, 503);
    waits.end();
    await waiting;
    await untilQueued('1 0');
    const laterReply = late.send(query, { sql: 'SELECT 1' });
    await untilQueued('1 1');
    // It returns after `Retry-After`, and no sooner; the server measures that second with its own clock.
    await sleep((first.retryAfter + 1) * 1000);
    const retry = refused.send(query, { sql: 'SELECT 1' });
    const ofLater = laterReply.then((reply) => ({ ...reply, isLater: true }));
    const { status, isLater } = await Promise.race([ofLater, retry.then((reply) => ({ ...reply, isLater: false }))]);
    assert.equal(status, 503);
    runs.end();
    await running;
    assert.equal((await (isLater ? retry : laterReply)).status, 200);
    for (const statement of [refused, late]) statement.end();
    return isLater;
  }

  it('serves a principal whose refused connection was closed before one that came later', async () => {
    for (let attempt = 1; attempt <= 5; attempt++) if (await servedBeforeLater()) return;
    assert.fail('the later connection was served first');
  });
});

describe('rows for a full warehouse', () => {
  const rows = `POST ${table}/rows`;
  const json = 'Content-Type: application/json';
  const holders = [connection(), connection()] as const;
  const running: Promise<unknown>[] = [];
  const key = 'x-service-idempotency-key: inserted-before';
  const body = '{"rows":[{"i":7}]}';
  const keyed = () => `${requestHead(token, rows, json, key, `Content-Length: ${body.length}`)}${body}`;
  let stranger = '';
  before(async () => {
    token = await newCaller();
    stranger = (await newPerson(server, 'stranger')).token;
    const wire = new Wire(server.port);
    wire.write(keyed());
    assert.equal((await wire.answer()).status, 201);
    wire.close();
    running.push(holders[0].send(query, { sql: endless }).catch(() => undefined));
    await untilQueued('1 0');
    running.push(holders[1].send(query, { sql: 'SELECT 1' }).catch(() => undefined));
    await untilQueued('1 1');
  });
  after(async () => {
    for (const statement of holders) statement.end();
    await Promise.all(running);
  });

  it('are refused before their body arrives; the connection of a large one is closed', async () => {
    const wire = new Wire(server.port);
    wire.write(requestHead(token, rows, json, 'Content-Length: 50000000'));
    const answer = await wire.answer();
    isFailure(answer, 503, 'WAREHOUSE_BUSY');
    assert.ok(Number(answer.headers['retry-after']) >= 1);
    assert.equal(answer.headers.connection, 'close');
    assert.equal(await wire.rest(), '');
  });

  it('keep the connection of a small body usable for the next request', async () => {
    const wire = new Wire(server.port);
    const large = `{"rows":[{"i":1}]}${' '.repeat(100_000)}`;
    wire.write(requestHead(token, rows, json, `Content-Length: ${large.length}`) + large.slice(0, 10));
    await sleep(50);
    wire.write(large.slice(10) + requestHead(token, 'GET /api/v2/databases/shop'));
    isFailure(await wire.answer(), 503, 'WAREHOUSE_BUSY');
    assert.equal((await wire.answer()).status, 200);
    wire.close();
  });

  it('of callers who are not authenticated or not authorized are 401 and 403, as always', async () => {
    for (const [presented, status, code] of [
      ['tab_unknown', 401, 'UNAUTHENTICATED'],
      [stranger, 403, 'FORBIDDEN'],
    ] as const) {
      const wire = new Wire(server.port);
      wire.write(requestHead(presented, rows, json, `Content-Length: ${body.length}`) + body);
      isFailure(await wire.answer(), status, code);
      wire.close();
    }
  });

  it('and other requests that need a place are refused before the engine has any work with them', async () => {
    const declared = ['Content-Length: 4000000', ''] as const;
    const bodyWithLength = (body: string) => [`Content-Length: ${body.length}`, body] as const;
    // Expressions that are not SQL: the engine would report that if it had to build a statement from them.
    const cases = [
      ['GET', `${table}/rows`, ['', '']],
      ['POST', '/api/v2/databases/shop/explain', declared],
      ['POST', query, bodyWithLength('{"sql":"SELECT FROM ("}')],
      ['POST', '/api/v2/databases/shop/profile', bodyWithLength('{"sql":"SELECT FROM ("}')],
      ['POST', `${table}/update`, bodyWithLength('{"set":{"i":"(("},"where":"(("}')],
      ['POST', `${table}/delete_rows`, bodyWithLength('{"where":"(("}')],
      ['POST', `${table}/insert_select`, bodyWithLength('{"sql":"SELECT FROM ("}')],
    ] as const;
    for (const [method, path, [length, sql]] of cases) {
      const wire = new Wire(server.port);
      const fields = length === '' ? [] : [json, length];
      wire.write(requestHead(token, `${method} ${path}`, ...fields) + sql);
      const answer = await wire.answer();
      assert.equal(answer.status, 503, `${method} ${path}: ${answer.body}`);
      isFailure(answer, 503, 'WAREHOUSE_BUSY');
      wire.close();
    }
  });

  it('and other requests that become a task at once are not refused', async () => {
    for (const [path, body] of [
      [`${table}/update`, { set: { i: '2' }, where: 'i = 1', waitSeconds: 0 }],
      [query, { sql: 'SELECT 1', waitSeconds: 0 }],
    ] as const)
      assert.equal((await connection(false).send(path, body)).status, 202);
  });

  it('that were inserted before with the same idempotency key are confirmed', async () => {
    const wire = new Wire(server.port);
    wire.write(keyed());
    const answer = await wire.answer();
    assert.equal(answer.status, 201, answer.body);
    assert.equal(answer.headers['x-service-idempotent-replay'], 'true');
    wire.close();
  });
});
