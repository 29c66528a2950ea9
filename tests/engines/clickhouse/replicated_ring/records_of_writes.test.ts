// What is recorded of writes outlives the servers that recorded it: a server that joins the others gets their records, and one that missed a
// record gets it. A repetition stores nothing again, whichever servers are enabled by then.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { definitionOf, type EngineWorld, openEngine, rowsOf } from '../../../conformance/engine/engine_world.ts';
import { eventually } from '../../../deadline.ts';
import { accessTo, engineOn } from '../engine.ts';
import { type CuttingProxy, startCuttingProxy } from '../ring/cutting_proxy.ts';
import { clusterName, missingOldestVersion, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const names = ['node1', 'node2', 'node3'] as const;
const inserted = 300;

describe('the records of writes', { skip: missingOldestVersion }, () => {
  let ring: ReplicatedRing;
  let proxies: CuttingProxy[];
  let world: EngineWorld;
  const disabled = new Set<string>();
  let table = '';
  let step = '';

  before(async () => {
    ring = await startReplicatedRing({ version: '24.8', sessionMs: 10_000 });
    proxies = await Promise.all(ring.servers.map(({ url }) => startCuttingProxy(url)));
    const access = accessTo(proxies, clusterName, (backend) => disabled.has(backend));
    world = await openEngine({}, engineOn(access, proxies));
  });
  after(async () => {
    await world?.close();
    for (const proxy of proxies ?? []) proxy.close();
    await ring?.close();
  });
  beforeEach(async () => {
    await enableOnly(...names);
    table = `t ${randomUUID().slice(0, 8)}`;
    step = randomUUID();
    const { catalog, database } = world;
    const definition = definitionOf({ a: 'INT' });
    await world.change({ kind: 'createTable', table: { catalog, database, table }, definition });
  });

  async function enableOnly(...enabled: readonly string[]): Promise<void> {
    for (const name of names) {
      if (enabled.includes(name)) disabled.delete(name);
      else disabled.add(name);
    }
    await world.engine.servers?.refresh();
    await available(...enabled);
  }
  const available = (...expected: readonly string[]) =>
    eventually(`${expected} are available`, () =>
      expected.every((name) => world.engine.status(name).availability === 'available'),
    );
  const insert = () => world.run(`INSERT INTO "${table}" SELECT number FROM numbers(${inserted})`, { step });
  async function isNotRepeated(): Promise<void> {
    assert.equal((await insert()).repeated, true);
    assert.deepEqual(await rowsOf(world, `SELECT count(*) FROM "${table}"`), [[inserted]]);
  }

  test('are copied to a server that is enabled', async () => {
    await enableOnly('node1', 'node2');
    await insert();
    await enableOnly(...names);
    await enableOnly('node3');
    await isNotRepeated();
  });

  test('are read from servers that are disabled before another one that is enabled counts', async () => {
    await enableOnly('node1', 'node2');
    await insert();
    await enableOnly('node3');
    await isNotRepeated();
  });

  test('are copied to a server that has missed them', async () => {
    const [, , third] = proxies;
    const refused = ['attempts', 'steps`[^]*"state":"pending"', 'steps`[^]*"state":"applied"'].map(async (records) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      third?.holdOnce(new RegExp(`INSERT INTO \`_tabularium\`\\.\`${records}`), async () => {
        resolve();
        throw new Error('the connection is lost');
      });
      await promise;
    });
    await insert();
    await Promise.all(refused);
    // It may get one from each of the others.
    const body = `SELECT count() > 0 FROM _tabularium.steps WHERE step = '${step}' AND state = 'applied'`;
    await eventually('it gets them', async () => {
      const response = await fetch(ring.servers[2]?.url ?? '', { method: 'POST', body });
      return (await response.text()).trim() === '1';
    });
    await enableOnly('node2', 'node3');
    await enableOnly('node3');
    await isNotRepeated();
  });

  test('are copied by servers that return to one that has none', async () => {
    const others = proxies.slice(0, 2);
    await enableOnly('node1', 'node2');
    await insert();
    for (const proxy of others) proxy.cutAt(/./);
    await eventually('they are lost', () =>
      names.slice(0, 2).every((name) => world.engine.status(name).availability === 'unavailable'),
    );
    // It counts, as it must while no other server responds.
    await enableOnly('node3');
    for (const proxy of others) proxy.mend();
    await enableOnly(...names);
    await enableOnly('node3');
    await isNotRepeated();
  });
});
