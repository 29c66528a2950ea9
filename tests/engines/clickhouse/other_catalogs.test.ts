// Databases that have the names of a catalog's, and belong to another installation on the same servers or to an operator: no change of the catalog,
// and no decommission, touches them.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import type { RegisteredServers } from '../../../src/engines/cluster/registered_servers.ts';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { CatalogRef, DefinedObject } from '../../../src/engines/port/refs.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { definitionOf, type EngineWorld, failureOf, openEngine } from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { askNode } from './ring/ask_node.ts';
import { clusters, missingRing, type Ring, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT' });
const { signal } = new AbortController();
const confirm = async () => undefined;

describe('databases of others', { skip: missingRing }, () => {
  let ring: Ring;
  let world: EngineWorld;
  let other: EngineWorld;
  const disabled = new Set<string>();
  /** What the store of the first installation defines. */
  const defined = new Map<string, DefinedObject>();

  before(async () => {
    ring = await startRing(2);
    const access = accessTo(ring.nodes, clusters.copies, (backend) => disabled.has(backend));
    const engine = engineOn(access, ring.nodes);
    const definedObject = async (name: DefinedObject['name']) => defined.get(JSON.stringify(name));
    const open: typeof engine.open = (options) => engine.open({ ...options, definedObject });
    world = await openEngine({}, { ...engine, open, catalogName: () => 'ours' });
    other = await openEngine({}, { ...engine, catalogName: () => 'theirs' });
  });
  after(async () => {
    await world?.close();
    await other?.close();
    await ring?.close();
  });

  const create = async (on: EngineWorld, catalog: CatalogRef, database: string) => {
    const table = { catalog, database, table: 't' };
    await on.change({ kind: 'createDatabase', database: table });
    await on.change({ kind: 'createTable', table, definition });
    await on.engine.insertRows(table, rowReader(definition.columns).read([[1], [2]]), { signal, definition });
  };
  /** Catalogs of the same name: the first one has the databases `a` and `b`, that of the other installation has `c`. */
  const catalogs = async (name: string): Promise<{ ours: CatalogRef; theirs: CatalogRef }> => {
    const [ours, theirs] = [world, other].map((each) => {
      const catalog = { id: randomUUID(), name };
      each.catalogs.push(catalog);
      return catalog;
    }) as [CatalogRef, CatalogRef];
    for (const database of ['a', 'b']) await create(world, ours, database);
    await create(other, theirs, 'c');
    return { ours, theirs };
  };
  /** The databases whose names contain the text, with the number of rows in each: the same on both nodes. */
  const databases = async (name: string): Promise<string> => {
    const sql = `SELECT concat(name, ' ', toString(ifNull(rows, 0))) FROM system.databases AS d
      LEFT JOIN (SELECT database, sum(total_rows) AS rows FROM system.tables WHERE engine = 'MergeTree' GROUP BY database) AS t
      ON t.database = d.name WHERE position(name, '${name}') > 0 ORDER BY name FORMAT TSVRaw`;
    const [one, two] = await Promise.all(ring.nodes.map((node) => askNode(node, sql)));
    assert.equal(one, two, 'the nodes agree');
    return String(one).split('\n').join(', ');
  };
  const refusal = async (change: Change) => {
    const { code, message } = await failureOf(world.change(change));
    return `${code}: ${message}`;
  };
  const isTaken = /^CHANGE_IN_PROGRESS: the servers have a database .* that (is of another catalog|does not say)/;

  test('keep their names when the catalog is renamed', async () => {
    const { ours } = await catalogs('renamed');
    await world.change({ kind: 'renameCatalog', catalog: ours, newName: 'renamed2' });
    assert.equal(await databases('renamed'), 'renamed2__a 2, renamed2__b 2, renamed__c 2');
  });

  test('stay when the catalog is dropped, restored, dropped again and purged', async () => {
    const { ours } = await catalogs('hidden');
    await world.change({ kind: 'hideCatalog', catalog: ours });
    assert.equal(await databases('hidden'), 'hidden__c 2');
    await world.change({ kind: 'restoreCatalog', catalog: ours });
    assert.equal(await databases('hidden'), 'hidden__a 2, hidden__b 2, hidden__c 2');
    await world.change({ kind: 'dropCatalog', catalog: ours });
    assert.equal(await databases('hidden'), 'hidden__c 2');
  });

  test('refuse a rename to their names, which changes nothing on any server', async () => {
    const { ours } = await catalogs('wanted');
    await create(other, { id: randomUUID(), name: 'taken' }, 'b');
    assert.match(await refusal({ kind: 'renameCatalog', catalog: ours, newName: 'taken' }), isTaken);
    assert.equal(await databases('wanted'), 'wanted__a 2, wanted__b 2, wanted__c 2');
    const database = { catalog: ours, database: 'a' };
    assert.match(await refusal({ kind: 'renameDatabase', database, newName: 'c', tables: [] }), isTaken);
    assert.equal(await databases('wanted'), 'wanted__a 2, wanted__b 2, wanted__c 2');
    assert.equal(await databases('taken'), 'taken__b 2');
  });

  test('leave a rename open that has begun on another server', async () => {
    const { ours } = await catalogs('begun');
    await askNode(ring.nodes[0], 'RENAME DATABASE begun__a TO ended__a');
    await askNode(ring.nodes[1], 'CREATE DATABASE ended__a');
    const change: Change = { kind: 'renameCatalog', catalog: ours, newName: 'ended' };
    await assert.rejects(world.change(change), { code: 'CHANGE_IN_PROGRESS', outcome: 'unknown' });
    await askNode(ring.nodes[1], 'DROP DATABASE ended__a');
    await world.change(change);
    assert.equal(await databases('ended'), 'ended__a 2, ended__b 2');
  });

  test('stay when a database of their name is not created, dropped or renamed', async () => {
    const { ours } = await catalogs('lake');
    const database = { catalog: ours, database: 'c' };
    assert.match(await refusal({ kind: 'createDatabase', database }), isTaken);
    // So a creation is undone of which nobody knows whether it was made.
    await world.change({ kind: 'dropDatabase', database });
    await world.change({ kind: 'hideDatabase', database, tables: [] });
    await world.change({ kind: 'renameDatabase', database, newName: 'd', tables: [] });
    const table = { ...database, table: 'u' };
    assert.match(await refusal({ kind: 'createTable', table, definition }), /^CHANGE_IN_PROGRESS/);
    assert.equal(await databases('lake'), 'lake__a 2, lake__b 2, lake__c 2');
  });

  test('are not in the check or in a snapshot of the catalog', async () => {
    const { ours } = await catalogs('checked');
    const { tables } = await world.engine.compareTables(ours, [], { signal });
    assert.deepEqual(tables.map(({ database }) => database).sort(), ['a', 'b']);
    const snapshot = await world.engine.snapshot(ours, { signal, purpose: 'other catalogs' });
    const fixed = "SELECT count() FROM system.tables WHERE startsWith(name, 'load_snapshot_')";
    // On whichever node they are read.
    const counts = await Promise.all(ring.nodes.map((node) => askNode(node, fixed)));
    assert.deepEqual(counts.toSorted(), ['0', '2']);
    await snapshot.close();
  });

  test('without a comment belong to nobody', async () => {
    const { ours } = await catalogs('manual');
    for (const node of ring.nodes) await askNode(node, 'CREATE DATABASE manual__d');
    assert.match(await refusal({ kind: 'createDatabase', database: { catalog: ours, database: 'd' } }), isTaken);
    await world.change({ kind: 'dropCatalog', catalog: ours });
    assert.equal(await databases('manual'), 'manual__c 2, manual__d 0');
  });

  test('without a comment, as earlier builds created them, keep tables from being said to be dropped', async () => {
    const { ours } = await catalogs('early');
    const database = { catalog: ours, database: 'e' };
    const [table, view] = [
      { ...database, table: 't' },
      { ...database, view: 'v' },
    ];
    await create(world, ours, 'e');
    await world.change({ kind: 'createView', view, sql: 'SELECT a FROM t' });
    const onEach = async (...statements: readonly string[]) => {
      for (const node of ring.nodes) for (const sql of statements) await askNode(node, sql);
    };
    const moveTo = async (comment: string) =>
      onEach(
        `CREATE DATABASE moving ENGINE = Atomic ${comment}`,
        'RENAME TABLE early__e.t TO moving.t, early__e.t__local TO moving.t__local, early__e.v TO moving.v',
        'DROP DATABASE early__e',
        'RENAME DATABASE moving TO early__e',
      );
    await moveTo('');
    const changes: Change[] = [
      { kind: 'createTable', table: { ...database, table: 'u' }, definition },
      { kind: 'createView', view: { ...database, view: 'w' }, sql: 'SELECT 1 AS a' },
      { kind: 'dropView', view },
      { kind: 'hideTable', table, id: randomUUID() },
      { kind: 'dropTable', table },
    ];
    for (const change of changes) assert.match(await refusal(change), isTaken, change.kind);
    // What was refused is undone.
    await world.change({ kind: 'dropTable', table: { ...database, table: 'u' } });
    assert.match(await databases('early'), /early__e 2$/);
    await moveTo(`COMMENT 'Tabularium catalog ${ours.id}'`);
    await world.change({ kind: 'dropView', view });
    await world.change({ kind: 'dropTable', table });
    assert.match(await databases('early'), /early__e 0$/);
  });

  describe('on a backend that is decommissioned', () => {
    const servers = (): RegisteredServers => {
      assert.ok(world.engine.servers);
      return world.engine.servers;
    };
    const disable = async (...backends: string[]) => {
      disabled.clear();
      for (const backend of backends) disabled.add(backend);
      await Promise.all([world, other].map(({ engine }) => engine.servers?.refresh()));
      await eventually('the nodes are available', () =>
        ['node1', 'node2'].every(
          (name) => disabled.has(name) || world.engine.status(name).availability === 'available',
        ),
      );
    };
    const onSecond = (name: string) =>
      askNode(
        ring.nodes[1],
        `SELECT name FROM system.databases WHERE startsWith(name, '${name}__') ORDER BY name FORMAT TSVRaw`,
      );

    test('stay, and do not count', async () => {
      const { ours } = await catalogs('left');
      for (const catalog of world.catalogs.filter(({ id }) => id !== ours.id))
        await world.change({ kind: 'dropCatalog', catalog });
      world.catalogs.splice(0, world.catalogs.length, ours);
      await disable('node2');
      assert.equal(await servers().tableCount('node2', { signal }), 2);
      await servers().dropTables('node2', { signal, confirm });
      assert.equal(await onSecond('left'), 'left__c');
      assert.equal(await servers().tableCount('node2', { signal }), 0);
    });

    test('hold it if the catalog has their tables by its definition, and nothing says whose they are', async () => {
      const [ours] = world.catalogs as [CatalogRef];
      await askNode(ring.nodes[1], 'CREATE DATABASE left__a');
      await askNode(ring.nodes[1], 'CREATE TABLE left__a.t__local ENGINE = MergeTree ORDER BY () AS SELECT 3 AS a');
      const name = { catalog: ours.name, database: 'a', table: 't' };
      defined.set(JSON.stringify(name), { name, isView: false });
      assert.equal(await servers().tableCount('node2', { signal }), 1);
      const { remainingTablets, blockers } = await servers().drainState('node2', { signal });
      assert.equal(remainingTablets, 1);
      assert.match(blockers.map(({ message }) => message).join(), /does not say that it belongs to a catalog/);
      await assert.rejects(servers().dropTables('node2', { signal, confirm }), { code: 'CHANGE_IN_PROGRESS' });
      assert.equal(await askNode(ring.nodes[1], 'SELECT a FROM left__a.t__local'), '3');
      defined.clear();
      assert.equal(await servers().tableCount('node2', { signal }), 0);
    });
  });
});
