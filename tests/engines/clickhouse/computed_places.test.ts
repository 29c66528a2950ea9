// Which inserts leave the shard or the partition of their rows to a default that is computed anew by each attempt.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { haveComputedPlaces } from '../../../src/engines/clickhouse/rows/computed_places.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { definitionOf } from '../../conformance/engine/engine_world.ts';

const shards = { isReplicated: true, shardCount: 2, replicasOfShard: 2 };
const replicas = { ...shards, shardCount: 1 };
const copies = { isReplicated: false, shardCount: 1, replicasOfShard: 2 };

function table(defaultValue: string, keys: Partial<TableDefinition> = {}): TableDefinition {
  const { columns, ...rest } = definitionOf({ a: 'INT', t: 'DATETIME' }, keys);
  return { ...rest, columns: columns.map((column) => (column.name === 't' ? { ...column, defaultValue } : column)) };
}

/** Rows of the first column, or of both. */
const rowsOf = ({ columns }: TableDefinition, count: 1 | 2) =>
  rowReader(columns.slice(0, count)).read([count === 1 ? [1] : [1, '2026-01-31T10:00:00']]);
const isComputed = (cluster: typeof shards, definition: TableDefinition, count: 1 | 2 = 1) =>
  haveComputedPlaces(cluster, definition, rowsOf(definition, count));

test('a default by which rows are spread over shards, unless they have a value', () => {
  assert.ok(isComputed(shards, table('now()')));
  assert.equal(isComputed(shards, table('now()'), 2), false);
  assert.equal(isComputed(replicas, table('now()')), false);
  assert.equal(isComputed(shards, table('now()', { primaryKey: ['a'] })), false);
  assert.ok(isComputed(shards, table('now()', { primaryKey: ['a'], distribution: { by: ['t'], buckets: 1 } })));
});

test('a default by which rows are partitioned, on any cluster', () => {
  assert.ok(isComputed(replicas, table('today()', { partitionBy: ['t'] })));
  assert.equal(isComputed(replicas, table('today()', { partitionBy: ['a'] })), false);
});

test('any default where each copy would have a value of its own', () => {
  assert.ok(isComputed(copies, table('now()', { primaryKey: ['a'] })));
  assert.equal(isComputed({ ...copies, replicasOfShard: 1 }, table('now()')), false);
});

test('a row that leaves it out, beside others that do not', () => {
  const definition = table('now()');
  const batch = { ...rowsOf(definition, 2), omitted: [{ column: 1, rows: [0] }] };
  assert.ok(haveComputedPlaces(shards, definition, batch));
});

test('a literal is always the same', () => {
  for (const text of ['7', '-1.5e3', "'it''s now()'", ' NULL ', 'true'])
    assert.equal(isComputed(shards, table(text)), false);
  for (const text of ["concat('a', toString(rand()))", 'CURRENT_TIMESTAMP', "'a' || now()"])
    assert.ok(isComputed(shards, table(text)), text);
});
