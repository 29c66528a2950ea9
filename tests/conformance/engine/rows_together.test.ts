// Inserts that share a transaction of the real engine: rows with a step are inserted once, rows without one always.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { withGroupedInserts } from '../../../src/engines/grouped_inserts.ts';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { InsertStep, RowsBatch } from '../../../src/engines/port/rows.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { parseType } from '../../../src/model/types.ts';
import { engineOf } from '../../engines/engine_under_test.ts';
import { plain } from '../../table_definition.ts';
import { type EngineWorld, failureOf, openEngine, rowsOf } from './engine_world.ts';

const columns = [{ name: 'i', type: parseType('INT'), nullable: true }];
const definition: TableDefinition = { columns, ...plain };

const { engine } = engineOf(import.meta.url);
let world: EngineWorld;
before(async () => {
  world = await openEngine({}, engine);
});
after(() => world.close());

const batchOf = (values: readonly number[]): RowsBatch => ({
  columns,
  json: JSON.stringify(values.map((value) => [String(value)])),
  rowCount: values.length,
});

const inserting = (engine: Pick<EngineWarehouse, 'insertRows'>, table: string) => {
  const { signal } = new AbortController();
  const ref = { catalog: world.catalog, database: world.database, table };
  return (values: readonly number[], steps: readonly InsertStep[] = []) =>
    engine.insertRows(ref, batchOf(values), { signal, definition, steps });
};

test('an insert without a key is applied although the other members of its group were applied before', async () => {
  await world.table('mixed', { i: 'INT' });
  const insert = inserting(withGroupedInserts(world.engine), 'mixed');
  const keyed = (i: number, step: string) => insert([i], [{ step, rowCount: 1 }]);
  await Promise.all([keyed(1, 'mixed/1'), keyed(2, 'mixed/2')]);
  const repeated = [insert([3]), keyed(1, 'mixed/1'), keyed(2, 'mixed/2')];
  assert.deepEqual(await Promise.all(repeated), [1, 1, 1]);
  assert.deepEqual(await rowsOf(world, 'SELECT i FROM mixed ORDER BY i'), [[1], [2], [3]]);
  // New keys, known ones and none.
  assert.deepEqual(await Promise.all([insert([4, 5]), keyed(1, 'mixed/1'), keyed(6, 'mixed/6')]), [2, 1, 1]);
  assert.deepEqual(await rowsOf(world, 'SELECT i FROM mixed ORDER BY i'), [[1], [2], [3], [4], [5], [6]]);
});

test('the engine inserts nothing if all rows were inserted before, and refuses a batch of which only a part was', async () => {
  await world.table('parts', { i: 'INT' });
  const insert = inserting(world.engine, 'parts');
  const step = { step: 'parts/1', rowCount: 1 };
  assert.equal(await insert([1], [step]), 1);
  assert.equal(await insert([1], [step]), 1);
  assert.equal((await failureOf(insert([1, 2], [step]))).code, 'CHANGE_IN_PROGRESS');
  const both = [step, { step: 'parts/2', rowCount: 1 }];
  assert.equal((await failureOf(insert([1, 2], both))).code, 'CHANGE_IN_PROGRESS');
  assert.deepEqual(await rowsOf(world, 'SELECT i FROM parts'), [[1]]);
});
