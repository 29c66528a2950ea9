// Writes whose process ends half-way, on two shards of two replicas of 24.8: they are completed once on each shard, also if nobody repeats them,
// and whatever the replica that is asked has heard of.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { qualifiedName } from '../../../../src/engines/clickhouse/sql/identifiers.ts';
import { rowReader } from '../../../../src/query/rows/row_validation.ts';
import {
  definitionOf,
  type EngineWorld,
  failureOf,
  openEngine,
  rowsOf,
} from '../../../conformance/engine/engine_world.ts';
import { eventually } from '../../../deadline.ts';
import { accessTo, engineOn } from '../engine.ts';
import { type CuttingProxy, startCuttingProxy } from '../ring/cutting_proxy.ts';
import { otherProcess } from './other_process.ts';
import { clusterName, missingOldestVersion, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const definition = definitionOf({ a: 'INT', b: 'STRING' });
const present = 20;
const inserted = 300;
/** At the record that the step was applied. */
const recording = /INSERT INTO `_tabularium`\.`steps`[\s\S]*"state":"applied"/;

describe('a write that is interrupted on a cluster that replicates', { skip: missingOldestVersion }, () => {
  const { signal } = new AbortController();
  let ring: ReplicatedRing;
  let proxies: CuttingProxy[];
  let world: EngineWorld;
  let table = '';
  let step = '';

  before(async () => {
    ring = await startReplicatedRing({ version: '24.8', shards: [1, 1, 2, 2], sessionMs: 4000 });
    proxies = await Promise.all(ring.servers.map(({ url }) => startCuttingProxy(url)));
    world = await openEngine({}, engineOn(accessTo(proxies, clusterName), proxies));
  });
  after(async () => {
    await world?.close();
    for (const proxy of proxies ?? []) proxy.close();
    await ring?.close();
  });
  beforeEach(async () => {
    for (const proxy of proxies) proxy.mend();
    await fillTable();
  });

  async function fillTable(): Promise<void> {
    table = `t ${randomUUID().slice(0, 8)}`;
    step = randomUUID();
    await allAvailable();
    const { catalog, database } = world;
    await world.change({ kind: 'createTable', table: { catalog, database, table }, definition });
    await world.run(`INSERT INTO "${table}" SELECT number, 'row' FROM numbers(${present})`);
  }

  const allAvailable = () =>
    eventually('all servers are available', () =>
      proxies.every((_, i) => world.engine.status(`node${i + 1}`).availability === 'available'),
    );
  const ask = async (url: string, body: string) => {
    const response = await fetch(url, { method: 'POST', body });
    assert.equal(response.status, 200, body);
    return (await response.text()).trim();
  };
  async function localName(url: string): Promise<string> {
    const name = `${table}__local`;
    const database = await ask(url, `SELECT database FROM system.tables WHERE name = '${name}' FORMAT TSVRaw`);
    return qualifiedName({ database, table: name });
  }
  /** What each server has, asked without the proxies. */
  const contents = () =>
    Promise.all(
      ring.servers.map(async ({ url }) => {
        const from = await localName(url);
        return (await ask(url, `SELECT count(), sum(a) FROM ${from}`)).split('\t').map(Number);
      }),
    );
  /** Of both shards, of which the replicas have the same. */
  async function total(): Promise<number[]> {
    const [a = [], b = [], c = [], d = []] = await contents();
    assert.deepEqual([a, c], [b, d]);
    return a.map((value, i) => value + (c[i] ?? 0));
  }
  const totalBecomes = (expected: readonly number[]) =>
    eventually(`the rows are ${expected}`, async () => {
      const [a = [], b = [], c = [], d = []] = await contents();
      const sum = (one: number[], two: number[]) => one.map((value, i) => value + (two[i] ?? 0));
      return String(sum(a, c)) === String(expected) && String(sum(b, d)) === String(expected);
    });

  async function interruptedAt(pattern: RegExp, at: readonly CuttingProxy[], write: () => Promise<unknown>) {
    for (const proxy of at) proxy.cutAt(pattern);
    assert.notEqual((await failureOf(write())).code, '0');
    assert.ok(
      at.some((proxy) => proxy.isCut),
      String(pattern),
    );
    for (const proxy of at) proxy.mend();
  }

  const insert = (count = inserted) => {
    const rows = Array.from({ length: count }, (_, n) => [n, 'new']);
    const { catalog, database } = world;
    const batch = rowReader(definition.columns).read(rows);
    const steps = [{ step, rowCount: count }];
    return world.engine.insertRows({ catalog, database, table }, batch, { signal, definition, steps });
  };
  const sum = (count: number) => (count * (count - 1)) / 2;
  const update = (options = {}) => world.run(`UPDATE "${table}" SET b = 'x', a = a + 100 WHERE a % 100 < 10`, options);
  const insertSelect = (options = {}) =>
    world.run(`INSERT INTO "${table}" SELECT number, 'new' FROM numbers(${inserted})`, options);
  const withInserted = [present + inserted, sum(present) + sum(inserted)];
  const updated = [present, sum(present) + 1000];

  test('writes without a key that one shard has and the other one lacks are completed', async () => {
    const places = [];
    for (const { at, write, expected } of [
      { at: /ALTER TABLE .* UPDATE /, write: () => update(), expected: updated },
      {
        at: /ALTER TABLE .* DELETE WHERE/,
        write: () => world.run(`DELETE FROM "${table}" WHERE a < 10`),
        expected: [present - 10, sum(present) - sum(10)],
      },
      {
        at: /ATTACH PARTITION/,
        write: () => insertSelect(),
        expected: withInserted,
      },
    ]) {
      await fillTable();
      const untouched = await contents();
      await interruptedAt(at, proxies.slice(2), write);
      const changed = await contents();
      assert.deepEqual(changed.slice(2), untouched.slice(2));
      assert.notDeepEqual(changed[0], untouched[0]);
      places.push({ table, expected });
    }
    // A minute later.
    const aged = "ALTER TABLE _tabularium.steps UPDATE at = at - INTERVAL 2 MINUTE WHERE state = 'pending'";
    for (const { url } of ring.servers) await ask(url, `${aged} SETTINGS mutations_sync = 1`);
    for (const each of places) {
      table = each.table;
      await totalBecomes(each.expected);
    }
  });

  test('a replica that lacks rows is not read by servers of other shards', async () => {
    const local = await localName(ring.servers[3]?.url ?? '');
    await ask(ring.servers[3]?.url ?? '', `SYSTEM STOP FETCHES ${local}`);
    try {
      const { catalog, database } = world;
      let count = present;
      // Until another replica than this one has got rows first.
      await eventually('the replica lacks rows', async () => {
        const batch = rowReader(definition.columns).read(Array.from({ length: 50 }, (_, n) => [n, 'new']));
        await world.engine.insertRows({ catalog, database, table }, batch, { signal, definition, steps: [] });
        count += 50;
        const [, , third = [], fourth = []] = await contents();
        return String(third) !== String(fourth);
      });
      // Servers of the first shard pick a replica of the second one themselves.
      for (let n = 0; n < 20; n++) assert.deepEqual(await rowsOf(world, `SELECT count(*) FROM "${table}"`), [[count]]);
    } finally {
      await ask(ring.servers[3]?.url ?? '', `SYSTEM START FETCHES ${local}`);
    }
  });

  test('a repeated UPDATE is done once by replicas that have not heard of the first one', async () => {
    await interruptedAt(recording, proxies, () => update({ step }));
    await allAvailable();
    await totalBecomes(updated);
    for (const proxy of proxies) proxy.emptyOnce(/FROM system\.mutations/);
    assert.equal((await update({ step })).repeated, true);
    await totalBecomes(updated);
  });

  test('an insert of many rows with a key is repeated once, by two at a time, and taken along by a move', async () => {
    const expected = await total();
    const interrupted = async (at: RegExp) => {
      step = randomUUID();
      await interruptedAt(at, proxies, () => insert());
      await allAvailable();
      for (const [i, more] of [inserted, sum(inserted)].entries()) expected[i] = (expected[i] ?? 0) + more;
    };
    for (const at of [recording, /ATTACH PARTITION/]) {
      await interrupted(at);
      // The servers refuse one of two that attach the same parts in the same moment.
      await eventually('it was repeated', () =>
        Promise.all([insert(), insert()]).then(
          () => true,
          () => false,
        ),
      );
      assert.deepEqual(await total(), expected);
    }
    await interrupted(recording);
    assert.equal(await world.engine.settleWrites?.(world.catalog, { signal }), 1);
    const steps = await world.engine.recordedSteps({ catalog: world.catalog, limit: 1000 });
    assert.ok(steps.some((recorded) => recorded.step === step));
    assert.equal(await insert(), inserted);
    assert.deepEqual(await total(), expected);
  });

  for (const [what, write] of [
    ['an insert of many rows', () => insert()],
    ['INSERT ... SELECT', () => insertSelect({ step })],
  ] as const)
    test(`rows of ${what} that were deleted meanwhile do not come back, and the others stay`, async () => {
      await interruptedAt(recording, proxies, write);
      await allAvailable();
      // By another hand, before anybody completes it.
      for (const { url } of [ring.servers[0], ring.servers[2]].filter((server) => server !== undefined))
        await ask(url, `ALTER TABLE ${await localName(url)} DELETE WHERE a >= 100 SETTINGS mutations_sync = 2`);
      const expected = [present + 100, sum(present) + sum(100)];
      await totalBecomes(expected);
      await write();
      assert.deepEqual(await total(), expected);
    });

  test('an insert that another server has completed is not sent again, because its rows may be deleted meanwhile', async () => {
    const other = otherProcess(world, ring.servers);
    try {
      await other.start();
      for (const proxy of proxies) proxy.cutAt(/INSERT INTO `(?!_tabularium)/);
      const inserting = insert(3);
      await eventually('a server does not get the rows', () => proxies.some(({ isCut }) => isCut));
      for (const proxy of proxies) proxy.cutAt(/(?:)/);
      await eventually('no server is reached', () => proxies.every(({ isCut }) => isCut));
      const { catalog, database } = world;
      // Servers forget the tokens of inserts whose rows are gone: at once, or when the parts that a DELETE emptied are removed.
      const change = { kind: 'truncateTable', table: { catalog, database, table } } as const;
      await other.apply(change, { step: randomUUID(), signal });
      assert.deepEqual(await other.rowsLoadedByStep(catalog, step), 3);
      for (const proxy of proxies) proxy.mend();
      assert.equal(await inserting, 3);
      assert.equal((await total())[0], 0);
    } finally {
      await other.stop();
    }
  });
});
