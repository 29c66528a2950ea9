// Statements on one table read the local table of the server where that has all rows of the table and the columns that were analyzed, and the
// Distributed table otherwise. The nodes of a ring reach even themselves over the network, which shows in the plan of a Distributed table.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { namesOf } from '../../../src/engines/clickhouse/names.ts';
import { qualifiedName } from '../../../src/engines/clickhouse/sql/identifiers.ts';
import { StaleAnalysis } from '../../../src/engines/port/statements.ts';
import type { ServerIdentity } from '../../../src/model/records.ts';
import { admissionRequest } from '../../admission_request.ts';
import { definitionOf, type EngineWorld, failureOf, openEngine } from '../../conformance/engine/engine_world.ts';
import { accessTo, engineOn } from './engine.ts';
import { missingRing, type Ring, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT', b: 'STRING' });
const shards = (shardCount: number): ServerIdentity => ({
  id: 'stored',
  shard: 1,
  replica: '1',
  shardCount,
  replicaCount: 1,
  memberCount: shardCount,
  replicates: false,
});

describe('statements on one table', { skip: missingRing }, () => {
  let ring: Ring;
  let world: EngineWorld;
  let table = '';
  /** The number of shards that the stored definition has each time it is read; the last one remains. */
  let stored: number[] = [1];

  before(async () => {
    ring = await startRing(1);
    const access = accessTo(ring.nodes);
    const backends = async () => {
      const server = shards(stored[0] as number);
      if (stored.length > 1) stored.shift();
      return (await access.backends()).map((backend) => ({ ...backend, server }));
    };
    world = await openEngine({}, engineOn({ ...access, backends }, ring.nodes));
  });
  after(async () => {
    await world?.close();
    await ring?.close();
  });
  beforeEach(async () => {
    stored = [1];
    table = `t ${randomUUID().slice(0, 8)}`;
    const { catalog, database } = world;
    await world.change({ kind: 'createTable', table: { catalog, database, table }, definition });
    await world.run(`INSERT INTO "${table}" SELECT number, concat('row ', toString(number)) FROM numbers(3)`);
  });

  const ask = async (body: string) => {
    const response = await fetch(ring.nodes[0]?.url ?? '', { method: 'POST', body });
    const text = (await response.text()).trim();
    assert.equal(response.status, 200, text);
    return text;
  };
  const local = () => {
    const { database, localTable } = namesOf({ catalog: world.catalog.name, database: world.database, table });
    return qualifiedName({ database, table: localTable });
  };
  /** The columns and rows of a statement, and whether it read the Distributed table. */
  async function read(sql: string, options: Parameters<EngineWorld['run']>[1] = {}) {
    const { columns, rows, plan = '' } = await world.run(sql, { planAfterMs: 0, ...options });
    assert.equal(rows.kind, 'text');
    const names = columns.map(({ name }) => name);
    const isDistributed = /ReadFromRemote/.test(plan);
    assert.notEqual(isDistributed, /ReadFromMergeTree/.test(plan), plan);
    return { names, rows: rows.kind === 'text' ? (JSON.parse(`[${rows.text}]`) as unknown) : [], isDistributed };
  }
  const all = () => `SELECT * FROM "${table}" ORDER BY a`;
  const rows = [
    [0, 'row 0'],
    [1, 'row 1'],
    [2, 'row 2'],
  ];

  test('read the local table of a server that has all rows', async () => {
    for (let time = 0; time < 3; time++)
      assert.deepEqual(await read(all()), { names: ['a', 'b'], rows, isDistributed: false });
    const qualified = `SELECT "${table}".b AS b FROM "${table}" WHERE a IN (SELECT max(a) FROM "${table}")`;
    assert.deepEqual(await read(qualified), { names: ['b'], rows: [['row 2']], isDistributed: false });
    const aliased = await read(`SELECT x.a FROM "${table}" AS x WHERE x.a = $1`, { parameters: [1] });
    assert.deepEqual(aliased, { names: ['a'], rows: [[1]], isDistributed: false });
  });

  test('read the Distributed table for what only that has', async () => {
    const { rows: numbers, isDistributed } = await read(`SELECT _shard_num FROM "${table}" LIMIT 1`);
    assert.deepEqual([numbers, isDistributed], [[[1]], true]);
    const failure = await failureOf(world.run(`SELECT missing FROM "${table}"`));
    assert.equal(failure.code, 'SQL_INVALID');
    assert.doesNotMatch(failure.message, /__/);
  });

  test('read the Distributed table where the cluster has several shards, also if they were registered meanwhile', async () => {
    stored = [2];
    assert.deepEqual(await read(all()), { names: ['a', 'b'], rows, isDistributed: true });
    stored = [1, 2];
    assert.deepEqual(await read(all()), { names: ['a', 'b'], rows, isDistributed: true });
    stored = [1];
    assert.deepEqual(await read(all()), { names: ['a', 'b'], rows, isDistributed: false });
  });

  test('never read a local table whose columns are ahead of those that were analyzed', async () => {
    assert.equal((await read(all())).isDistributed, false);
    await ask(`ALTER TABLE ${local()} ADD COLUMN c Nullable(Int32) FIRST`);
    assert.deepEqual(await read(all()), { names: ['a', 'b'], rows, isDistributed: true });
    await ask(`ALTER TABLE ${local()} DROP COLUMN c`);
    assert.deepEqual(await read(all()), { names: ['a', 'b'], rows, isDistributed: false });
  });

  test('never read a local table that was ahead when it was first compared', async () => {
    await ask(`ALTER TABLE ${local()} ADD COLUMN c Nullable(Int32) FIRST`);
    for (let time = 0; time < 2; time++)
      assert.deepEqual(await read(all()), { names: ['a', 'b'], rows, isDistributed: true });
  });

  test('are analyzed again after a change of the table, and read its local table then', async () => {
    const analysis = await world.engine.analyze(world.statement(all()), admissionRequest);
    await world.run(all(), { analysis });
    const to = { ...definition, columns: [...definition.columns, ...definitionOf({ c: 'BIGINT' }).columns] };
    const { catalog, database } = world;
    await world.change({
      kind: 'alterTable',
      table: { catalog, database, table },
      from: definition,
      to,
      renamedColumns: {},
    });
    await assert.rejects(world.run(all(), { analysis }), StaleAnalysis);
    const changed = await read(all());
    assert.deepEqual([changed.names, changed.isDistributed], [['a', 'b', 'c'], false]);
  });

  test('do not read the local table of a table that was dropped', async () => {
    const analysis = await world.engine.analyze(world.statement(all()), admissionRequest);
    await world.run(all(), { analysis });
    const { catalog, database } = world;
    await world.change({ kind: 'dropTable', table: { catalog, database, table } });
    await assert.rejects(world.run(all(), { analysis }), StaleAnalysis);
  });
});
