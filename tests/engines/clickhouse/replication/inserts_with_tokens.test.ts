// The path of inserts of replicated tables on current servers, which cannot replicate here: a batch with a token is sent to a Distributed
// table, and again to another server, and stored once on each shard; rows that a table refuses are not sent again.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ClickHouseError } from '../../../../src/engines/clickhouse/connection/clickhouse_error.ts';
import { HttpServer } from '../../../../src/engines/clickhouse/connection/http_server.ts';
import type { ClickHouseServer } from '../../../../src/engines/clickhouse/connection/server.ts';
import { ReplicatedInserts } from '../../../../src/engines/clickhouse/replication/replicated_inserts.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { deadlineMs, eventually } from '../../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../ring/ring.ts';

const timeoutMs = deadlineMs(10_000);
const names = { database: 'sales__shop', table: 'orders', localTable: 'orders__local' };

describe('inserts with tokens', { skip: missingRing }, () => {
  let ring: Ring;
  let servers: HttpServer[];
  const inserts = new ReplicatedInserts();
  before(async () => {
    ring = await startRing(2);
    const credentials = async () => ({ user: 'default', password: '' });
    servers = ring.nodes.map(({ url }, index) => new HttpServer({ name: `node${index + 1}`, url, credentials }));
    for (const server of servers) {
      await server.probe({ timeoutMs });
      for (const sql of [
        'CREATE DATABASE sales__shop',
        `CREATE TABLE sales__shop.orders__local (id Int64, CONSTRAINT positive CHECK id >= 0) ENGINE = MergeTree ORDER BY id
          SETTINGS non_replicated_deduplication_window = 100`,
        `CREATE TABLE sales__shop.orders AS sales__shop.orders__local
          ENGINE = Distributed(${clusters.shards}, sales__shop, orders__local, id)`,
      ])
        await server.text({ sql, timeoutMs });
    }
  });
  after(async () => {
    for (const server of servers ?? []) await server.close();
    await ring?.close();
  });

  const batch = (token: string, ids: readonly number[]) => ({
    names,
    columns: ['id'],
    format: 'TabSeparated',
    data: ids.map((id) => `${id}\n`).join(''),
    rowCount: ids.length,
    token,
  });
  const options = (asked: readonly ClickHouseServer[]) => ({ servers: asked, replicasOfShard: 1, timeoutMs });
  const stored = async () =>
    (
      await (servers[0] as HttpServer).rows<{ id: string }>({
        sql: 'SELECT id FROM sales__shop.orders ORDER BY id',
        timeoutMs,
      })
    ).map(({ id }) => Number(id));
  /** A server whose responses to INSERT statements are lost. */
  function mute(server: ClickHouseServer): ClickHouseServer {
    return {
      name: server.name,
      version: server.version,
      rows: (call) => server.rows(call),
      stream: (call) => server.stream(call),
      async text(call) {
        await server.text(call);
        throw new Failure('WAREHOUSE_FAILED', 'lost', {}, { outcome: 'unknown' });
      },
    };
  }

  test('a batch whose response is lost is sent to another server, and stored once', async () => {
    const [first, second] = servers as [HttpServer, HttpServer];
    assert.equal(await inserts.insert(batch('a', [1, 2, 3, 4]), options([mute(first), second])), second);
    assert.deepEqual(await stored(), [1, 2, 3, 4]);
    await inserts.insert(batch('b', [1, 2]), options([second]));
    assert.deepEqual(await stored(), [1, 1, 2, 2, 3, 4], 'another token: other rows');
  });

  test('the data is read by a SELECT where the table cannot read it', async () => {
    const reading = "SELECT toInt64(a) * 10 AS id FROM input('a String')";
    await inserts.insert({ ...batch('c', [5]), reading }, options(servers));
    assert.deepEqual((await stored()).at(-1), 50);
  });

  test('rows that the table refuses are not sent again', async () => {
    let calls = 0;
    const [first] = servers as [HttpServer];
    const counting: ClickHouseServer = {
      name: first.name,
      version: first.version,
      rows: (call) => first.rows(call),
      stream: (call) => first.stream(call),
      text: (call) => {
        calls++;
        return first.text(call);
      },
    };
    await assert.rejects(inserts.insert(batch('d', [-1]), options([counting])), ClickHouseError);
    assert.equal(calls, 1);
  });

  test('a batch whose statement a server ends, as a decommission does, is sent to another server', async () => {
    const [first, second] = servers as [HttpServer, HttpServer];
    const reading = "SELECT toInt64(a) + sleepEachRow(1) AS id FROM input('a String')";
    const inserted = inserts.insert({ ...batch('k', [70]), reading }, options([first, second]));
    const where = `query LIKE 'INSERT%sleepEachRow%' AND is_initial_query`;
    const running = { sql: `SELECT 1 AS found FROM system.processes WHERE ${where}`, timeoutMs };
    await eventually('the insert runs', async () => (await first.rows(running)).length > 0);
    await first.text({ sql: `KILL QUERY WHERE ${where} ASYNC`, timeoutMs });
    await inserted;
    assert.deepEqual(
      (await stored()).filter((id) => id === 70),
      [70],
    );
  });

  test('without a server it is refused, and with one that is gone it is given up in time', async () => {
    const code = (outcome: string) => (error: unknown) =>
      error instanceof Failure && error.code === 'REPLICAS_UNAVAILABLE' && error.outcome === outcome;
    await assert.rejects(inserts.insert(batch('e', [1]), options([])), code('notApplied'));
    const [first] = servers as [HttpServer];
    const lost = inserts.insert(batch('f', [8]), { ...options([mute(first)]), timeoutMs: 500 });
    await assert.rejects(lost, code('unknown'));
    await inserts.insert(batch('f', [8]), options(servers));
    assert.deepEqual(
      (await stored()).filter((id) => id === 8),
      [8],
    );
  });
});
