// A full warehouse knows again the connection that it refused: when that returns, it goes before one that came later. Shown for each
// kind of statement, because each reaches the queue in its own way.
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { eventually } from '../deadline.ts';
import { start, type TestServer } from '../server.ts';

const warehouse = '/api/v2/warehouses/default';
const table = '/api/v2/databases/shop/tables/t';
const query = '/api/v2/databases/shop/query';
const endless = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';

let server: TestServer;
before(async () => {
  server = await start({});
  (await server.put('/api/v2/databases/shop')).is(201);
  (await server.post('/api/v2/databases/shop/tables', { sql: 'CREATE TABLE t (i INT)' })).is(201);
  (await server.patch(warehouse, { queriesMax: 1, queueMax: 1 })).is(200);
});
after(() => server.close());

/** One connection, which stays. */
function connection() {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = (path: string, body: object) =>
    new Promise<{ status: number; retryAfter: number }>((resolve, reject) => {
      const headers = { Authorization: `Bearer ${server.token}`, 'Content-Type': 'application/json' };
      const sent = request(new URL(path, server.url), { method: 'POST', agent, headers }, (answer) => {
        const { statusCode = 0, headers: of } = answer;
        answer.resume().on('end', () => resolve({ status: statusCode, retryAfter: Number(of['retry-after']) }));
      });
      sent.on('error', reject).end(JSON.stringify(body));
    });
  return { send, end: () => agent.destroy() };
}

const until = (load: string) =>
  eventually(load, async () => {
    const { result } = await server.get(warehouse);
    return `${result.runningQueries} ${result.queuedQueries}` === load;
  });

describe('a full warehouse', () => {
  const statements = [
    ['a query', query, { sql: 'SELECT 1' }, 200],
    ['rows', `${table}/rows`, { rows: [{ i: 1 }] }, 201],
    ['an update', `${table}/update`, { set: { i: '2' }, where: 'i = 1' }, 200],
  ] as const;
  for (const [what, path, body, status] of statements) {
    it(`serves the connection that it refused before one that came later: ${what}`, async () => {
      const [runs, waits, refused, late] = [connection(), connection(), connection(), connection()];
      const running = runs.send(query, { sql: endless }).catch(() => undefined);
      await until('1 0');
      const waiting = waits.send(query, { sql: 'SELECT 1' }).catch(() => undefined);
      await until('1 1');
      const first = await refused.send(path, body);
      assert.equal(first.status, 503);
      assert.ok(first.retryAfter >= 1, `Retry-After ${first.retryAfter}`);
      waits.end();
      await waiting;
      await until('1 0');
      const later = late.send(query, { sql: 'SELECT 1' });
      await until('1 1');
      const again = refused.send(path, body);
      assert.equal((await later).status, 503);
      await until('1 1');
      runs.end();
      await running;
      assert.equal((await again).status, status);
      for (const one of [refused, late]) one.end();
    });
  }
});
