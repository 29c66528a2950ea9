// What happens to a table while something else is done with it: a node loses what a change has made there, as when another process takes the node
// out of service, and a table is dropped while rows are inserted.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { definitionOf, type EngineWorld, openEngine } from '../../conformance/engine/engine_world.ts';
import { accessTo, engineOn } from './engine.ts';
import { askNode } from './ring/ask_node.ts';
import { type CuttingProxy, startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, type Ring, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT' });
const { signal } = new AbortController();

/** The same promise however often it is called. */
function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}

describe('a change of which a node loses a part', { skip: missingRing }, () => {
  let ring: Ring;
  let proxies: CuttingProxy[];
  let world: EngineWorld;

  before(async () => {
    ring = await startRing(2);
    proxies = await Promise.all(ring.nodes.map(({ url }) => startCuttingProxy(url)));
    world = await openEngine({}, engineOn(accessTo(proxies, clusters.shards), proxies));
  });
  after(async () => {
    await world?.close();
    for (const proxy of proxies ?? []) proxy.close();
    await ring?.close();
  });

  test('rows are inserted, and the table is dropped meanwhile', async () => {
    const { catalog, database } = world;
    const table = { catalog, database, table: 'filled' };
    await world.change({ kind: 'createTable', table, definition });
    const isDropped = once(async () => void (await world.change({ kind: 'dropTable', table })));
    for (const proxy of proxies) proxy.holdOnce(/INSERT INTO .*`filled`/, isDropped);
    const batch = rowReader(definition.columns).read([[1], [2]]);
    const error = await world.engine.insertRows(table, batch, { signal, definition }).then(
      () => assert.fail('it succeeded'),
      (failed: unknown) => failed,
    );
    for (const proxy of proxies) proxy.mend();
    assert.ok(error instanceof Failure, String(error));
    assert.deepEqual([error.code, error.outcome], ['CHANGE_IN_PROGRESS', 'unknown'], error.message);
  });

  for (const [what, lost] of Object.entries({ table: 'TABLE {database}.`t__local`', database: 'DATABASE {database}' }))
    test(`a table is created, and a node has lost its ${what}`, async () => {
      const { catalog, database } = world;
      const table = { catalog, database, table: 't' };
      proxies[1]?.holdOnce(/Distributed/, () =>
        askNode(ring.nodes[1], `DROP ${lost.replace('{database}', `\`c \\"1\\"__${database}\``)} SYNC`),
      );
      const error = await world.change({ kind: 'createTable', table, definition }).then(
        () => assert.fail('it succeeded'),
        (failed: unknown) => failed,
      );
      assert.ok(error instanceof Failure, String(error));
      assert.deepEqual([error.code, error.outcome], ['WAREHOUSE_FAILED', 'unknown'], error.message);
      await world.change({ kind: 'createDatabase', database: { catalog, database } });
      await world.change({ kind: 'createTable', table, definition });
      await world.change({ kind: 'dropTable', table });
    });
});
