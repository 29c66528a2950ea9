// A snapshot of a catalog that fails on one server while another one is still creating its tables: nothing of it is left, also without another attempt.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { openEngine } from '../../conformance/engine/engine_world.ts';
import { deadlineMs, eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { askNode } from './ring/ask_node.ts';
import { startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, startRing } from './ring/ring.ts';

const creating = /CREATE TABLE .*load_snapshot_/;
const stagedTables = "SELECT name FROM system.tables WHERE database = '_tabularium' AND startsWith(name, 'load_')";
/** So long a statement is on its way after the snapshot has failed. */
const lateMs = 2_000;
const clearedMs = 30_000;

describe('a snapshot that fails', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(2);
  const proxies = await Promise.all(ring.nodes.map(({ url }) => startCuttingProxy(url)));
  const world = await openEngine({}, engineOn(accessTo(proxies, clusters.shards), proxies));
  after(async () => {
    await world.close();
    for (const proxy of proxies) proxy.close();
    await ring.close();
  });

  test('on one server leaves no table on another one, which creates it later', {
    timeout: deadlineMs(120_000),
  }, async () => {
    await world.table('t', { id: 'BIGINT' });
    await world.run('INSERT INTO t SELECT number FROM numbers(100)');
    const [failing, slow] = proxies;
    assert.ok(failing && slow);
    const failed = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    slow.holdOnce(creating, async () => {
      arrived.resolve();
      await failed.promise;
      await pause(lateMs);
    });
    // It goes away once the other one is creating.
    failing.holdOnce(creating, async () => {
      await arrived.promise;
      failing.cutAt(/./);
      throw new Error('the connection is closed');
    });
    const { signal } = new AbortController();
    const ending = world.engine.snapshot(world.catalog, { signal, purpose: 'failing' });
    await assert.rejects(ending);
    failed.resolve();
    failing.mend();
    await pause(2 * lateMs);
    await eventually(
      'nothing is left',
      async () =>
        (await Promise.all(ring.nodes.map((node) => askNode(node, stagedTables)))).every((names) => names === ''),
      clearedMs,
    );
  });
});
