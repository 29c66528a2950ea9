// Views on real servers, one and two with a part of the rows each: every server has them, they follow what they read, and a change that would
// break one does nothing. A change that is interrupted between servers is carried to its end by its repetition.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, describe, test } from 'node:test';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { ViewRef } from '../../../src/engines/port/refs.ts';
import { StaleAnalysis } from '../../../src/engines/port/statements.ts';
import type { AppliedView } from '../../../src/engines/port/views.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { admissionRequest } from '../../admission_request.ts';
import { definitionOf, failureOf, openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { deadlineMs } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { missingRing, startRing } from './ring/ring.ts';

for (const count of [1, 2])
  describe(`views on ${count} servers`, { skip: missingRing }, async () => {
    if (missingRing !== false) return;
    const world = await newWorld(count);
    definitions(world);
    statements(world);
    changes(world);
    interruptions(world);
    restores(world);
  });

type World = Awaited<ReturnType<typeof newWorld>>;

async function textOf(url: string, sql: string): Promise<string> {
  const signal = AbortSignal.timeout(deadlineMs(10_000));
  const response = await fetch(url, { method: 'POST', body: sql, signal });
  const text = (await response.text()).trimEnd();
  assert.ok(response.ok, text);
  return text;
}

async function newWorld(count: number) {
  const ring = await startRing(count);
  const world = await openEngine({}, engineOn(accessTo(ring.nodes), ring.nodes));
  after(async () => {
    await world.close();
    await ring.close();
  });
  const { engine, catalog, catalogs, database } = world;
  const other = { catalog, database: "o'ther `2`" };
  await world.change({ kind: 'createDatabase', database: other });

  const rows = (sql: string) => rowsOf(world, sql);
  const viewOf = (view: string): ViewRef => ({ catalog, database, view });
  const create = (view: string, sql: string) => world.change({ kind: 'createView', view: viewOf(view), sql });
  const dependent = (view: string) => ({ id: `id of ${view}`, view: viewOf(view) });
  const ask = (node: number, sql: string) => textOf(ring.nodes[node]?.url ?? '', sql);
  /** Of each server: its views with their columns, in the words of the server. */
  const viewsOnServers = () =>
    Promise.all(
      ring.nodes.map((_, node) =>
        ask(
          node,
          "SELECT database, name, create_table_query FROM system.tables WHERE engine = 'View' AND lower(database) != 'information_schema' ORDER BY ALL",
        ),
      ),
    );
  const requireSameOnServers = async () => {
    const [first, ...others] = await viewsOnServers();
    for (const view of others) assert.equal(view, first);
  };
  /** Twice with the same step, as recovery does. */
  async function applied(change: Change): Promise<readonly AppliedView[]> {
    const options = { step: randomUUID(), signal: new AbortController().signal };
    const first = await engine.apply(change, options);
    assert.deepEqual(await engine.apply(change, options), first);
    await requireSameOnServers();
    return first?.views ?? [];
  }
  async function filled(table: string): Promise<TableDefinition> {
    const definition = await world.table(table, { a: 'INT', b: 'STRING' });
    await world.run(`INSERT INTO "${table.replaceAll('"', '""')}" VALUES (1, 'x'), (2, 'y'), (3, NULL), (4, 'z')`);
    return definition;
  }
  const alter = (
    table: string,
    from: TableDefinition,
    to: Readonly<Record<string, string>>,
    views: readonly string[],
  ) =>
    ({
      kind: 'alterTable',
      table: { catalog, database, table },
      from,
      to: definitionOf(to),
      renamedColumns: {},
      views: views.map(dependent),
    }) as const;
  return {
    ring,
    world,
    engine,
    catalog,
    catalogs,
    database,
    other,
    rows,
    viewOf,
    create,
    dependent,
    ask,
    viewsOnServers,
    requireSameOnServers,
    applied,
    filled,
    alter,
  };
}

function definitions({
  world,
  engine,
  catalog,
  database,
  rows,
  viewOf,
  create,
  viewsOnServers,
  applied,
  filled,
}: World): void {
  test('a view is created, replaced, renamed and dropped on every server, whatever its name', async () => {
    await filled('t "1"');
    const view = viewOf('v `x` \\ "ü"');
    const sql = 'SELECT b, count(*) AS n FROM "t ""1""" GROUP BY b -- to the end';
    await applied({ kind: 'createView', view, sql });
    const quoted = `"${view.view.replaceAll('"', '""')}"`;
    // No statement can name it: servers read a backslash in a quoted name as an escape.
    assert.equal((await failureOf(rows(`SELECT n FROM ${quoted}`))).code, 'SQL_NOT_SUPPORTED');
    await applied({ kind: 'renameView', view, newName: 'v1', sql });
    assert.deepEqual(await rows('SELECT sum(n) AS n FROM v1'), [[4]]);
    await applied({ kind: 'replaceView', view: viewOf('v1'), sql: 'SELECT a FROM "t ""1""" WHERE a > 2' });
    assert.deepEqual(await rows('SELECT a FROM v1 ORDER BY a'), [[3], [4]]);
    await applied({ kind: 'renameView', view: viewOf('v1'), newName: 'V1', sql });
    assert.deepEqual(await rows('SELECT a FROM V1 ORDER BY a'), [[3], [4]]);
    await applied({ kind: 'dropView', view: viewOf('V1') });
    assert.deepEqual(new Set(await viewsOnServers()), new Set(['']));
  });

  test('a text that is no query of a view is refused, and nothing is done', async () => {
    await filled('plain');
    await create('self', 'SELECT a FROM plain');
    await create('over', 'SELECT a FROM self');
    const before = await viewsOnServers();
    const refused = {
      SQL_INVALID: [
        'SELECT nope FROM plain',
        'SELECT a FROM nope',
        'SELECT a, b AS a FROM plain',
        'SELECT a, b AS "A" FROM plain',
      ],
      SQL_NOT_SUPPORTED: ['SELECT 1; SELECT 2', 'DROP TABLE plain', 'INSERT INTO plain SELECT a, b FROM plain'],
      SQL_FORBIDDEN_FUNCTION: ['SELECT current_user AS u', "SELECT getSetting('max_threads') AS s"],
      PARAMETERS_INVALID: ['SELECT $1 AS p'],
    };
    for (const [code, texts] of Object.entries(refused))
      for (const sql of texts) {
        assert.equal((await failureOf(create('refused', sql))).code, code, sql);
        assert.equal((await failureOf(engine.readView({ sql, catalog, database }))).code, code, sql);
      }
    for (const sql of ['SELECT a FROM self', 'SELECT a FROM over'])
      assert.equal(
        (await failureOf(world.change({ kind: 'replaceView', view: viewOf('self'), sql }))).code,
        'SQL_INVALID',
        'a view cannot read itself',
      );
    assert.deepEqual(await viewsOnServers(), before);
  });
}

function statements({ ring, world, engine, rows, viewOf, create, ask, filled }: World): void {
  test('statements join views, and an analysis names what is under them', async () => {
    await filled('left');
    await filled('right');
    await create(
      'low',
      'WITH q AS (SELECT a, b FROM "left") SELECT q.a AS a, right.b AS b FROM q JOIN "right" ON q.a = "right".a',
    );
    await create('high', 'SELECT a, b FROM low WHERE a IN (SELECT a FROM "left" WHERE a > 1)');
    const all = [
      [2, 'y'],
      [3, null],
      [4, 'z'],
    ];
    assert.deepEqual(await rows('SELECT a, b FROM high ORDER BY a'), all);
    const joined = 'SELECT l.a AS a, h.b AS b FROM "left" AS l JOIN high AS h ON h.a = l.a ORDER BY a';
    assert.deepEqual(await rows(joined), all);
    assert.deepEqual(await rows('SELECT a, b FROM "left" WHERE a IN (SELECT a FROM high) ORDER BY a'), all);
    assert.deepEqual(
      await rows('SELECT h.a AS a, l.b AS b FROM high AS h LEFT JOIN low AS l ON h.a = l.a ORDER BY a'),
      all,
    );
    const { reads, views } = await engine.analyze(world.statement('SELECT a FROM HIGH'), admissionRequest);
    assert.deepEqual(reads.map(({ table }) => table).sort(), ['left', 'right']);
    assert.deepEqual(views.map(({ table }) => table).sort(), ['high', 'low']);
  });

  test('a view that somebody else redefines is not read by an earlier analysis, nor is one that is gone', async () => {
    await filled('shown');
    await filled('secret');
    await create('looked', 'SELECT a, b FROM shown');
    const statement = world.statement('SELECT a, b FROM looked');
    const analysis = await engine.analyze(statement, admissionRequest);
    const run = () => world.run(statement.sql, { analysis });
    assert.equal((await run()).rowCount, 4);
    const [stored, definition] = (
      await ask(0, "SELECT database, create_table_query FROM system.tables WHERE name = 'looked' FORMAT TSVRaw")
    ).split('\t') as [string, string];
    const onEach = (sql: string) => Promise.all(ring.nodes.map((_, node) => ask(node, sql)));
    const redefined = definition.replaceAll('shown', 'secret').replace('CREATE VIEW', 'CREATE OR REPLACE VIEW');
    await onEach(redefined);
    await assert.rejects(run(), StaleAnalysis);
    await onEach(`DROP VIEW \`${stored}\`.looked`);
    await assert.rejects(run(), StaleAnalysis);
    await onEach(definition);
    assert.equal((await run()).rowCount, 4);
    await world.change({ kind: 'dropView', view: viewOf('looked') });
  });
}

function changes({
  world,
  engine,
  rows,
  viewOf,
  create,
  dependent,
  viewsOnServers,
  applied,
  filled,
  alter,
}: World): void {
  test('views follow a table in the order of their dependencies', async () => {
    const from = await filled('base');
    await create('c1', 'SELECT * FROM base AS x WHERE x.a > 1');
    await create('c2', `SELECT c1.*, 'base, "d é".base' AS text FROM c1`);
    await create('c3', 'SELECT max(a) AS most, (SELECT count(*) FROM base) AS n FROM c2');
    const change = alter('base', from, { a: 'BIGINT', b: 'STRING', more: 'DATE' }, [
      'c3',
      'c2',
      'c1',
      'dropped meanwhile',
    ]);
    const columns = [
      { name: 'a', type: 'BIGINT' },
      { name: 'b', type: 'STRING' },
      { name: 'more', type: 'DATE' },
    ];
    const byId = new Map((await applied(change)).map(({ id, columns: of }) => [id, of]));
    assert.deepEqual([...byId.keys()], ['id of c1', 'id of c2', 'id of c3']);
    assert.deepEqual(byId.get('id of c1'), columns);
    assert.deepEqual(byId.get('id of c2'), [...columns, { name: 'text', type: 'STRING' }]);
    assert.deepEqual(byId.get('id of c3')?.[0], { name: 'most', type: 'BIGINT' });
    for (const [view, expected] of [
      ['c1', columns],
      ['c2', byId.get('id of c2')],
      ['c3', byId.get('id of c3')],
    ] as const) {
      const described = await engine.describe(world.statement(`SELECT * FROM ${view}`));
      assert.deepEqual(
        described.map(({ name, type }) => ({ name, type })),
        expected,
      );
    }
    assert.deepEqual(await rows('SELECT a, more, text FROM c2 ORDER BY a LIMIT 1'), [[2, null, 'base, "d é".base']]);
  });

  test('a change that would break views does nothing, and names them', async () => {
    const from = await filled('used');
    await create('u1', 'SELECT a, b FROM used');
    await create('u2', 'SELECT b FROM u1');
    await create('u3', 'SELECT a FROM u1');
    const before = await viewsOnServers();
    const refused = async (change: Change, broken: readonly string[]) => {
      const failure = await failureOf(world.change(change));
      assert.deepEqual([failure.code, failure.result], ['IN_USE', { broken: broken.map((view) => `id of ${view}`) }]);
    };
    await refused(alter('used', from, { a: 'INT' }, ['u3', 'u1', 'u2']), ['u1', 'u3', 'u2']);
    const replace = { kind: 'replaceView', view: viewOf('u1'), views: [dependent('u2'), dependent('u3')] } as const;
    await refused({ ...replace, sql: 'SELECT a FROM used' }, ['u2']);
    await refused({ ...replace, sql: 'SELECT a AS z FROM used' }, ['u2', 'u3']);
    assert.deepEqual(await viewsOnServers(), before);
    assert.deepEqual(await rows('SELECT a, b FROM used ORDER BY a LIMIT 1'), [[1, 'x']]);
    assert.deepEqual(await rows("SELECT b FROM u2 WHERE b = 'x'"), [['x']]);
    const views = await applied({ ...replace, sql: 'SELECT toInt64(a) AS a, b, 1 AS more FROM used' });
    assert.deepEqual(
      views.map(({ id, columns }) => [id, columns]),
      [
        ['id of u2', [{ name: 'b', type: 'STRING' }]],
        ['id of u3', [{ name: 'a', type: 'BIGINT' }]],
      ],
    );
  });
}

function interruptions({ ring, world, viewOf, create, ask, viewsOnServers, applied, filled, alter }: World): void {
  test('a change that ended between two servers is carried to its end by its repetition', async () => {
    const from = await filled('torn');
    await create('torn1', 'SELECT * FROM torn');
    await create('torn2', 'SELECT * FROM torn1');
    const last = ring.nodes.length - 1;
    const place = (
      await ask(last, "SELECT concat('`', database, '`.`', name, '`') FROM system.tables WHERE name = 'torn2'")
    ).replaceAll('\\\\', '\\');
    for (const change of [
      alter('torn', from, { a: 'INT', b: 'STRING', c: 'INT' }, ['torn1', 'torn2']),
      { kind: 'replaceView', view: viewOf('torn2'), sql: 'SELECT a, c FROM torn1' },
    ] as const) {
      const [before] = await viewsOnServers();
      const oldText = await ask(last, `SHOW CREATE VIEW ${place} FORMAT TSVRaw`);
      const first = await world.change(change);
      const [after] = await viewsOnServers();
      assert.notEqual(after, before);
      // As a server has it that the change did not reach.
      await ask(last, oldText.replace(/^CREATE VIEW/, 'CREATE OR REPLACE VIEW'));
      assert.notEqual((await viewsOnServers())[last], after);
      assert.deepEqual(await world.change(change), first);
      assert.equal((await viewsOnServers())[last], after);
    }
    await ask(last, `DROP VIEW ${place}`);
    const sql = 'SELECT a, c FROM torn1';
    await applied({ kind: 'createView', view: viewOf('torn2'), sql });
    await ask(last, `RENAME TABLE ${place} TO ${place.replace('torn2', 'torn3')}`);
    await applied({ kind: 'renameView', view: viewOf('torn2'), newName: 'torn3', sql });
    await ask(last, `DROP VIEW ${place.replace('torn2', 'torn3')}`);
    await applied({ kind: 'dropView', view: viewOf('torn3') });
  });
}

function restores({ world, catalog, catalogs, other, rows, viewsOnServers, applied }: World): void {
  test('views are restored with their database if they are valid, in any order', async () => {
    const table = { ...other, table: 'kept' };
    const definition = definitionOf({ a: 'INT' });
    await world.change({ kind: 'createTable', table, definition });
    const sqls = { a: 'SELECT * FROM b', b: 'SELECT * FROM c', c: 'SELECT * FROM kept', lost: 'SELECT * FROM gone' };
    for (const name of ['c', 'b', 'a'] as const)
      await world.change({ kind: 'createView', view: { ...other, view: name }, sql: sqls[name] });
    const id = randomUUID();
    await applied({ kind: 'hideDatabase', database: other, tables: [{ id, name: 'kept' }] });
    const to = { catalog, database: 'restored' };
    const views = Object.entries(sqls).map(([name, sql]) => ({ id: name, database: to.database, name, sql }));
    const tables = [{ id, name: 'kept', definition }];
    const restored = await applied({ kind: 'restoreDatabase', database: to, from: other.database, tables, views });
    assert.deepEqual(
      restored.map((view) => [
        view.id,
        view.sources?.map(({ name, isView }) => [name.table, isView]),
        view.columns?.length,
      ]),
      [
        ['c', [['kept', false]], 1],
        ['b', [['c', true]], 1],
        ['a', [['b', true]], 1],
        ['lost', undefined, undefined],
      ],
    );
    assert.deepEqual(await rows('SELECT a FROM restored.a'), []);
  });

  test('views are dropped with a catalog that is hidden, and created again under its new name', async () => {
    const hidden = { id: randomUUID(), name: 'away' };
    catalogs.push(hidden);
    const inHidden = { catalog: hidden, database: 'd' };
    await applied({ kind: 'createDatabase', database: inHidden });
    await applied({ kind: 'createTable', table: { ...inHidden, table: 't' }, definition: definitionOf({ a: 'INT' }) });
    await world.run('INSERT INTO away.d.t VALUES (1)');
    await applied({ kind: 'createView', view: { ...inHidden, view: 'v' }, sql: 'SELECT a FROM t' });
    await applied({ kind: 'hideCatalog', catalog: hidden });
    assert.ok((await viewsOnServers()).every((text) => !text.includes('away') && !text.includes(hidden.id)));
    const back = { ...hidden, name: 'back' };
    catalogs.splice(catalogs.indexOf(hidden), 1, back);
    const views = [{ id: 'v', database: 'd', name: 'v', sql: 'SELECT a FROM t' }];
    const [restored] = await applied({ kind: 'restoreCatalog', catalog: back, views });
    assert.deepEqual(restored?.columns, [{ name: 'a', type: 'INT' }]);
    assert.deepEqual(await rows('SELECT a FROM back.d.v'), [[1]]);
    await applied({ kind: 'dropCatalog', catalog: back });
    assert.ok((await viewsOnServers()).every((text) => !text.includes('back__d')));
  });
}
