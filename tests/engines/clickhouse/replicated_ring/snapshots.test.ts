// A snapshot of a catalog on replicas of 24.8 one of which is lost between the snapshot and the files: it fails, the next one
// has all rows of another replica, and they are restored exactly, once, on the replicas that are left.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { failureOf, openEngine } from '../../../conformance/engine/engine_world.ts';
import { eventually } from '../../../deadline.ts';
import { accessTo, engineOn } from '../engine.ts';
import { askNode } from '../ring/ask_node.ts';
import { clusterName, missingOldestVersion, type RingServer, startReplicatedRing } from './replicated_ring.ts';

const { signal } = new AbortController();
const stagedTables = "SELECT name FROM system.tables WHERE database = '_tabularium' AND startsWith(name, 'load_')";
const clearedMs = 60_000;

describe('a snapshot of a catalog on replicas', { skip: missingOldestVersion }, async () => {
  if (missingOldestVersion !== false) return;
  const ring = await startReplicatedRing({ version: '24.8', sessionMs: 4000 });
  const world = await openEngine({}, engineOn(accessTo(ring.servers, clusterName), ring.servers));
  after(async () => {
    await world.close();
    await ring.close();
  });
  const { engine, catalog, database, run } = world;
  const refOf = (table: string) => ({ catalog, database, table });
  const staged = (node: RingServer) => askNode(node, stagedTables);

  test('fails if its replica is lost, is taken again of another one, and is restored', async () => {
    const definition = await world.table('t', { id: 'BIGINT', note: 'STRING' });
    const { columns } = definition;
    await run("INSERT INTO t SELECT number, 'n' FROM numbers(1000)");
    await run("UPDATE t SET note = 'other' WHERE id < 10");
    const source = await engine.checksumTable({ ...refOf('t'), columns }, { signal });
    // No table is created while a replica is away.
    await world.change({ kind: 'createTable', table: refOf('restored'), definition });
    const from = { database, table: 't', columns };
    const first = await engine.snapshot(catalog, { signal, purpose: 'task' });
    const [part] = await first.parts(from, signal);
    assert.ok(part);
    const holders = await Promise.all(ring.servers.map(staged));
    const lost = ring.servers[holders.findIndex((names) => names !== '')];
    assert.ok(lost, 'one replica has the rows of the snapshot');
    await lost.kill();
    const path = join(world.spool, randomUUID());
    const { code } = await failureOf(first.write(from, part.part, path, signal));
    assert.ok(['WAREHOUSE_FAILED', 'REPLICAS_UNAVAILABLE'].includes(code), code);
    await first.close();

    const second = await engine.snapshot(catalog, { signal, purpose: 'task' });
    let rowsBefore = 0;
    for (const { part: number, rows } of await second.parts(from, signal)) {
      const file = join(world.spool, randomUUID());
      assert.equal(await second.write(from, number, file, signal), rows);
      const restoring = { table: refOf('restored'), columns, path: file, rowsBefore, rows, step: randomUUID() };
      await engine.restorePart(restoring, { signal });
      await engine.restorePart(restoring, { signal });
      rowsBefore += rows;
    }
    await second.close();
    assert.deepEqual(await engine.checksumTable({ ...refOf('restored'), columns }, { signal }), source);
    await lost.start();
    await eventually(
      'nothing is left on any server',
      async () => (await Promise.all(ring.servers.map(staged))).every((names) => names === ''),
      clearedMs,
    );
    await eventually(
      'the lost one has the rows',
      async () =>
        (await askNode(lost, "SELECT total_rows FROM system.tables WHERE name = 'restored__local'")) === '1000',
      clearedMs,
    );
  });
});
