// Inserts that share a transaction of the real engine: rows with a step are inserted once, rows without one always.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { InsertStep, RowsBatch } from '../../../src/engines/engine.ts';
import { withGroupedInserts } from '../../../src/engines/grouped_inserts.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { parseType } from '../../../src/model/types.ts';
import { codeOf, openWarehouse, type TestWarehouse } from '../../engines/duckdb/engine_process.ts';
import { plain } from '../../table_definition.ts';

const columns = [{ name: 'i', type: parseType('INT'), nullable: true }];
const definition: TableDefinition = { columns, ...plain };

let warehouse: TestWarehouse;
before(async () => {
  warehouse = await openWarehouse();
});
after(() => warehouse.close());

const batchOf = (values: readonly number[]): RowsBatch => ({
  columns,
  json: JSON.stringify(values.map((value) => [String(value)])),
  rowCount: values.length,
});

const inserting = (engine: Pick<TestWarehouse['engine'], 'insertRows'>, table: string) => {
  const { signal } = new AbortController();
  const ref = { catalog: warehouse.catalog, database: 'd', table };
  return (values: readonly number[], steps: readonly InsertStep[] = []) =>
    engine.insertRows(ref, batchOf(values), { signal, definition, steps });
};

test('an insert without a key is applied although the other members of its group were applied before', async () => {
  await warehouse.createTable('mixed', { i: 'INT' });
  const insert = inserting(withGroupedInserts(warehouse.engine), 'mixed');
  const keyed = (i: number, step: string) => insert([i], [{ step, rowCount: 1 }]);
  await Promise.all([keyed(1, 'mixed/1'), keyed(2, 'mixed/2')]);
  const repeated = [insert([3]), keyed(1, 'mixed/1'), keyed(2, 'mixed/2')];
  assert.deepEqual(await Promise.all(repeated), [1, 1, 1]);
  assert.deepEqual(await warehouse.rows('SELECT i FROM mixed ORDER BY i'), [[1], [2], [3]]);
  // New keys, known ones and none.
  assert.deepEqual(await Promise.all([insert([4, 5]), keyed(1, 'mixed/1'), keyed(6, 'mixed/6')]), [2, 1, 1]);
  assert.deepEqual(await warehouse.rows('SELECT i FROM mixed ORDER BY i'), [[1], [2], [3], [4], [5], [6]]);
});

test('the engine inserts nothing if all rows were inserted before, and refuses a batch of which only a part was', async () => {
  await warehouse.createTable('parts', { i: 'INT' });
  const insert = inserting(warehouse.engine, 'parts');
  const step = { step: 'parts/1', rowCount: 1 };
  assert.equal(await insert([1], [step]), 1);
  assert.equal(await insert([1], [step]), 1);
  assert.equal(await codeOf(insert([1, 2], [step])), 'CHANGE_IN_PROGRESS');
  assert.equal(await codeOf(insert([1, 2], [step, { step: 'parts/2', rowCount: 1 }])), 'CHANGE_IN_PROGRESS');
  assert.deepEqual(await warehouse.rows('SELECT i FROM parts'), [[1]]);
});
