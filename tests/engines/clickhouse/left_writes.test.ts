// Writes that end half done because a copy was lost in the middle, on servers that cannot replicate: the copy gets what it missed when it returns,
// also if nobody repeats the write. Before, it was never complete again, and all writes were refused.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, beforeEach, describe, test } from 'node:test';
import type { RowsBatch } from '../../../src/engines/port/rows.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { definitionOf, failureOf, openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { type CuttingProxy, startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT', b: 'STRING' });

describe('a write in which a copy was lost', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(3);
  const proxies = await Promise.all(ring.nodes.map(({ url }) => startCuttingProxy(url)));
  const [first, second, third] = proxies as [CuttingProxy, CuttingProxy, CuttingProxy];
  const world = await openEngine({}, engineOn(accessTo(proxies, clusters.copies), proxies));
  after(async () => {
    await world.close();
    for (const proxy of proxies) proxy.close();
    await ring.close();
  });
  const { engine, catalog, database } = world;
  let table = '';

  beforeEach(async () => {
    for (const proxy of proxies) proxy.mend();
    table = `t ${randomUUID().slice(0, 8)}`;
    await allAvailable();
    await world.change({ kind: 'createTable', table: { catalog, database, table }, definition });
    await world.run(`INSERT INTO "${table}" SELECT number, 'row' FROM numbers(20)`);
  });

  const availability = (n: number) => engine.status(`node${n}`).availability;
  const allAvailable = () =>
    eventually('all copies are available', () => [1, 2, 3].every((n) => availability(n) === 'available'));

  /** What each copy has, asked without the proxies. */
  async function contents(): Promise<string[]> {
    const body =
      `SELECT count(), sum(a), countIf(b = 'new') FROM "c ""1""__${database}"."${table}__local" FORMAT TSV`.replaceAll(
        '""',
        '\\"',
      );
    return Promise.all(
      ring.nodes.map(async ({ url }) => (await (await fetch(url, { method: 'POST', body })).text()).trim()),
    );
  }

  function insert(rowCount: number, step?: string): Promise<number> {
    const rows = Array.from({ length: rowCount }, (_, n) => [n, 'new']);
    const batch: RowsBatch = rowReader(definition.columns).read(rows);
    const steps = step === undefined ? [] : [{ step, rowCount }];
    const { signal } = new AbortController();
    return engine.insertRows({ catalog, database, table }, batch, { signal, definition, steps });
  }

  const writes: readonly {
    readonly what: string;
    readonly cutAt: RegExp;
    readonly write: (step?: string) => Promise<unknown>;
    readonly expected: string;
  }[] = [
    {
      what: 'DELETE',
      cutAt: /ALTER TABLE .* DELETE WHERE/,
      write: (step) => world.run(`DELETE FROM "${table}" WHERE a < 5`, { step }),
      expected: '15\t180\t0',
    },
    {
      what: 'UPDATE',
      cutAt: /ALTER TABLE .* UPDATE /,
      write: (step) => world.run(`UPDATE "${table}" SET a = a + 100 WHERE a < 5`, { step }),
      expected: '20\t690\t0',
    },
    {
      what: 'INSERT ... SELECT',
      cutAt: /ATTACH PARTITION/,
      write: (step) => world.run(`INSERT INTO "${table}" SELECT number, 'new' FROM numbers(10)`, { step }),
      expected: '30\t235\t10',
    },
    {
      what: 'insert of many rows',
      cutAt: /ATTACH PARTITION/,
      write: (step) => insert(3000, step),
      expected: `3020\t${190 + (2999 * 3000) / 2}\t3000`,
    },
  ];

  for (const { what, cutAt, write, expected } of writes) {
    test(`${what} that nobody repeats is completed on the copy when it returns`, async () => {
      second.cutAt(cutAt);
      const failure = await failureOf(write());
      assert.ok(second.isCut);
      assert.equal(failure.code, 'WAREHOUSE_FAILED');
      assert.equal((await contents())[0], expected);
      assert.notEqual((await contents())[1], expected);
      await eventually('the loss is noticed', () => availability(2) !== 'available');
      second.mend();
      await allAvailable();
      assert.deepEqual(await contents(), [expected, expected, expected]);
    });

    test(`${what} is completed by its repetition on a copy that is not complete, and done once`, async () => {
      const step = randomUUID();
      second.cutAt(cutAt);
      await failureOf(write(step));
      assert.ok(second.isCut);
      second.mend();
      await eventually('it was repeated', () =>
        Promise.all([write(step), write(step)]).then(
          () => true,
          () => false,
        ),
      );
      await allAvailable();
      assert.deepEqual(await contents(), [expected, expected, expected]);
      assert.deepEqual(await rowsOf(world, `SELECT count(*) FROM "${table}"`), [[Number(expected.split('\t')[0])]]);
    });
  }

  test('INSERT ... SELECT of the rows of a table reaches each copy', async () => {
    assert.deepEqual(await rowsOf(world, `INSERT INTO "${table}" SELECT a, 'new' FROM "${table}" WHERE a < 10`), [
      [10],
    ]);
    assert.deepEqual(await contents(), Array(3).fill('30\t235\t10'));
  });

  test('a write that is refused before it began is not done later', async () => {
    const record = /INSERT INTO `_tabularium`/;
    second.cutAt(record);
    // The record counts when most servers have it: if that was before the loss is noticed, the write would begin on them.
    for (const proxy of [first, third])
      proxy.holdOnce(record, () => eventually('the loss is noticed', () => availability(2) !== 'available'));
    const refused = { code: 'NOT_ENOUGH_BACKENDS', outcome: 'notApplied' };
    await assert.rejects(world.run(`UPDATE "${table}" SET a = a + 100`), refused);
    assert.ok(second.isCut);
    second.mend();
    await allAvailable();
    assert.deepEqual(await contents(), Array(3).fill('20\t190\t0'));
  });

  /** The record of an UPDATE that was done, as a process would leave it that ended two minutes ago, of another one. */
  async function leaveUpdate(done: string, left: string): Promise<void> {
    const columns = 'catalog, step, state, row_count, batch, payload, at';
    const copied = `INSERT INTO _tabularium.steps (${columns}) SELECT catalog, '${left}', state, row_count, 'mark ${left}', replaceAll(payload, batch, 'mark ${left}'), now('UTC') - INTERVAL 2 MINUTE FROM _tabularium.steps WHERE step = '${done}' AND state = 'pending' LIMIT 1`;
    for (const { url } of ring.nodes) assert.equal(await ask(url, copied), '');
  }
  const ask = async (url: string, body: string) => (await (await fetch(url, { method: 'POST', body })).text()).trim();

  test('a write whose process has ended is completed where no server was lost', async () => {
    await world.run(`UPDATE "${table}" SET a = a + 100`, { step: 'whole' });
    await leaveUpdate('whole', 'left');
    await eventually('it is done on each server', async () =>
      (await contents()).every((content) => content === '20\t4190\t0'),
    );
  });

  test('a change of rows that does not end keeps no other write from being completed', async () => {
    const held = table;
    const merges = async (verb: 'STOP' | 'START') => {
      const sql = `SYSTEM ${verb} MERGES "c \\"1\\"__${database}"."${held}__local"`;
      for (const { url } of ring.nodes) assert.equal(await ask(url, sql), '');
    };
    await world.run(`UPDATE "${held}" SET a = a + 100`, { step: 'first held' });
    await merges('STOP');
    try {
      await leaveUpdate('first held', 'held');
      const pending = `SELECT count() FROM system.mutations WHERE table = '${held}__local' AND NOT is_done`;
      await eventually('it is begun', async () => (await ask(ring.nodes[0]?.url ?? '', pending)) === '1');
      table = `t ${randomUUID().slice(0, 8)}`;
      await world.change({ kind: 'createTable', table: { catalog, database, table }, definition });
      await world.run(`INSERT INTO "${table}" SELECT number, 'row' FROM numbers(20)`);
      await world.run(`UPDATE "${table}" SET a = a + 100`, { step: 'first free' });
      await leaveUpdate('first free', 'free');
      await eventually('the other one is done on each server', async () =>
        (await contents()).every((content) => content === '20\t4190\t0'),
      );
      assert.equal(await ask(ring.nodes[0]?.url ?? '', pending), '1');
    } finally {
      await merges('START');
    }
  });
});
