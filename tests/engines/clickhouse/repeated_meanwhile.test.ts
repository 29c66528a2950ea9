// Two attempts of one write at the same time, as of a server that was frozen, or took too long, and of the one that has taken its work over: the
// rows are changed once. The first server reaches the node through a proxy that holds a statement back.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { TableRef } from '../../../src/engines/port/refs.ts';
import { newId } from '../../../src/model/ids.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { admissionRequest } from '../../admission_request.ts';
import {
  definitionOf,
  type EngineWorld,
  MiB,
  openEngine,
  rowsOf,
  spec,
} from '../../conformance/engine/engine_world.ts';
import { deadlineMs } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { type CuttingProxy, startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, type Ring, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT' });
const { signal } = new AbortController();

describe('a write that is repeated while an earlier attempt runs', { skip: missingRing, concurrency: true }, () => {
  let ring: Ring;
  let proxy: CuttingProxy;
  let slow: EngineWorld;
  let other: EngineWarehouse;

  before(async () => {
    ring = await startRing(1);
    proxy = await startCuttingProxy(ring.nodes[0]?.url ?? '');
    slow = await openEngine({}, engineOn(accessTo([proxy], clusters.shards), [proxy]));
    other = engineOn(accessTo(ring.nodes, clusters.shards), ring.nodes).open({
      name: 'w',
      spec: { ...spec, engine: 'clickhouse' },
      dataDirectory: slow.directory,
      spoolDirectory: slow.spool,
      observe() {},
      catalogs: async () => [slow.catalog],
    });
    await other.start();
  });
  after(async () => {
    await other?.stop();
    await slow?.close();
    proxy?.close();
    await ring?.close();
  });

  const run = async (engine: EngineWarehouse, sql: string, step: string) => {
    const statement = { sql, parameters: undefined, catalog: slow.catalog, database: slow.database };
    return await engine.execute(statement, {
      numbers: 'number',
      timeoutMs: deadlineMs(20_000),
      signal,
      resultPath: join(slow.spool, randomUUID()),
      pageBytesMax: MiB,
      step,
      analysis: await engine.analyze(statement, admissionRequest),
    });
  };
  const insert = (engine: EngineWarehouse, table: TableRef, rows: Readonly<Record<string, number>>) => {
    const steps = Object.keys(rows).map((step) => ({ step, rowCount: 1 }));
    const values = rowReader(definition.columns).read(Object.values(rows).map((a) => [a]));
    return engine.insertRows(table, values, { signal, definition, steps });
  };
  const load = (engine: EngineWarehouse, table: TableRef, step: string) => {
    const path = join(slow.spool, `${randomUUID()}.csv`);
    writeFileSync(path, 'a\n7\n8\n');
    const file = { path, format: 'csv', csv: {} } as const;
    const rejectsPath = join(slow.spool, `${randomUUID()}.rejects`);
    const work = { table, definition, file, errorsMax: 0, dryRun: false, rejectsPath, step, mode: 'append' } as const;
    return engine.load(work, { ...admissionRequest, signal });
  };

  interface Write {
    readonly run: (engine: EngineWarehouse, table: TableRef, step: string) => Promise<unknown>;
    /** Of the work that is done when it was recorded. */
    readonly statement: string;
    readonly expected: readonly (readonly number[])[];
    /** Where the first one had been recorded, if that differs. */
    readonly expectedRecorded?: readonly (readonly number[])[];
  }
  const writes: Readonly<Record<string, Write>> = {
    'INSERT ... SELECT': {
      run: (engine, { table }, step) => run(engine, `INSERT INTO "${table}" SELECT number FROM numbers(3)`, step),
      statement: 'ATTACH PARTITION',
      expected: [[0], [1], [2], [5]],
    },
    UPDATE: {
      run: (engine, { table }, step) => run(engine, `UPDATE "${table}" SET a = a + 100`, step),
      statement: 'ALTER TABLE .* UPDATE',
      expected: [[105]],
    },
    'small inserts': {
      run: (engine, table, step) => insert(engine, table, { [step]: 6 }),
      statement: 'INSERT INTO .* FORMAT',
      expected: [[5], [6]],
    },
    'inserts, repeated together with another one': {
      run: (engine, table, step) =>
        insert(engine, table, { [step]: 6, ...(engine === other ? { [randomUUID()]: 7 } : {}) }),
      statement: 'INSERT INTO .* FORMAT',
      expected: [[5], [6], [7]],
      // Whoever has put them together does them alone then.
      expectedRecorded: [[5], [6]],
    },
    loads: { run: load, statement: 'ATTACH PARTITION', expected: [[5], [7], [8]] },
  };

  /** As of a server whose clock is an hour ahead, and that has ended before it did anything. */
  async function begunAhead(step: string): Promise<void> {
    const attempt = (Date.now() + 3_600_000).toString(16).padStart(12, '0').replace(/^.{8}/, '$&-') + newId().slice(13);
    const body = `INSERT INTO _tabularium.attempts (catalog, step, attempt) VALUES ('${slow.catalog.id}', '${step}', '${attempt}')`;
    const response = await fetch(ring.nodes[0]?.url ?? '', { method: 'POST', body });
    assert.equal(response.status, 200, await response.text());
  }
  for (const [title, write] of Object.entries(writes))
    test(`${title}, begun before by a server whose clock is ahead`, async () => {
      const table = { catalog: slow.catalog, database: slow.database, table: `${title} ahead` };
      await slow.change({ kind: 'createTable', table, definition });
      await insert(slow.engine, table, { [randomUUID()]: 5 });
      const step = randomUUID();
      await begunAhead(step);
      await write.run(other, table, step);
      assert.deepEqual(await rowsOf(slow, `SELECT a FROM "${table.table}" ORDER BY a`), write.expected);
      await begunAhead(step);
      for (let n = 0; n < 2; n++) await write.run(slow.engine, table, step);
      assert.deepEqual(await rowsOf(slow, `SELECT a FROM "${table.table}" ORDER BY a`), write.expected);
    });

  const isCertain = (error: unknown) => error instanceof Failure && error.outcome !== 'unknown';
  for (const [title, write] of Object.entries(writes))
    for (const isRecorded of [false, true])
      test(`${title}, held when it is ${isRecorded ? '' : 'to be '}recorded`, async () => {
        const table = { catalog: slow.catalog, database: slow.database, table: `${title} ${isRecorded}` };
        await slow.change({ kind: 'createTable', table, definition });
        await insert(slow.engine, table, { [randomUUID()]: 5 });
        const step = randomUUID();
        const statement = isRecorded
          ? `(?=.*${write.statement})(?=.*\`${table.table}\\b)`
          : `(?=.*"pending")(?=.*${step})`;
        const held = Promise.withResolvers<void>();
        const released = Promise.withResolvers<void>();
        proxy.holdOnce(new RegExp(statement, 's'), () => {
          held.resolve();
          return released.promise;
        });
        const first = write.run(slow.engine, table, step).then(
          () => undefined,
          (error: unknown) => error,
        );
        await Promise.race([held.promise, first]);
        // Where the first one has recorded it, whoever repeats it may wait for it.
        const second = write.run(other, table, step).catch((error: unknown) => {
          if (!isRecorded) throw error;
        });
        if (!isRecorded) await second;
        released.resolve();
        const error = await first;
        assert.ok(!isCertain(error), String(error));
        await second;
        for (let n = 0; n < 2; n++) {
          const rows = await rowsOf(slow, `SELECT a FROM "${table.table}" ORDER BY a`);
          assert.deepEqual(rows, (isRecorded && write.expectedRecorded) || write.expected);
          // What is still recorded makes no difference.
          await other.settleWrites?.(slow.catalog, { signal });
        }
      });
});
