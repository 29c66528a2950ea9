// Changes of definitions while another process brings a server back, on 24.8: what was dropped meanwhile is not there again.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { parseError, serverFailure } from '../../../../src/engines/clickhouse/connection/clickhouse_error.ts';
import type { EngineWarehouse } from '../../../../src/engines/port/engine.ts';
import { rowReader } from '../../../../src/query/rows/row_validation.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { definitionOf, type EngineWorld, openEngine } from '../../../conformance/engine/engine_world.ts';
import { eventually } from '../../../deadline.ts';
import { accessTo, engineOn } from '../engine.ts';
import { type CuttingProxy, startCuttingProxy } from '../ring/cutting_proxy.ts';
import { otherProcess } from './other_process.ts';
import { clusterName, missingOldestVersion, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const definition = definitionOf({ id: 'BIGINT' });
/** Longer than servers are compared again and again, and shorter than a call may take. */
const slowMs = 6000;
const { signal } = new AbortController();

describe('a change while another process brings a server back', { skip: missingOldestVersion }, () => {
  let ring: ReplicatedRing;
  let proxies: CuttingProxy[];
  let world: EngineWorld;
  let table = '';

  before(async () => {
    ring = await startReplicatedRing({ version: '24.8', sessionMs: 10_000 });
    proxies = await Promise.all(ring.servers.map(({ url }) => startCuttingProxy(url)));
    world = await openEngine({}, engineOn(accessTo(proxies, clusterName), proxies));
  });
  after(async () => {
    await world?.close();
    for (const proxy of proxies ?? []) proxy.close();
    await ring?.close();
  });

  const ask = async (index: number, body: string) => {
    const response = await fetch(ring.servers[index]?.url ?? '', { method: 'POST', body });
    const text = (await response.text()).trim();
    assert.equal(response.status, 200, text);
    return text;
  };
  const available = (engine: EngineWarehouse, count: number) =>
    eventually(`${count} servers are available`, () =>
      ring.servers.slice(0, count).every((_, i) => engine.status(`node${i + 1}`).availability === 'available'),
    );
  /** The databases and names of the table and its local one on a server. */
  const tablesOn = (index: number) =>
    ask(
      index,
      `SELECT database, name FROM system.tables WHERE startsWith(name, '${table}') ORDER BY name FORMAT TSVRaw`,
    );

  /** A table that the third server lacks. */
  beforeEach(async () => {
    table = `t${randomUUID().slice(0, 8)}`;
    await available(world.engine, 3);
    const { catalog, database } = world;
    await world.change({ kind: 'createTable', table: { catalog, database, table }, definition });
    const database3 = await ask(2, `SELECT database FROM system.tables WHERE name = '${table}' FORMAT TSVRaw`);
    for (const name of [table, `${table}__local`]) await ask(2, `DROP TABLE \`${database3}\`.${name} SYNC`);
    assert.equal(await tablesOn(2), '');
  });

  /** Another process, which checks the third server when the others count. `atReturn`: before. */
  async function bringBack(atReturn: (third: CuttingProxy) => void, whenBack: () => Promise<void>) {
    const servers = await Promise.all(ring.servers.map(({ url }) => startCuttingProxy(url)));
    const [, , third] = servers;
    assert.ok(third);
    third.cutAt(/(?:)/);
    const other = otherProcess(world, servers);
    try {
      await other.start();
      await available(other, 2);
      third.mend();
      atReturn(third);
      await available(other, 3);
      await whenBack();
    } finally {
      await other.stop();
      for (const server of servers) server.close();
    }
  }

  const tableRef = () => ({ catalog: world.catalog, database: world.database, table });
  const changes = {
    'is dropped': { verb: 'DROP', change: () => world.change({ kind: 'dropTable', table: tableRef() }) },
    'is hidden': {
      verb: 'RENAME',
      change: () => world.change({ kind: 'hideTable', table: tableRef(), id: randomUUID() }),
    },
  };
  for (const [what, { verb, change }] of Object.entries(changes)) {
    test(`a table that ${what} before it is created on the server`, async () => {
      let isChanged = false;
      const hold = (third: CuttingProxy) =>
        third.holdOnce(new RegExp(`CREATE TABLE [^;]*${table}__local`), async () => {
          await change();
          isChanged = true;
        });
      await bringBack(hold, async () => assert.ok(isChanged));
      for (const index of [0, 1, 2]) assert.equal(await tablesOn(index), '', `server ${index + 1}`);
    });

    test(`a table that ${what} while it is created on the server`, async () => {
      const created = Promise.withResolvers<void>();
      let changing: Promise<unknown> | undefined;
      for (const proxy of proxies.slice(0, 2))
        proxy.holdOnce(new RegExp(`${verb} TABLE [^;]*${table}__local`), () => created.promise);
      const begin = () => {
        changing = change();
      };
      await bringBack(begin, async () => {
        assert.notEqual(await tablesOn(2), '');
        created.resolve();
        await changing;
      });
      for (const index of [0, 1, 2]) assert.equal(await tablesOn(index), '', `server ${index + 1}`);
    });
  }

  test('a table that is dropped long before it is created on the server', async () => {
    const { change } = changes['is dropped'];
    const hold = (third: CuttingProxy) =>
      third.holdOnce(new RegExp(`CREATE TABLE [^;]*${table}__local`), async () => {
        await change();
        await pause(slowMs);
      });
    await bringBack(hold, async () => {
      for (const index of [0, 1, 2]) assert.equal(await tablesOn(index), '', `server ${index + 1}`);
    });
  });

  test('a view that is replaced while an earlier one is dropped on the server', async () => {
    const { catalog, database } = world;
    const view = { catalog, database, view: `v${table}` };
    const shown = (n: number) => `SELECT ${n} AS shown`;
    await world.change({ kind: 'createView', view, sql: shown(2) });
    const stored = `\`${await databaseOf()}\`.${view.view}`;
    await ask(2, `CREATE OR REPLACE VIEW ${stored} AS ${shown(1)}`);
    const hold = (third: CuttingProxy) =>
      third.holdOnce(new RegExp(`DROP TABLE [^;]*${view.view}`), async () => {
        await world.change({ kind: 'replaceView', view, sql: shown(3) });
        await pause(slowMs);
      });
    await bringBack(hold, async () => {
      for (const index of [0, 1, 2])
        assert.equal(await ask(index, `SELECT shown FROM ${stored}`), '3', `server ${index + 1}`);
    });
  });

  const insert = (engine: EngineWarehouse, ids: readonly number[]) =>
    engine.insertRows(tableRef(), rowReader(definition.columns).read(ids.map((id) => [id])), { signal, definition });
  const rows = async (count: number) => {
    for (const index of [0, 1, 2]) {
      const names = `database = '${await databaseOf()}' AND name = '${table}__local'`;
      await eventually(`the rows of server ${index + 1}`, async () => {
        const found = await ask(index, `SELECT total_rows FROM system.tables WHERE ${names}`);
        return found === String(count);
      });
    }
  };
  const databaseOf = () => ask(0, `SELECT database FROM system.tables WHERE name = '${table}' FORMAT TSVRaw`);

  const replace = (engine: EngineWarehouse, step: string) => {
    const path = join(world.spool, `${randomUUID()}.csv`);
    writeFileSync(path, 'id\n7\n');
    const file = { path, format: 'csv', csv: {} } as const;
    const rejectsPath = join(world.spool, `${randomUUID()}.rejects`);
    const work = { table: tableRef(), definition, file, errorsMax: 0, dryRun: false, rejectsPath, step };
    return engine.load({ ...work, mode: 'replace' }, { ...admissionRequest, signal });
  };
  const late = {
    'a truncate': {
      statement: 'TRUNCATE TABLE',
      run: (engine: EngineWarehouse, step: string) =>
        engine.apply({ kind: 'truncateTable', table: tableRef() }, { step, signal }),
      rowsLeft: 0,
    },
    'a load that replaces rows': { statement: 'REPLACE PARTITION', run: replace, rowsLeft: 1 },
  };
  for (const [what, { statement, run, rowsLeft }] of Object.entries(late))
    test(`${what} that one process has sent to a replica arrives after another one has done it on another replica`, async () => {
      const others = await Promise.all(ring.servers.map(({ url }) => startCuttingProxy(url)));
      const other = otherProcess(world, others);
      others[2]?.cutAt(/(?:)/);
      await other.start();
      const released = Promise.withResolvers<void>();
      try {
        await available(other, 2);
        others[2]?.mend();
        // The third server is given what it lacks.
        await available(other, 3);
        await available(world.engine, 3);
        await insert(other, [1, 2, 3]);
        const held = Promise.withResolvers<void>();
        for (const proxy of proxies)
          proxy.holdOnce(new RegExp(`(?=.*${table}__local)(?=.*${statement})`, 's'), () => {
            held.resolve();
            return released.promise;
          });
        const step = randomUUID();
        const first = run(world.engine, step).then(
          () => 'done',
          (error: unknown) => String(error),
        );
        await held.promise;
        await run(other, step);
        await insert(other, [4, 5]);
        await rows(rowsLeft + 2);
        released.resolve();
        await first;
        await rows(rowsLeft + 2);
      } finally {
        released.resolve();
        for (const proxy of proxies) proxy.mend();
        await other.stop();
        for (const proxy of others) proxy.close();
      }
    });

  const created = (name: string) => ({ ...tableRef(), table: name });
  /** The different paths of the replicas of a table. */
  const pathsOf = async (name: string) => {
    const sql = `SELECT zookeeper_path FROM system.replicas WHERE table = '${name}__local' FORMAT TSVRaw`;
    const paths = await Promise.all(ring.servers.map((_, index) => ask(index, sql)));
    return new Set(paths);
  };

  test('a creation that arrives at a replica after another process has undone it leaves no table there', async () => {
    const name = `late_${table}`;
    const others = await Promise.all(ring.servers.map(({ url }) => startCuttingProxy(url)));
    const other = otherProcess(world, others);
    await other.start();
    const released = Promise.withResolvers<void>();
    try {
      await available(other, 3);
      await available(world.engine, 3);
      const held = Promise.withResolvers<void>();
      proxies[1]?.holdOnce(new RegExp(`CREATE TABLE [^;]*${name}__local`), () => {
        held.resolve();
        return released.promise;
      });
      const step = randomUUID();
      const first = world.engine
        .apply({ kind: 'createTable', table: created(name), definition }, { step, signal })
        .then(() => assert.fail('it succeeded'), String);
      await Promise.race([held.promise, first.then(assert.fail)]);
      const undo = { step: `${step}/undo`, undoes: step, signal };
      await other.apply({ kind: 'dropTable', table: created(name) }, undo);
      released.resolve();
      await first;
      assert.deepEqual(await pathsOf(name), new Set(['']));
    } finally {
      released.resolve();
      for (const proxy of proxies) proxy.mend();
      await other.stop();
      for (const proxy of others) proxy.close();
    }
  });

  test('what another creation has left on a replica is replaced', async () => {
    const name = `left_${table}`;
    await available(world.engine, 3);
    const database = await databaseOf();
    const engine = `ReplicatedMergeTree('/tabularium/${randomUUID()}/{shard}', '{replica}')`;
    await ask(1, `CREATE TABLE \`${database}\`.${name}__local (other String) ENGINE = ${engine} ORDER BY ()`);
    const step = randomUUID();
    const change = { kind: 'createTable', table: created(name), definition } as const;
    await world.engine.apply(change, { step, signal });
    const paths = await pathsOf(name);
    assert.equal(paths.size, 1);
    const batch = () => rowReader(definition.columns).read([[1], [2]]);
    await world.engine.insertRows(created(name), batch(), { signal, definition });
    // Again, by the same change.
    await world.engine.apply(change, { step, signal });
    assert.deepEqual(await pathsOf(name), paths);
    for (const index of [0, 1, 2])
      await eventually(`the rows of server ${index + 1}`, async () => {
        const sql = `SELECT total_rows FROM system.tables WHERE database = '${database}' AND name = '${name}__local'`;
        return (await ask(index, sql)) === '2';
      });
  });

  test('an ALTER that a replica takes only when it has carried out an earlier one is 503', async () => {
    const database = await ask(0, `SELECT database FROM system.tables WHERE name = '${table}' FORMAT TSVRaw`);
    const local = `\`${database}\`.${table}__local`;
    await ask(1, `SYSTEM STOP REPLICATION QUEUES ${local}`);
    try {
      await ask(0, `ALTER TABLE ${local} ADD COLUMN earlier Int32 SETTINGS alter_sync = 1`);
      const body = `ALTER TABLE ${local} ADD COLUMN later Int32 SETTINGS alter_sync = 0`;
      const response = await fetch(ring.servers[1]?.url ?? '', { method: 'POST', body });
      const failure = serverFailure(parseError(await response.text()));
      assert.ok(failure instanceof Failure, String(failure));
      assert.deepEqual([failure.code, failure.outcome], ['WAREHOUSE_BUSY', 'notApplied']);
    } finally {
      await ask(1, `SYSTEM START REPLICATION QUEUES ${local}`);
    }
  });
});
