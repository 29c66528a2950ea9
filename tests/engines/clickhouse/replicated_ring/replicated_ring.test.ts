// What the servers of the ring do under faults, as the replication layer of the adapter relies on it.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { deadlineMs, eventually } from '../../../deadline.ts';
import { missingReplicatedRing, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const quorum = { insert_quorum: '2', insert_quorum_timeout: '1000' };
/** No ZooKeeper, table is read-only, too few live replicas, quorum of this or an earlier insert not reached, error of ZooKeeper. */
const refusals = ['225', '242', '285', '286', '319', '999'];

describe('a ring that replicates', { skip: missingReplicatedRing }, () => {
  let ring: ReplicatedRing;
  let tables = 0;
  let table: string;
  before(async () => {
    ring = await startReplicatedRing();
    for (const n of [0, 1, 2]) await ok(n, 'CREATE DATABASE d');
  });
  after(() => ring?.close());
  beforeEach(async () => {
    table = `d.t${++tables}`;
    const engine = `ReplicatedMergeTree('/tables/${table}/{shard}', '{replica}')`;
    // ZooKeeper may just have been started again.
    for (const n of [0, 1, 2])
      await eventually('a table is created', async () => {
        const { code } = await run(n, `CREATE TABLE IF NOT EXISTS ${table} (i Int64) ENGINE = ${engine} ORDER BY i`);
        return code === '0';
      });
  });

  const run = async (n: number, sql: string, settings: Readonly<Record<string, string>> = {}, timeoutMs = 20_000) => {
    const query = new URLSearchParams({ query: sql, ...settings });
    const signal = AbortSignal.timeout(deadlineMs(timeoutMs));
    const response = await fetch(`${ring.servers[n]?.url}/?${query}`, { method: 'POST', signal });
    const text = await response.text();
    const code = /^Code: (\d+)/.exec(text)?.[1] ?? (response.ok ? '0' : text);
    return { code, text: text.trim() };
  };
  const ok = async (n: number, sql: string, settings?: Readonly<Record<string, string>>): Promise<string> => {
    const { code, text } = await run(n, sql, settings);
    assert.equal(code, '0', text);
    return text;
  };
  const count = (n: number) => ok(n, `SELECT count() FROM ${table}`);
  /** Until it has what it missed, and is a replica that others count. */
  const insertSucceeds = (n: number, value: number) =>
    eventually(
      'an insert with quorum succeeds',
      async () => (await run(n, `INSERT INTO ${table} VALUES (${value})`, quorum)).code === '0',
      30_000,
    );
  /** A server that returns earlier waits 10 s until it tries again to be a replica. */
  const activeBecome = (n: number, expected: string) =>
    eventually(`${expected} replicas are active`, async () => {
      const sql = `SELECT active_replicas FROM system.replicas WHERE database = 'd' AND table = 't${tables}'`;
      return (await run(n, sql)).text === expected;
    });
  const countBecomes = (n: number, expected: string) =>
    eventually(
      `server ${n} has ${expected} rows`,
      async () => (await run(n, `SELECT count() FROM ${table}`)).text === expected,
    );

  test('copies what one server inserts, and the same block once', async () => {
    for (const n of [0, 1, 2]) await ok(n, `INSERT INTO ${table} VALUES (1)`, quorum);
    for (const n of [0, 1, 2]) {
      await ok(n, `SYSTEM SYNC REPLICA ${table}`);
      assert.equal(await count(n), '1');
    }
  });

  test('continues without one server, which catches up when it is back', async (t) => {
    const [, , third] = ring.servers;
    await third?.kill();
    t.after(() => third?.start());
    await insertSucceeds(0, 1);
    assert.equal(await count(1), '1');
    await activeBecome(0, '2');
    await third?.start();
    await countBecomes(2, '1');
  });

  test('refuses inserts with quorum while all other servers are down, and takes them when one is back', async (t) => {
    const [, second, third] = ring.servers;
    await Promise.all([second?.kill(), third?.kill()]);
    t.after(() => third?.start());
    const { code, text } = await run(0, `INSERT INTO ${table} VALUES (1)`, quorum);
    assert(refusals.includes(code), text);
    await activeBecome(0, '1');
    await second?.start();
    await insertSucceeds(0, 1);
    assert.equal(await count(0), '1', 'the repeated block is there once');
  });

  test('refuses inserts while ZooKeeper is down, and answers reads', async (t) => {
    await insertSucceeds(0, 1);
    await ring.zookeeper.kill();
    t.after(() => ring.zookeeper.start());
    const { code, text } = await run(0, `INSERT INTO ${table} VALUES (2)`, quorum, 40_000);
    assert(refusals.includes(code), text);
    assert.equal(await count(0), '1');
    await ring.zookeeper.start();
    await insertSucceeds(0, 2);
    assert.equal(await count(0), '2');
  });

  test('continues after a server or ZooKeeper was frozen', async (t) => {
    const [, second, third] = ring.servers;
    for (const [value, frozen] of [third, second, ring.zookeeper].entries()) {
      t.after(() => frozen?.resume());
      frozen?.freeze();
      if (frozen !== ring.zookeeper) await insertSucceeds(0, value);
      frozen?.resume();
      await insertSucceeds(0, value);
    }
    for (const n of [0, 1, 2]) await countBecomes(n, '3');
  });
});
