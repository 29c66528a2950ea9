// The staged rows of a load whose catalog another warehouse has on the same servers: they stay while the load is pending, however long ago they were
// staged. What loads left there that ended is removed.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { utimesSync, writeFileSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { admissionRequest } from '../../admission_request.ts';
import { definitionOf, openEngine, rowsOf, spec } from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, type RingNode, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT' });
const { signal } = new AbortController();

describe('staged rows on servers that two warehouses share', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(1);
  const [node] = ring.nodes as readonly RingNode[] as [RingNode];
  const proxy = await startCuttingProxy(node.url);
  const world = await openEngine({}, engineOn(accessTo([proxy], clusters.shards), [proxy]));
  const other = engineOn(accessTo(ring.nodes, clusters.shards), ring.nodes).open({
    name: 'other',
    spec: { ...spec, engine: 'clickhouse' },
    dataDirectory: world.directory,
    spoolDirectory: world.spool,
    observe() {},
    catalogs: async () => [],
  });
  after(async () => {
    await other.stop();
    await world.close();
    proxy.close();
    await ring.close();
  });

  async function ask(body: string): Promise<string> {
    const response = await fetch(node.url, { method: 'POST', body });
    const text = (await response.text()).trim();
    assert.equal(response.status, 200, text);
    return text;
  }
  const staged = () =>
    ask("SELECT name FROM system.tables WHERE database = '_tabularium' AND startsWith(name, 'load_') ORDER BY name");
  /** As if they were made two days ago. */
  async function age(): Promise<void> {
    const paths = await ask(
      "SELECT p FROM (SELECT if(startsWith(metadata_path, '/'), metadata_path, concat((SELECT path FROM system.disks WHERE name = 'default'), metadata_path)) AS p FROM system.tables WHERE database = '_tabularium' AND startsWith(name, 'load_'))",
    );
    const then = Date.now() / 1000 - 2 * 24 * 3600;
    for (const path of paths.split('\n')) {
      assert.ok(isAbsolute(path), path);
      utimesSync(path, then, then);
    }
    const isOld = 'countIf(metadata_modification_time < now() - INTERVAL 1 DAY) = count()';
    const sql = `SELECT ${isOld} FROM system.tables WHERE database = '_tabularium' AND startsWith(name, 'load_')`;
    assert.equal(await ask(sql), '1');
  }

  test('stay while their load is pending', async () => {
    const table = { catalog: world.catalog, database: world.database, table: 't' };
    await world.change({ kind: 'createTable', table, definition });
    const path = join(world.spool, `${randomUUID()}.csv`);
    writeFileSync(path, 'a\n7\n8\n');
    const released = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    proxy.holdOnce(/ATTACH PARTITION/, () => {
      held.resolve();
      return released.promise;
    });
    const file = { path, format: 'csv', csv: {} } as const;
    const rejectsPath = join(world.spool, 'rejects');
    const step = randomUUID();
    const work = { table, definition, file, errorsMax: 0, dryRun: false, rejectsPath, step, mode: 'append' } as const;
    const loaded = world.engine.load(work, { ...admissionRequest, signal });
    await Promise.race([held.promise, loaded]);
    const before = await staged();
    assert.match(before, /^load_/);
    await ask('CREATE TABLE _tabularium.load_ended (a Int32) ENGINE = MergeTree ORDER BY a');
    await age();
    await other.start();
    await eventually('what has ended is removed', async () => !(await staged()).includes('load_ended'), 40_000);
    assert.equal(await staged(), before);
    released.resolve();
    assert.equal((await loaded).rowsLoaded, 2);
    assert.deepEqual(await rowsOf(world, 'SELECT a FROM t ORDER BY a'), [[7], [8]]);
    assert.equal(await staged(), '');
  });
});
