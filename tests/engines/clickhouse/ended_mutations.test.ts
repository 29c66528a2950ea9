// Mutations that do not come to their end on the servers: they cannot be computed for some row, were killed, or may have been forgotten. They are
// never reported as done, are not begun again, which would change rows twice, and keep nothing waiting.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { TableDefinition } from '../../../src/model/records.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { Failure } from '../../../src/standard/failure.ts';
import {
  definitionOf,
  type EngineWorld,
  failureOf,
  openEngine,
  rowsOf,
} from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { type CuttingProxy, startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, type Ring, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT', b: 'STRING' });
const nodeCount = 3;
const rowCount = 20;
const mutation = /ALTER TABLE .* UPDATE /;
const ended = { code: 'WAREHOUSE_FAILED', outcome: 'unknown' };

describe('a mutation that does not come to its end', { skip: missingRing }, () => {
  const { signal } = new AbortController();
  let ring: Ring;
  let proxies: CuttingProxy[];
  let world: EngineWorld;
  let table = '';
  let step = '';

  before(async () => {
    ring = await startRing(nodeCount);
    proxies = await Promise.all(ring.nodes.map(({ url }) => startCuttingProxy(url)));
    world = await openEngine({}, engineOn(accessTo(proxies, clusters.shards), proxies));
  });
  after(async () => {
    await world?.close();
    for (const proxy of proxies ?? []) proxy.close();
    await ring?.close();
  });
  beforeEach(async () => {
    for (const proxy of proxies) proxy.mend();
    await allAvailable();
    table = `t ${randomUUID().slice(0, 8)}`;
    step = randomUUID();
    const { catalog, database } = world;
    await world.change({ kind: 'createTable', table: { catalog, database, table }, definition });
    await world.run(`INSERT INTO "${table}" SELECT number + 1, 'row' FROM numbers(${rowCount})`);
  });

  const allAvailable = () =>
    eventually('all servers are available', () =>
      proxies.every((_, i) => world.engine.status(`node${i + 1}`).availability === 'available'),
    );
  const local = () => `"c \\"1\\"__${world.database}"."${table}__local"`;
  const ofTable = () => `table = '${table}__local'`;
  async function ask(url: string, body: string): Promise<string> {
    const response = await fetch(url, { method: 'POST', body });
    const text = (await response.text()).trim();
    assert.equal(response.status, 200, text);
    return text;
  }
  const askAll = (sql: string) => Promise.all(ring.nodes.map(({ url }) => ask(url, sql)));
  const contents = () => askAll(`SELECT count(), sum(a) FROM ${local()}`);
  const second = () => ring.nodes[1]?.url ?? '';
  const update = () => world.run(`UPDATE "${table}" SET a = a + 100`, { step });
  /** How it failed, which must be with `ended`. */
  async function endOf(work: Promise<unknown>): Promise<string> {
    const error = await work.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof Failure, String(error));
    assert.deepEqual({ code: error.code, outcome: error.outcome }, ended, error.message);
    return error.message;
  }
  const isLeftAlone = async () => {
    const untouched = await contents();
    assert.equal(await world.engine.settleWrites?.(world.catalog, { signal }), 0);
    assert.deepEqual(await contents(), untouched);
    return untouched;
  };

  for (const isKeyed of [true, false])
    test(`an expression that fails for a row that came meanwhile ends it, ${isKeyed ? 'with' : 'without'} a key`, async () => {
      const bad = () => ask(second(), `INSERT INTO ${local()} (a, b) VALUES (0, 'bad')`);
      for (const proxy of proxies.slice(1, 2)) proxy.holdOnce(mutation, bad);
      const write = () => world.run(`UPDATE "${table}" SET a = a + 100 + intDiv(1, a)`, isKeyed ? { step } : {});
      const message = await endOf(write());
      assert.match(message, /could not be computed for some rows.*other rows may have been changed.*zero/is);
      // A part that was being rewritten when the mutation was killed may be completed.
      const pending = (of: string) => `(SELECT count() FROM system.${of} WHERE ${ofTable()})`;
      const sql = `SELECT ${pending('merges')} + ${pending('mutations')} - (SELECT countIf(is_done) FROM system.mutations WHERE ${ofTable()})`;
      await eventually('nothing is pending', async () => (await askAll(sql)).every((n) => n === '0'));
      const left = await isLeftAlone();
      if (isKeyed) {
        await assert.rejects(write(), { ...ended, message });
        assert.deepEqual(await contents(), left);
      }
      await world.run(`DELETE FROM "${table}" WHERE a = 0`);
      assert.equal(await ask(second(), `SELECT count() FROM ${local()} WHERE a = 0`), '0');
    });

  /** The record of an UPDATE, whose mutation did not arrive anywhere, as of a process that has ended. @returns its mark. */
  async function recorded(): Promise<string> {
    for (const proxy of proxies) proxy.cutAt(mutation);
    await failureOf(update());
    for (const proxy of proxies) proxy.mend();
    await allAvailable();
    const marks = await askAll(`SELECT any(batch) FROM _tabularium.steps WHERE step = '${step}'`);
    return marks.find((mark) => mark !== '') ?? '';
  }
  const begin = (url: string, mark: string, sync = 1) =>
    ask(url, `ALTER TABLE ${local()} UPDATE a = a + 100 WHERE 1 AND '${mark}' != '' SETTINGS mutations_sync = ${sync}`);

  test('one that is killed while its repetition waits for it is not taken for done', async () => {
    const mark = await recorded();
    await askAll(`SYSTEM STOP MERGES ${local()}`);
    const untouched = await contents();
    for (const { url } of ring.nodes) await begin(url, mark, 0);
    // It first asks whether the mutation is known, then waits.
    const waits = proxies.map(async (proxy) => {
      for (let asked = 0; asked < 2; asked++)
        await new Promise<void>((resolve) => proxy.holdOnce(/FROM system\.mutations/, async () => resolve()));
    });
    const repeated = endOf(update());
    repeated.catch(() => undefined);
    const early = repeated.then((message) => assert.fail(`it has ended before it waited: ${message}`));
    await Promise.race([Promise.all(waits), early]);
    await askAll(`KILL MUTATION WHERE ${ofTable()}`);
    await askAll(`SYSTEM START MERGES ${local()}`);
    const message = await repeated;
    await assert.rejects(update(), { ...ended, message });
    await isLeftAlone();
    assert.deepEqual(await contents(), untouched);
  });

  test('one that was done so long ago that a server has forgotten it is not done again', async () => {
    const mark = await recorded();
    for (const { url } of ring.nodes) {
      await ask(url, `ALTER TABLE ${local()} MODIFY SETTING finished_mutations_to_keep = 1`);
      await begin(url, mark);
      await ask(url, `ALTER TABLE ${local()} UPDATE b = 'x' WHERE 1 SETTINGS mutations_sync = 1`);
      // As the server does a while later.
      await ask(url, `KILL MUTATION WHERE ${ofTable()} AND position(command, '${mark}') > 0`);
    }
    const done = await contents();
    await assert.rejects(update(), ended);
    await isLeftAlone();
    assert.deepEqual(await contents(), done);
  });

  test('one that no server has received is done, once', async () => {
    await recorded();
    const [before] = [await contents()];
    assert.equal((await update()).repeated, true);
    const expected = before.map((text) => {
      const [n = 0, sum = 0] = text.split('\t').map(Number);
      return `${n}\t${sum + 100 * n}`;
    });
    assert.deepEqual(await contents(), expected);
    assert.equal((await update()).repeated, true);
    assert.deepEqual(await contents(), expected);
  });

  test('rows that a shard refuses when others may have stored theirs are not said to be absent', async () => {
    await ask(second(), `ALTER TABLE ${local()} ADD CONSTRAINT "length of b" CHECK length(b) < 2`);
    const rows = Array.from({ length: 30 }, (_, n) => [n, 'new']);
    const { catalog, database } = world;
    const batch = rowReader(definition.columns).read(rows);
    const insert = (steps: readonly { step: string; rowCount: number }[]) =>
      world.engine.insertRows({ catalog, database, table }, batch, { signal, definition, steps });
    const steps = [{ step, rowCount: rows.length }];
    await assert.rejects(insert(steps), ended);
    await isLeftAlone();
    await assert.rejects(insert([]), ended);
    await isLeftAlone();
    await ask(second(), `ALTER TABLE ${local()} DROP CONSTRAINT "length of b"`);
    assert.equal(await insert(steps), rows.length);
    const all = await askAll(`SELECT uniqExact(a), countIf(b = 'new') FROM ${local()} WHERE b = 'new'`);
    const stored = all.reduce((sum, text) => sum + Number(text.split('\t')[0]), 0);
    assert.equal(stored, rows.length);
  });

  const computed = { name: 'c', type: { kind: 'UUID' }, nullable: true, defaultValue: 'generateUUIDv4()' } as const;
  const spread = { ...definition, columns: [...definition.columns, computed] };
  const added = { ...definition, columns: [...definition.columns, { ...computed, defaultValue: 'NULL' }] };
  const cases: readonly (readonly [string, TableDefinition, TableDefinition?])[] = [
    ['their shard follows from a default, beside other columns', spread],
    ['their shard follows from a default', { ...spread, distribution: { by: ['c'], buckets: 1 } }],
    ['a column was added meanwhile', definition, added],
  ];
  for (const [what, stored, to] of cases)
    test(`rows that are repeated after a refusal are stored once, although ${what}`, async () => {
      const { catalog, database } = world;
      const ref = { catalog, database, table: `${table} again` };
      ({ table } = ref);
      await world.change({ kind: 'createTable', table: ref, definition: stored });
      await ask(second(), `ALTER TABLE ${local()} ADD CONSTRAINT "length of b" CHECK length(b) < 2`);
      const batch = rowReader(definition.columns).read(Array.from({ length: 30 }, (_, n) => [n, 'new']));
      const insert = (as: TableDefinition) =>
        world.engine.insertRows(ref, batch, { signal, definition: as, steps: [{ step, rowCount: batch.rowCount }] });
      await failureOf(insert(stored));
      await ask(second(), `ALTER TABLE ${local()} DROP CONSTRAINT "length of b"`);
      if (to) await world.change({ kind: 'alterTable', table: ref, from: stored, to, renamedColumns: {} });
      assert.equal(await insert(to ?? stored), batch.rowCount);
      const counts = await rowsOf(world, `SELECT count(*), count(DISTINCT a) FROM "${table}"`);
      assert.deepEqual(counts, [[batch.rowCount, batch.rowCount]]);
    });

  test('rows that were refused, and then begun again, are stored although nobody repeats them any more', async () => {
    await ask(second(), `ALTER TABLE ${local()} ADD CONSTRAINT "length of b" CHECK length(b) < 2`);
    const rows = Array.from({ length: 30 }, (_, n) => [n, 'new']);
    const { catalog, database } = world;
    const batch = rowReader(definition.columns).read(rows);
    const steps = [{ step, rowCount: rows.length }];
    const insert = () => world.engine.insertRows({ catalog, database, table }, batch, { signal, definition, steps });
    await assert.rejects(insert(), ended);
    await ask(second(), `ALTER TABLE ${local()} DROP CONSTRAINT "length of b"`);
    for (const proxy of proxies) proxy.cutAt(/INSERT INTO `c /);
    await failureOf(insert());
    assert.ok(proxies.some(({ isCut }) => isCut));
    for (const proxy of proxies) proxy.mend();
    await allAvailable();
    await world.engine.settleWrites?.(world.catalog, { signal });
    const stored = await askAll(`SELECT uniqExactIf(a, b = 'new') FROM ${local()}`);
    assert.equal(
      stored.reduce((sum, n) => sum + Number(n), 0),
      rows.length,
    );
  });

  test('a change of rows reports how many of its parts it has rewritten, and is not cancelled half way', async () => {
    await ask(second(), `SYSTEM STOP MERGES ${local()}`);
    const controller = new AbortController();
    const fractions: number[] = [];
    const changed = world.run(`UPDATE "${table}" SET a = a + 100`, {
      step,
      signal: controller.signal,
      progress: (fraction) => fractions.push(fraction),
    });
    await eventually('the other nodes have rewritten theirs', () => fractions.some((each) => each > 0.5 && each < 1));
    controller.abort();
    await ask(second(), `SYSTEM START MERGES ${local()}`);
    assert.equal((await changed).rowCount, rowCount);
    const sums = await askAll(`SELECT sum(a) FROM ${local()}`);
    assert.equal(
      sums.reduce((sum, each) => sum + Number(each), 0),
      (rowCount * (rowCount + 1)) / 2 + 100 * rowCount,
    );
  });

  test('one is no longer completed after its time, although that was tried meanwhile', async () => {
    await recorded();
    const untouched = await contents();
    for (const proxy of proxies) proxy.cutAt(mutation);
    const age = (days: number) =>
      askAll(
        `ALTER TABLE _tabularium.steps UPDATE at = at - INTERVAL ${days} DAY WHERE step = '${step}' SETTINGS mutations_sync = 1`,
      );
    await age(29);
    // If nobody has tried it meanwhile.
    await world.engine.settleWrites?.(world.catalog, { signal }).catch(() => undefined);
    await eventually('its completion was tried', () => proxies.some(({ isCut }) => isCut));
    const records = `SELECT count() FROM _tabularium.steps WHERE step = '${step}' AND state = 'pending'`;
    assert.ok((await askAll(records)).some((n) => Number(n) > 1));
    await age(2);
    for (const proxy of proxies) proxy.mend();
    await allAvailable();
    await isLeftAlone();
    assert.deepEqual(await contents(), untouched);
  });

  test('a change that one shard has not made for hours, because it was away, is completed when it is back', async () => {
    proxies[1]?.cutAt(mutation);
    await endOf(update());
    // As if that was some hours ago.
    await askAll(
      "ALTER TABLE _tabularium.steps UPDATE at = at - INTERVAL 5 HOUR WHERE state = 'pending' SETTINGS mutations_sync = 1",
    );
    for (const proxy of proxies) proxy.mend();
    await allAvailable();
    const sum = async () =>
      (await askAll(`SELECT sum(a) FROM ${local()}`)).reduce((total, each) => total + Number(each), 0);
    const changed = (rowCount * (rowCount + 1)) / 2 + 100 * rowCount;
    await eventually('the change is complete', async () => (await sum()) === changed, 60_000);
  });
});
