// The drop of a node's tables by a server that stands still meanwhile: what it sends later must not touch rows that are needed by then. It reaches
// the node through a proxy that holds a statement back.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { storedDatabase } from '../../../src/engines/clickhouse/names.ts';
import type { DropOptions, RegisteredServers } from '../../../src/engines/cluster/registered_servers.ts';
import type { TableRef } from '../../../src/engines/port/refs.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { definitionOf, type EngineWorld, openEngine } from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { askNode } from './ring/ask_node.ts';
import { type CuttingProxy, startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, type Ring, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT' });
const { signal } = new AbortController();
const drop = /DROP DATABASE IF EXISTS .*SYNC/;

describe('a drop of tables that arrives late', { skip: missingRing }, () => {
  let ring: Ring;
  let proxy: CuttingProxy;
  let late: EngineWorld;
  let world: EngineWorld;
  const disabled = new Set<string>();
  const isDisabled = (backend: string) => disabled.has(backend);

  before(async () => {
    ring = await startRing(2);
    const [first, second] = ring.nodes as [Ring['nodes'][number], Ring['nodes'][number]];
    proxy = await startCuttingProxy(second.url);
    world = await openEngine({}, engineOn(accessTo(ring.nodes, clusters.copies, isDisabled), ring.nodes));
    const engine = engineOn(accessTo([first, proxy], clusters.copies, isDisabled), [first, proxy]);
    late = await openEngine({}, { ...engine, catalogName: () => 'unused' });
    late.catalogs.push(world.catalog);
    world.catalogs.push(late.catalog);
  });
  after(async () => {
    await world?.close();
    await late?.close();
    proxy?.close();
    await ring?.close();
  });

  /** In databases of their own. */
  const tables = (): TableRef[] => ['one', 'two'].map((database) => ({ catalog: world.catalog, database, table: 't' }));
  const serversOf = ({ engine }: EngineWorld): RegisteredServers => {
    assert.ok(engine.servers);
    return engine.servers;
  };
  const setDisabled = async (...backends: string[]) => {
    disabled.clear();
    for (const backend of backends) disabled.add(backend);
    await Promise.all([world, late].map((each) => serversOf(each).refresh()));
  };
  const areAvailable = (...backends: string[]) =>
    eventually('the nodes are available', () =>
      [world, late].every(({ engine }) => backends.every((name) => engine.status(name).availability === 'available')),
    );
  const stored = (database: string) => `\`${storedDatabase(world.catalog.name, database)}\``;
  const localTable = (database: string) => `${stored(database)}.t__local`;
  const rowsLeft = async () => {
    const [, second] = ring.nodes;
    const counts = tables().map(({ database }) => askNode(second, `SELECT count() FROM ${localTable(database)}`));
    return (await Promise.all(counts)).map(Number);
  };
  const confirm = async () => undefined;
  const dropsOf = (each: EngineWorld, options: Partial<DropOptions> = {}) =>
    serversOf(each).dropTables('node2', { signal, confirm, ...options });
  /** Of the server behind the proxy. Resolves when its first drop is held back. */
  const holdDrops = async () => {
    const arrived = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    proxy.holdOnce(drop, async () => {
      arrived.resolve();
      await released.promise;
    });
    const ended = dropsOf(late).then(
      () => '0',
      (error: { code?: string }) => error.code ?? String(error),
    );
    await Promise.race([arrived.promise, ended.then((code) => assert.fail(`it was not held back: ${code}`))]);
    return async () => {
      released.resolve();
      return ended;
    };
  };

  /** Both nodes have the same rows, and the second one is disabled. */
  beforeEach(async () => {
    for (const { database } of tables())
      for (const node of ring.nodes) await askNode(node, `DROP DATABASE IF EXISTS ${stored(database)} SYNC`);
    await setDisabled();
    await areAvailable('node1', 'node2');
    for (const table of tables()) {
      await world.change({ kind: 'createDatabase', database: table });
      await world.change({ kind: 'createTable', table, definition });
      const rows = rowReader(definition.columns).read([[1], [2]]);
      await world.engine.insertRows(table, rows, { signal, definition });
    }
    assert.deepEqual(await rowsLeft(), [2, 2]);
    await setDisabled('node2');
  });

  test('does nothing if another server has dropped all, and the node has rows again', async () => {
    const release = await holdDrops();
    await dropsOf(world);
    const [, second] = ring.nodes;
    for (const { database } of tables()) {
      await askNode(second, `CREATE DATABASE ${stored(database)}`);
      await askNode(second, `CREATE TABLE ${localTable(database)} ENGINE = MergeTree ORDER BY () AS SELECT 1 AS a`);
    }
    assert.equal(await release(), 'CHANGE_IN_PROGRESS');
    assert.deepEqual(await rowsLeft(), [1, 1]);
  });

  test('does nothing once another server has ended it', async () => {
    const release = await holdDrops();
    await serversOf(world).endDrops('node2');
    assert.equal(await release(), 'CHANGE_IN_PROGRESS');
    assert.deepEqual(await rowsLeft(), [2, 2]);
    await dropsOf(world);
    await assert.rejects(rowsLeft(), /UNKNOWN_(DATABASE|TABLE)/);
  });

  test('does nothing when the node is in service again', async () => {
    const release = await holdDrops();
    disabled.clear();
    await serversOf(world).refresh();
    await eventually('node2 is available', () => world.engine.status('node2').availability === 'available');
    assert.equal(await release(), 'CHANGE_IN_PROGRESS');
    assert.deepEqual(await rowsLeft(), [2, 2]);
  });

  test('is confirmed with its claim, and for each database', async () => {
    let confirmed = 0;
    const once = async () => {
      if (++confirmed > 1) throw new Failure('CHANGE_IN_PROGRESS', 'another server has taken over');
    };
    await assert.rejects(dropsOf(world, { confirm: once }), { code: 'CHANGE_IN_PROGRESS' });
    assert.equal(confirmed, 2);
    assert.deepEqual(await rowsLeft(), [2, 2]);
  });

  test('drops nothing of which no other node has a copy any more', async () => {
    await setDisabled('node1', 'node2');
    await assert.rejects(dropsOf(world), { code: 'CHANGE_IN_PROGRESS' });
    await setDisabled('node2');
    await areAvailable('node1');
    await askNode(ring.nodes[0], `DROP TABLE ${localTable('one')} SYNC`);
    await assert.rejects(dropsOf(world), { code: 'CHANGE_IN_PROGRESS' });
    assert.deepEqual(await rowsLeft(), [2, 2]);
  });

  test('can be repeated, whatever the node answers', async () => {
    const [, second] = ring.nodes;
    await askNode(
      second,
      `CREATE DICTIONARY default.uses (a UInt64) PRIMARY KEY a LAYOUT(HASHED()) LIFETIME(0)
         SOURCE(CLICKHOUSE(DB '${storedDatabase(world.catalog.name, 'one')}' TABLE 't__local'))`,
    );
    await assert.rejects(dropsOf(world), { code: 'REMOTE_UNAVAILABLE' });
    await askNode(second, 'DROP DICTIONARY default.uses');
    await dropsOf(world);
    await assert.rejects(rowsLeft(), /UNKNOWN_(DATABASE|TABLE)/);
  });
});
