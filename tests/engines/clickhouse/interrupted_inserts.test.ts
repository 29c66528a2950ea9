// Inserts with a key whose process ends at any of their statements, on a single server, where nobody but that process and the server knows of
// them: whoever repeats one, or moves or changes its table, has its rows once. Without a record, only the token of the insert shows that it was applied.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { qualifiedName, quoteIdentifier } from '../../../src/engines/clickhouse/sql/identifiers.ts';
import type { CatalogRef, TableRef } from '../../../src/engines/port/refs.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import {
  definitionOf,
  type EngineWorld,
  failureOf,
  openEngine,
  rowsOf,
  spec,
} from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { type CuttingProxy, startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, type Ring, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT', b: 'STRING' });
const rowCount = 300;
/** At the record that the step was applied. */
const recording = /INSERT INTO `_tabularium`\.`steps`[\s\S]*"state":"applied"/;
const publishing = /ALTER TABLE .* ATTACH PARTITION/;

/** Matches the n-th text that the pattern matches. */
class Nth extends RegExp {
  #left: number;

  constructor(pattern: RegExp, n: number) {
    super(pattern);
    this.#left = n;
  }

  override test(text: string): boolean {
    return super.test(text) && --this.#left === 0;
  }
}

describe('an insert of many rows that is interrupted', { skip: missingRing }, () => {
  const { signal } = new AbortController();
  let ring: Ring;
  let proxy: CuttingProxy;
  let world: EngineWorld;
  let table: TableRef;
  let step: string;

  before(async () => {
    ring = await startRing(1);
    proxy = await startCuttingProxy(ring.nodes[0]?.url ?? '');
    world = await openEngine({}, engineOn(accessTo([proxy], clusters.shards), [proxy]));
  });
  after(async () => {
    await world?.close();
    proxy?.close();
    await ring?.close();
  });
  beforeEach(async () => {
    const { catalog, database } = world;
    table = { catalog, database, table: `t ${randomUUID().slice(0, 8)}` };
    step = randomUUID();
    await world.change({ kind: 'createTable', table, definition });
  });

  const insert = (count = rowCount) => {
    const rows = Array.from({ length: count }, (_, n) => [n, 'new']);
    const steps = [{ step, rowCount: count }];
    return world.engine.insertRows(table, rowReader(definition.columns).read(rows), { signal, definition, steps });
  };

  /** From a statement on, which does not arrive, nothing of the insert does. */
  async function interruptedAt(pattern: RegExp, count = rowCount): Promise<void> {
    proxy.cutAt(pattern);
    assert.notEqual((await failureOf(insert(count))).code, '0');
    assert.ok(proxy.isCut, String(pattern));
    await eventually('the loss is noticed', () => world.engine.status('node1').availability !== 'available');
    proxy.mend();
    await eventually('the server is available', () => world.engine.status('node1').availability === 'available');
  }

  async function ask(sql: string): Promise<string> {
    const response = await fetch(ring.nodes[0]?.url ?? '', { method: 'POST', body: sql });
    assert.equal(response.status, 200, sql);
    return (await response.text()).trim();
  }
  async function localName(): Promise<string> {
    const name = `${table.table}__local`;
    const database = await ask(`SELECT database FROM system.tables WHERE name = '${name}' FORMAT TSVRaw`);
    return qualifiedName({ database, table: name });
  }
  const counted = async () => rowsOf(world, `SELECT count(*), count(DISTINCT a) FROM "${table.table}"`);
  const isRecorded = async (catalog: CatalogRef) =>
    (await world.engine.recordedSteps({ catalog, limit: 1000 })).some((recorded) => recorded.step === step);

  const inParts = { ...definition, partitionBy: ['b'] };
  const selected = (parts: TableRef, count: number) =>
    world.run(`INSERT INTO "${parts.table}" SELECT number, toString(number % 3) FROM numbers(${count})`);
  const given = (parts: TableRef, count: number) => {
    const rows = Array.from({ length: count }, (_, n) => [n, String(n % 3)]);
    const batch = rowReader(definition.columns).read(rows);
    return world.engine.insertRows(parts, batch, { signal, definition: inParts });
  };
  for (const [what, write, count, pattern] of [
    ['INSERT ... SELECT', selected, rowCount, new Nth(publishing, 2)],
    [`an insert of ${rowCount} rows`, given, rowCount, new Nth(publishing, 2)],
    ['an insert of 10 rows', given, 10, /INSERT INTO `c /],
  ] as const)
    test(`${what} into several partitions that nobody repeats is completed`, async () => {
      const parts = { ...table, table: `${table.table} parts` };
      await world.change({ kind: 'createTable', table: parts, definition: inParts });
      proxy.cutAt(pattern);
      assert.notEqual((await failureOf(write(parts, count))).code, '0');
      assert.ok(proxy.isCut);
      proxy.mend();
      await eventually('the server is available', () => world.engine.status('node1').availability === 'available');
      assert.equal(await world.engine.settleWrites?.(world.catalog, { signal }), 1);
      const sql = `SELECT count(*), count(DISTINCT a) FROM "${parts.table}"`;
      assert.deepEqual(await rowsOf(world, sql), [[count, count]]);
    });

  for (const pattern of [recording, publishing])
    test(`at ${pattern}: its repetition inserts the rows once, whatever the server has forgotten`, async () => {
      await interruptedAt(pattern);
      await ask(`ALTER TABLE ${await localName()} MODIFY SETTING non_replicated_deduplication_window = 0`);
      assert.equal(await insert(), rowCount);
      assert.equal(await insert(), rowCount);
      assert.deepEqual(await counted(), [[rowCount, rowCount]]);
    });

  for (const [pattern, count] of [
    [recording, rowCount],
    [recording, 10],
    [/INSERT INTO `c /, 10],
  ] as const)
    test(`of ${count} rows at ${pattern}: a move takes its rows and its step along`, async () => {
      await interruptedAt(pattern, count);
      assert.equal(await world.engine.settleWrites?.(world.catalog, { signal }), 1);
      assert.equal(await world.engine.settleWrites?.(world.catalog, { signal }), 0);
      assert.deepEqual(await counted(), [[count, count]]);
      assert.ok(await isRecorded(world.catalog));
    });

  test('one that a server does not carry out in time has failed, and nobody has cancelled it', async () => {
    const limits = { ...spec, engine: 'clickhouse' };
    const released = Promise.withResolvers<void>();
    proxy.holdOnce(/INSERT INTO `_tabularium`\.`load_/, () => released.promise);
    await world.engine.configure({ ...limits, statementTimeoutSeconds: 1 });
    try {
      await assert.rejects(insert(), { code: 'WAREHOUSE_FAILED', outcome: 'notApplied' });
    } finally {
      await world.engine.configure(limits);
      released.resolve();
    }
    assert.deepEqual(await counted(), [[0, 0]]);
  });

  test('rows of which an answer was lost are not said to be refused when their repetition is', async () => {
    const local = await localName();
    const rows = rowReader(definition.columns).read(Array.from({ length: 10 }, (_, n) => [n, 'new']));
    proxy.loseAnswerOnce(/INSERT INTO `c /, () => ask(`ALTER TABLE ${local} ADD CONSTRAINT none CHECK a < 0`));
    await assert.rejects(world.engine.insertRows(table, rows, { signal, definition }), { outcome: 'unknown' });
    assert.deepEqual(await counted(), [[10, 10]]);
  });

  for (const [what, change, expected] of [
    ['a deletion of some of its rows', () => world.run(`DELETE FROM "${table.table}" WHERE a >= 100`), 100],
    ['a deletion of all of its rows', () => world.run(`DELETE FROM "${table.table}" WHERE a >= 0`), 0],
    ['a truncation', () => world.change({ kind: 'truncateTable', table }), 0],
  ] as const)
    test(`${what} is not undone by its repetition`, async () => {
      await interruptedAt(recording);
      await change();
      assert.equal(await insert(), rowCount);
      assert.deepEqual(await counted(), [[expected, expected]]);
    });

  test('what was not published yet is in the table before its definition or its name changes', async () => {
    await interruptedAt(publishing);
    const [c] = definitionOf({ c: 'INT' }).columns;
    assert.ok(c);
    const to = { ...definition, columns: [...definition.columns, c] };
    await world.change({ kind: 'alterTable', table, from: definition, to, renamedColumns: {} });
    assert.deepEqual(await counted(), [[rowCount, rowCount]]);
    step = randomUUID();
    await interruptedAt(publishing);
    const newName = `${table.table} renamed`;
    await world.change({ kind: 'renameTable', table, newName, definition: to });
    table = { ...table, table: newName };
    assert.deepEqual(await counted(), [[2 * rowCount, rowCount]]);
  });

  test('one whose table is gone is refused to whoever repeats it, and left alone by everybody else', async () => {
    await interruptedAt(publishing);
    await world.change({ kind: 'dropTable', table });
    const states = () => ask(`SELECT arraySort(groupUniqArray(state)) FROM _tabularium.steps WHERE step = '${step}'`);
    for (let i = 0; i < 2; i++) {
      assert.equal(await world.engine.settleWrites?.(world.catalog, { signal }), 0);
      assert.equal(await states(), "['pending','refused']");
    }
    const { code, result } = await failureOf(insert());
    assert.deepEqual({ code, category: result.category }, { code: 'OBJECT_NOT_FOUND', category: 'tables' });
    assert.ok(!(await isRecorded(world.catalog)));
  });

  const dropped = () => world.change({ kind: 'dropTable', table });
  const created = { kind: 'createTable', definition } as const;
  for (const [what, change] of [
    [
      'is created under its name',
      async () => {
        await dropped();
        await world.change({ ...created, table });
      },
    ],
    [
      'is renamed to its name',
      async () => {
        await dropped();
        const other = { ...table, table: `${table.table} 2` };
        await world.change({ ...created, table: other });
        await world.change({ kind: 'renameTable', table: other, newName: table.table, definition });
      },
    ],
  ] as const)
    test(`its rows are not added to another table that ${what} when its own was dropped`, async () => {
      for (const [pattern, count] of [
        [recording, 10],
        [publishing, rowCount],
      ] as const) {
        step = randomUUID();
        await interruptedAt(pattern, count);
        await change();
        assert.equal(await world.engine.settleWrites?.(world.catalog, { signal }), 0);
        assert.deepEqual(await counted(), [[0, 0]]);
      }
    });

  test('a move waits for the statements that its process left running', async () => {
    const runs = (name: string) =>
      eventually(`${name} runs`, async () => {
        const text = await ask(`SELECT count() FROM system.processes WHERE Settings['log_comment'] = '${name}'`);
        return text === '1';
      });
    const begin = async (name: string, rows: number, into?: string) => {
      const ended = ask(
        `INSERT INTO ${into ?? (await localName())} SELECT number, 'left' FROM numbers(${rows}) WHERE sleepEachRow(0.1) = 0 SETTINGS max_block_size = 1, log_comment = '${name}'`,
      );
      ended.catch(() => undefined);
      await runs(name);
      return { ended };
    };
    const { ended } = await begin('short', 20);
    assert.equal(await world.engine.settleWrites?.(world.catalog, { signal }), 1);
    assert.deepEqual(await counted(), [[20, 20]]);
    await ended;
    await begin('endless', 600);
    const limit = new AbortController();
    const settled = world.engine.settleWrites?.(world.catalog, { signal: limit.signal });
    limit.abort();
    await assert.rejects(async () => settled);
    await ask("KILL QUERY WHERE Settings['log_comment'] = 'endless' SYNC");
    // Of another installation, with a catalog of the same name.
    const others = { database: `${world.catalog.name}__others`, table: 't__local' };
    await ask(
      `CREATE DATABASE ${quoteIdentifier(others.database)} COMMENT 'Tabularium catalog of another installation'`,
    );
    await ask(`CREATE TABLE ${qualifiedName(others)} (a Int64, b String) ENGINE = MergeTree ORDER BY a`);
    await begin('others', 600, qualifiedName(others));
    assert.equal(await world.engine.settleWrites?.(world.catalog, { signal: AbortSignal.abort() }), 0);
    await ask("KILL QUERY WHERE Settings['log_comment'] = 'others' SYNC");
  });
});
