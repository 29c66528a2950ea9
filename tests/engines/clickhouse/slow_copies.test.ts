// A copy without replication whose contents take longer to compare than any other call to a server may take: it counts again, and while it is compared
// it is noticed if it freezes.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { type CuttingProxy, startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, type RingNode, startRing } from './ring/ring.ts';

/** Of the contents of a table. */
const comparison = /groupBitXor\(sipHash64/;
/** More than an attempt to catch up takes otherwise. */
const readMs = 35_000;
const clearedMs = 90_000;

describe('a copy that is slow to read', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(2);
  const proxies = await Promise.all(ring.nodes.map(({ url }) => startCuttingProxy(url)));
  const [, second] = proxies as [CuttingProxy, CuttingProxy];
  const [, node] = ring.nodes as [RingNode, RingNode];
  const world = await openEngine({}, engineOn(accessTo(proxies, clusters.copies), proxies));
  after(async () => {
    await world.close();
    for (const proxy of proxies) proxy.close();
    await ring.close();
  });
  const { engine } = world;
  await world.table('t', { a: 'INT' });
  await world.run('INSERT INTO t SELECT number FROM numbers(1000)');

  let comparisons = 0;
  /** Each comparison takes as long. */
  function slowDown(): void {
    second.holdOnce(comparison, async () => {
      comparisons++;
      slowDown();
      await pause(readMs, undefined, { ref: false });
    });
  }
  const is = (availability: string) =>
    eventually(`it is ${availability}`, () => engine.status('node2').availability === availability, clearedMs);
  async function isCompared(): Promise<void> {
    second.cutAt(/./);
    await is('unavailable');
    comparisons = 0;
    second.mend();
    slowDown();
    await eventually('it is compared', () => comparisons > 0, clearedMs);
  }

  test('counts again when it was compared', async () => {
    await isCompared();
    assert.equal(engine.status('node2').availability, 'catchingUp');
    await is('available');
    assert.equal(comparisons, 1);
    assert.deepEqual(await rowsOf(world, 'SELECT count(*) FROM t'), [[1000]]);
  });

  test('is lost when it freezes meanwhile', async () => {
    await isCompared();
    node.freeze();
    try {
      await is('unavailable');
    } finally {
      node.resume();
    }
    second.mend();
    await is('available');
  });
});
