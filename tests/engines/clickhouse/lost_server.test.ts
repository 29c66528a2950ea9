// Changes and inserts of which a server was lost: they fail with 503, and their repetition completes them, once. A step that was undone before it
// arrived does nothing.
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { withGroupedInserts } from '../../../src/engines/grouped_inserts.ts';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { TableRef } from '../../../src/engines/port/refs.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { codes } from '../../../src/standard/codes.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { definitionOf, failureOf, openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { missingRing, type RingNode, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT', b: 'STRING' });
const { signal } = new AbortController();

describe('a lost server', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(3);
  const [, second] = ring.nodes as [RingNode, RingNode];
  const world = await openEngine({}, engineOn(accessTo(ring.nodes), ring.nodes));
  after(async () => {
    await world.close();
    await ring.close();
  });
  const { engine, catalog, database } = world;
  const refOf = (table: string, into = database): TableRef => ({ catalog, database: into, table });
  const count = async (table: string, into = database) =>
    Number(((await rowsOf(world, `SELECT count(*) FROM "${table}"`, { database: into })) as [[number]])[0][0]);

  async function filled(table: string, into = database): Promise<void> {
    await world.change({ kind: 'createTable', table: refOf(table, into), definition });
    await insert(table, 20, { into });
  }

  function insert(table: string, rowCount: number, { into = database, step = '' } = {}): Promise<number> {
    const batch = rowReader(definition.columns).read(Array.from({ length: rowCount }, (_, n) => [n, `row ${n}`]));
    const steps = step === '' ? [] : [{ step, rowCount }];
    return engine.insertRows(refOf(table, into), batch, { signal, definition, steps });
  }

  const isUnavailable = async (work: Promise<unknown>) => {
    const { code } = await failureOf(work);
    assert.ok(Object.hasOwn(codes, code) && codes[code as keyof typeof codes].status === 503, code);
  };

  /** The server answers, and the warehouse knows. */
  const recovered = () =>
    eventually('all servers are available', async () => {
      try {
        await engine.tableStatistics(refOf('counted'));
        return ring.nodes.length === (await Promise.all(ring.nodes.map(({ url }) => fetch(`${url}/ping`)))).length;
      } catch (error) {
        if (error instanceof Failure || error instanceof TypeError) return false;
        throw error;
      }
    });

  test('changes that it interrupts are completed by their repetition', async () => {
    await filled('counted');
    for (const table of ['altered', 'renamed', 'hidden', 'truncated', 'dropped']) await filled(table);
    await world.change({ kind: 'createDatabase', database: { catalog, database: 'old' } });
    await filled('inside', 'old');
    const id = randomUUID();
    const to: TableDefinition = {
      ...definition,
      columns: [...definition.columns, { name: 'c', type: { kind: 'INT' }, nullable: true, defaultValue: '7' }],
    };
    const viewOf = (view: string) => ({ catalog, database, view });
    for (const view of ['replaced_view', 'renamed_view', 'dropped_view', 'following_view'])
      await world.change({ kind: 'createView', view: viewOf(view), sql: 'SELECT * FROM altered' });
    const views = [{ id: 'following', view: viewOf('following_view') }];
    const changes: readonly Change[] = [
      { kind: 'createTable', table: refOf('created'), definition },
      { kind: 'alterTable', table: refOf('altered'), from: definition, to, renamedColumns: {}, views },
      { kind: 'renameTable', table: refOf('renamed'), newName: 'afterwards', definition },
      { kind: 'hideTable', table: refOf('hidden'), id },
      { kind: 'truncateTable', table: refOf('truncated') },
      { kind: 'dropTable', table: refOf('dropped') },
      { kind: 'renameDatabase', database: { catalog, database: 'old' }, newName: 'new', tables: [] },
      { kind: 'createView', view: viewOf('created_view'), sql: 'SELECT a FROM counted' },
      { kind: 'replaceView', view: viewOf('replaced_view'), sql: 'SELECT b FROM counted' },
      { kind: 'renameView', view: viewOf('renamed_view'), newName: 'new_view', sql: 'SELECT * FROM altered' },
      { kind: 'dropView', view: viewOf('dropped_view') },
    ];
    const steps = changes.map((change) => ({ change, step: randomUUID() }));
    await second.kill();
    for (const { change, step } of steps) await isUnavailable(engine.apply(change, { step, signal }));
    await second.start();
    await recovered();
    for (const { change, step } of steps) await engine.apply(change, { step, signal });
    assert.equal(await count('created'), 0);
    assert.deepEqual(await rowsOf(world, 'SELECT count(*), sum(c) FROM altered'), [[20, 140]]);
    assert.equal(await count('afterwards'), 20);
    assert.equal(await count('truncated'), 0);
    assert.equal(await count('inside', 'new'), 20);
    for (const { url } of ring.nodes) {
      const body =
        "SELECT table || '.' || name FROM system.columns WHERE endsWith(table, '_view') ORDER BY table, position";
      const columns = await (await fetch(url, { method: 'POST', body })).text();
      assert.deepEqual(columns.split('\n').filter(Boolean), [
        'created_view.a',
        ...['following_view.a', 'following_view.b', 'following_view.c'],
        ...['new_view.a', 'new_view.b'],
        'replaced_view.b',
      ]);
    }
    for (const gone of ['renamed', 'hidden', 'dropped'])
      assert.equal((await failureOf(count(gone))).code, 'SQL_INVALID', gone);
    await world.change({ kind: 'restoreTable', table: refOf('restored'), from: database, id, definition });
    assert.equal(await count('restored'), 20);
  });

  test('an insert of which it stored no rows is completed by its repetition, once', async () => {
    await filled('received');
    await second.kill();
    await isUnavailable(insert('received', 50, { step: 'small' }));
    await isUnavailable(insert('received', 500, { step: 'large' }));
    await second.start();
    await recovered();
    for (let attempt = 0; attempt < 2; attempt++) {
      assert.equal(await insert('received', 50, { step: 'small' }), 50);
      assert.equal(await insert('received', 500, { step: 'large' }), 500);
    }
    assert.equal(await count('received'), 570);
  });

  test('an insert that was begun is completed by the question how many rows it has', async () => {
    await filled('asked');
    await second.kill();
    await isUnavailable(insert('asked', 50, { step: 'asked for' }));
    await second.start();
    await recovered();
    for (let attempt = 0; attempt < 2; attempt++) assert.equal(await engine.rowsLoadedByStep(catalog, 'asked for'), 50);
    assert.equal(await count('asked'), 70);
    assert.equal(await insert('asked', 50, { step: 'asked for' }), 50);
    assert.equal(await count('asked'), 70);
  });

  test('an insert that was begun into a table that is dropped or replaced since is refused by its repetition, and done if it is renamed', async () => {
    const tables = ['gone', 'left', 'other'];
    await Promise.all(tables.map((table) => filled(table)));
    await second.kill();
    await Promise.all(tables.map((table) => isUnavailable(insert(table, 50, { step: `into ${table}` }))));
    await second.start();
    await recovered();
    const changed = definitionOf({ a: 'INT' });
    const changes: readonly Change[] = [
      { kind: 'dropTable', table: refOf('gone') },
      { kind: 'renameTable', table: refOf('left'), newName: 'left_behind', definition },
      { kind: 'dropTable', table: refOf('other') },
      { kind: 'createTable', table: refOf('other'), definition: changed },
    ];
    for (const change of changes) await world.change(change);
    assert.equal(await engine.rowsLoadedByStep(catalog, 'into left'), 50);
    assert.equal(await insert('left', 50, { step: 'into left' }), 50);
    assert.equal(await count('left_behind'), 70);
    for (const table of ['gone', 'other']) {
      const step = `into ${table}`;
      assert.equal(await engine.rowsLoadedByStep(catalog, step), undefined, table);
      const { code } = await failureOf(insert(table, 50, { step }));
      assert.equal(code, table === 'other' ? 'CONSTRAINT_VIOLATED' : 'OBJECT_NOT_FOUND', table);
    }
    assert.equal(await count('other'), 0);
  });

  test('a write that a minority of the servers has the record of is done once', async () => {
    await filled('few');
    const others = ring.nodes.slice(1);
    for (const node of others) await node.kill();
    await isUnavailable(insert('few', 50, { step: 'few' }));
    for (const node of others) await node.start();
    await recovered();
    for (let attempt = 0; attempt < 2; attempt++) assert.equal(await insert('few', 50, { step: 'few' }), 50);
    assert.equal(await count('few'), 70);

    // The record of an UPDATE, as an attempt would leave it on the only server that it reached.
    const [first] = ring.nodes as [RingNode];
    const ask = async (body: string) => (await fetch(first.url, { method: 'POST', body })).text();
    await filled('few_changed');
    const update = 'UPDATE few_changed SET a = a + 100 WHERE a < 10';
    await world.run('UPDATE few SET a = a + 100 WHERE a < 10', { step: 'whole' });
    const payload = await ask(
      "SELECT payload FROM _tabularium.steps WHERE step = 'whole' AND state = 'pending' FORMAT TSVRaw",
    );
    const [whole, mark] = ['whole', 'few changed'].map((step) => createHash('sha256').update(step).digest('hex'));
    assert.ok(payload.includes(whole as string) && payload.includes('few__local'));
    const record = {
      catalog: catalog.id,
      step: 'few changed',
      state: 'pending',
      row_count: 10,
      batch: mark,
      payload: payload
        .trim()
        .replaceAll(whole as string, mark as string)
        .replaceAll('few__local', 'few_changed__local'),
    };
    const columns = Object.keys(record).join(', ');
    await ask(`INSERT INTO _tabularium.steps (${columns}) FORMAT JSONEachRow ${JSON.stringify(record)}`);
    for (let attempt = 0; attempt < 2; attempt++)
      assert.equal((await world.run(update, { step: 'few changed' })).rowCount, 10);
    assert.deepEqual(await rowsOf(world, 'SELECT count(*), sum(a) FROM few_changed'), [[20, 190 + 1000]]);
  });

  test('a repetition in a group completes an insert that came alone, and does not insert its rows again', async () => {
    await filled('grouped');
    await second.kill();
    await isUnavailable(insert('grouped', 50, { step: 'alone' }));
    await second.start();
    await recovered();
    const grouped = withGroupedInserts(engine);
    const insertOf = (step: string, rowCount: number) => {
      const batch = rowReader(definition.columns).read(Array.from({ length: rowCount }, (_, n) => [n, `row ${n}`]));
      return grouped.insertRows(refOf('grouped'), batch, { signal, definition, steps: [{ step, rowCount }] });
    };
    assert.deepEqual(
      await Promise.all([insertOf('first', 1), insertOf('alone', 50), insertOf('other', 3)]),
      [1, 50, 3],
    );
    assert.equal(await count('grouped'), 20 + 54);
  });

  test('a step that arrives after it was undone does nothing', async () => {
    const late = { step: randomUUID(), signal };
    await engine.apply(
      { kind: 'dropTable', table: refOf('undone') },
      { step: randomUUID(), undoes: late.step, signal },
    );
    const failure = await failureOf(engine.apply({ kind: 'createTable', table: refOf('undone'), definition }, late));
    assert.equal(failure.code, 'CHANGE_IN_PROGRESS');
    assert.equal((await failureOf(count('undone'))).code, 'SQL_INVALID');
  });

  test('the tables of a server that differ from the others are reported', async () => {
    const expected = [{ database, table: 'received', columns: definition.columns }];
    assert.deepEqual((await engine.compareTables(catalog, expected, { signal })).faults, []);
    const body = `ALTER TABLE \`c "1"__${database}\`.received__local MODIFY COLUMN a Nullable(Int64)`;
    assert.ok((await fetch(second.url, { method: 'POST', body })).ok);
    const { faults } = await engine.compareTables(catalog, expected, { signal });
    assert.deepEqual(
      faults.map(({ kind, table }) => [kind, table]),
      [['different', 'received']],
    );
  });
});
