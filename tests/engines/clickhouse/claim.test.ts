// The right to do the work of a step on a server: one process has it at a time, and one that lost it can do nothing more.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { HttpServer } from '../../../src/engines/clickhouse/connection/http_server.ts';
import type { ClickHouseServer } from '../../../src/engines/clickhouse/connection/server.ts';
import { claimPrefix, dropClaims, withClaim } from '../../../src/engines/clickhouse/steps/claim.ts';
import { deadlineMs } from '../../deadline.ts';
import { missingRing, type RingNode, startRing } from './ring/ring.ts';

const timeoutMs = deadlineMs(10_000);

describe('a claim', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(1);
  const [{ url }] = ring.nodes as readonly RingNode[] as [RingNode];
  const credentials = async () => ({ user: 'default', password: '' });
  const server = new HttpServer({ name: 'node1', url, credentials });
  after(async () => {
    await server.close();
    await ring.close();
  });
  const run = (on: ClickHouseServer, sql: string) => on.text({ sql, timeoutMs });
  const claims = () =>
    server.rows<{ name: string }>({
      sql: `SELECT name FROM system.databases WHERE startsWith(name, '${claimPrefix}')`,
      timeoutMs,
    });

  await run(server, 'CREATE TABLE default.done (who String) ENGINE = MergeTree ORDER BY who');
  const done = async (who: string) => {
    const rows = await server.rows<{ n: string }>({
      sql: `SELECT count() AS n FROM default.done WHERE startsWith(who, '${who}')`,
      timeoutMs,
    });
    return Number(rows[0]?.n);
  };
  /** As the work of a step: looks whether it is done, and does it. */
  const doOnce = (key: string) =>
    withClaim(server, key, async (claimed) => {
      if ((await done(key)) === 0) await run(claimed, `INSERT INTO default.done SELECT '${key}'`);
    });

  test('is had by one of many at a time, and leaves nothing', async () => {
    const key = randomUUID();
    const settled = await Promise.allSettled(Array.from({ length: 6 }, () => doOnce(key)));
    assert.ok(settled.some(({ status }) => status === 'fulfilled'));
    assert.equal(await done(key), 1);
    assert.deepEqual(await claims(), []);
  });

  test('is taken over from a process that stands still, which is refused when it continues', async () => {
    const key = randomUUID();
    const taken = Promise.withResolvers<void>();
    const continued = Promise.withResolvers<void>();
    const first = withClaim(server, key, async (claimed) => {
      taken.resolve();
      await continued.promise;
      await run(claimed, `INSERT INTO default.done SELECT '${key}'`);
    });
    const refused = assert.rejects(first, { code: 'CHANGE_IN_PROGRESS', outcome: 'unknown' });
    await taken.promise;
    await doOnce(key);
    continued.resolve();
    await refused;
    assert.equal(await done(key), 1);
    assert.deepEqual(await claims(), []);
  });

  test('is not taken over while a statement of it runs', async () => {
    const key = randomUUID();
    const order: string[] = [];
    const taken = Promise.withResolvers<void>();
    const first = withClaim(server, key, async (claimed) => {
      taken.resolve();
      await run(claimed, 'SELECT sleepEachRow(1) FROM numbers(5) SETTINGS max_block_size = 1');
      order.push('first');
    });
    await taken.promise;
    const second = withClaim(server, key, async () => void order.push('second'));
    await Promise.all([first, second]);
    assert.deepEqual(order, ['first', 'second']);
  });

  test('an error of the statement itself is passed on', async () => {
    const work = withClaim(server, randomUUID(), (claimed) => run(claimed, 'SELECT * FROM default.missing'));
    await assert.rejects(work, { code: 60 });
  });

  test('of a process that ended is dropped when it is old', async () => {
    await run(server, `CREATE DATABASE ${claimPrefix}abc_${Date.now().toString(36)}_1`);
    await dropClaims(server, timeoutMs * 10);
    assert.equal((await claims()).length, 1);
    await pause(5);
    await dropClaims(server, 1);
    assert.deepEqual(await claims(), []);
  });
});
