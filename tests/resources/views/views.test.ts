// Views: their allowed queries, the changes of underlying objects that they prevent, undrop, and who may read through them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Reply, start, type TestServer, uri } from '../../server.ts';
import { columns, inDefault, names, uriIn, viewsOn } from './views_world.ts';

let server: TestServer;
let world: ReturnType<typeof viewsOn>;
before(async () => {
  server = await start();
  world = viewsOn(server);
});
after(() => server.close());
const database = (name: string) => world.database(name);
const table = (path: string, name: string, rows?: number) => world.table(path, name, rows);
const view = (path: string, name: string, sql: string) => world.view(path, name, sql);
const rows = (path: string, sql: string) => world.rows(path, sql);

test('a view is created from a query, shown, listed and read', async () => {
  const path = await database('made "of" é');
  const sql = 'SELECT id, n + 1 AS "n é", x.n FROM t AS x WHERE id > 0 -- the first is none';
  const created = (await server.post(`${path}/views`, { name: 'v 1', sql, comment: 'Some' })).is(201, '0', {
    name: 'v 1',
    sql,
    comment: 'Some',
    owner: 'root',
    version: 1,
    created: true,
    columns: [
      { name: 'id', position: 1, type: 'BIGINT' },
      { name: 'n é', position: 2, type: 'INT' },
      { name: 'n', position: 3, type: 'INT' },
    ],
    dependsOn: [`${inDefault(path)}/tables/t`],
  });
  assert.equal(created.headers.location, created.at('uri'));
  const { created: _, ...shown } = created.result;
  assert.deepEqual((await server.get(created.at('uri'))).is(200).result, shown);
  (await server.post(`${path}/views`, { name: 'v 1', sql })).is(400, 'OBJECT_ALREADY_EXISTS', { category: 'views' });
  (await server.put(`${path}/views`, { name: 'v 1', sql: 'SELECT 2 AS a' })).is(201, '0', { created: false, sql });
  assert.deepEqual(await rows(path, 'SELECT * FROM "v 1" ORDER BY id'), [
    [1, 11, 10],
    [2, 21, 20],
  ]);
  (await server.get(path)).is(200, '0', { tableCount: 1, viewCount: 1 });
  assert.deepEqual(names(await server.get(`${path}/views`), 'views'), ['v 1']);
  assert.deepEqual(names(await server.get(`${path}/tables`), 'tables'), ['t']);
  assert.deepEqual(names(await server.post(`${path}/views/search`, { namePattern: 'V%' }), 'views'), ['v 1']);
  assert.deepEqual(names(await server.post(`${path}/views/search`, { comment: 'none' }), 'views'), []);
  const changed = await server.patch(uriIn(path, 'views', 'v 1'), { comment: null, expectedVersion: 1 });
  changed.is(200, '0', { comment: null, version: 2, sql });
  (await server.patch(uriIn(path, 'views', 'v 1'), { sql: 'SELECT 1 AS a', expectedVersion: 1 })).is(
    400,
    'VERSION_CONFLICT',
  );
});

test('a CREATE VIEW statement creates a view, with the names of its columns', async () => {
  const path = await database('by statement');
  const text = 'create view if not exists "by statement" . "a b" (one, "two x") as\nselect id, n from t;';
  const headers = { 'content-type': 'application/sql' };
  const created = await server.request('POST', `${path}/views/create`, { body: text, headers });
  created.is(201, '0', { name: 'a b', dependsOn: [`${inDefault(path)}/tables/t`] });
  assert.deepEqual(
    created.at<{ name: string }[]>('columns').map(({ name }) => name),
    ['one', 'two x'],
  );
  assert.deepEqual(await rows(path, 'SELECT "two x" FROM "a b" WHERE one = 1'), [[10]]);
  const requireViewRefused = async (sql: string, code: string, body: object = {}) =>
    (await server.post(`${path}/views`, { sql, ...body })).is(400, code);
  await requireViewRefused('CREATE VIEW other.v AS SELECT 1', 'INVALID_PARAMETER');
  await requireViewRefused('CREATE VIEW w AS SELECT 1', 'INVALID_PARAMETER', { name: 'v' });
  await requireViewRefused('SELECT 1', 'INVALID_PARAMETER');
  await requireViewRefused('CREATE OR REPLACE VIEW v AS SELECT 1', 'SQL_NOT_SUPPORTED');
  await requireViewRefused('CREATE TEMP VIEW v AS SELECT 1', 'SQL_NOT_SUPPORTED');
  await requireViewRefused('CREATE VIEW v', 'SQL_INVALID');
  await requireViewRefused('CREATE VIEW v AS', 'SQL_INVALID');
});

test('only a single valid query without parameters is accepted', async () => {
  const path = await database('refused queries');
  for (const [sql, code] of [
    ['DELETE FROM t', 'SQL_NOT_SUPPORTED'],
    ['INSERT INTO t VALUES (1, 2)', 'SQL_NOT_SUPPORTED'],
    ['CREATE TABLE x (a INT)', 'SQL_NOT_SUPPORTED'],
    ['SELECT 1; SELECT 2', 'SQL_NOT_SUPPORTED'],
    ['SELECT * FROM t WHERE id = $1', 'SQL_NOT_SUPPORTED'],
    ['SELECT * FROM t WHERE id = ?', 'SQL_NOT_SUPPORTED'],
    ['SELECT nope FROM t', 'SQL_INVALID'],
    ['SELECT * FROM nope', 'SQL_INVALID'],
    ['SELECT * FROM v', 'SQL_INVALID'],
    ['SELECT FROM', 'SQL_INVALID'],
    ["SELECT * FROM read_csv('/etc/passwd')", 'SQL_FORBIDDEN_FUNCTION'],
    ["SELECT * FROM query_table('t')", 'SQL_FORBIDDEN_FUNCTION'],
    ['SELECT * FROM information_schema.tables', 'SQL_FORBIDDEN_FUNCTION'],
    ['-- nothing', 'SQL_INVALID'],
  ] as const) {
    const reply = await server.post(`${path}/views`, { name: 'v', sql });
    assert.equal(reply.code, code, `${sql}: ${reply.text}`);
  }
  (await view(path, '__tabularium_x', 'SELECT 1')).is(400, 'INVALID_NAME');
  (await view(path, 'v', "SELECT 1 AS a, 'it''s ? and $1' AS b")).is(201);
  for (const sql of ['CREATE VIEW w AS SELECT 1', 'DROP VIEW v', 'ALTER VIEW v RENAME TO w']) {
    const reply = (await server.post(`${path}/query`, { sql })).is(400, 'SQL_NOT_SUPPORTED');
    assert.match(reply.message, /\bviews\b/);
  }
  for (const sql of ['INSERT INTO v VALUES (1)', 'UPDATE v SET a = 2', 'DELETE FROM v', mergeInto]) {
    const reply = (await server.post(`${path}/query`, { sql })).is(400, 'SQL_NOT_SUPPORTED');
    assert.match(reply.message, /a view cannot be written to/);
  }
  (await server.post(`${path}/tables/v/rows`, { rows: [[1]] })).is(404, 'OBJECT_NOT_FOUND');
});
const mergeInto = 'MERGE INTO v USING t ON true WHEN NOT MATCHED THEN INSERT VALUES (1, 2)';

test('names keep the meaning that they had when the view was created', async () => {
  const path = await database('names mean');
  const other = await database('names elsewhere');
  await table(path, 'Cased', 1);
  const queries = {
    own: 'WITH t AS (SELECT * FROM t WHERE id < 2) SELECT count(*) AS c FROM t, t AS u',
    recursive:
      'WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < (SELECT count(*) FROM t)) SELECT count(*) FROM r',
    nested: 'SELECT (SELECT max(n) FROM "names elsewhere".t) AS m, \'from t\' AS x, /* , t */ t.id FROM t, cased AS k',
    whole: 'SELECT t.id FROM "default" . "names mean" . t JOIN "names elsewhere".t AS o USING (id)',
    pivoted: 'SELECT * FROM (PIVOT t ON id IN (0, 1) USING sum(n))',
    folded: 'SELECT id FROM t WHERE false',
    values: 'VALUES (1, 2)',
  };
  const before: Record<string, unknown> = {};
  for (const [name, sql] of Object.entries(queries)) {
    before[name] = await rows(path, sql);
    (await view(path, name, sql)).is(201);
  }
  const dependsOn = async (name: string) => (await server.get(`${path}/views/${name}`)).at('dependsOn');
  const [t, u] = [`${inDefault(path)}/tables/t`, `${inDefault(other)}/tables/t`];
  assert.deepEqual(await dependsOn('own'), [t]);
  assert.deepEqual(await dependsOn('nested'), [u, `${inDefault(path)}/tables/Cased`, t].sort());
  assert.deepEqual(await dependsOn('folded'), [t]);
  assert.deepEqual(await dependsOn('values'), []);
  // From another namespace, in which the same names are other tables; and with views that are named like expressions.
  (await view(path, 'r', 'SELECT 1 AS i')).is(201);
  for (const name of Object.keys(queries))
    assert.deepEqual(await rows(other, `SELECT * FROM "names mean"."${name}"`), before[name], name);
});

test('tables and views share one namespace', async () => {
  const path = await database('shared names');
  (await view(path, 't', 'SELECT 1 AS a')).is(400, 'OBJECT_ALREADY_EXISTS', { category: 'tables', name: 't' });
  (await view(path, 'T', 'SELECT 1 AS a')).is(400, 'OBJECT_ALREADY_EXISTS', { category: 'tables', name: 't' });
  (await view(path, 'v', 'SELECT 1 AS a')).is(201);
  const requireTaken = (reply: Reply) => reply.is(400, 'OBJECT_ALREADY_EXISTS', { category: 'views', name: 'v' });
  requireTaken(await server.put(`${path}/tables/V`, { columns }));
  requireTaken(await server.post(`${path}/tables`, { name: 'v', asSelect: { sql: 'SELECT 1 AS a' } }));
  requireTaken(await server.post(`${path}/tables/t/rename`, { newName: 'v' }));
  requireTaken(await server.post(`${path}/tables/t/clone`, { newName: 'v' }));
  requireTaken(await server.post(`${path}/tables/t/copy_definition`, { newName: 'v' }));
  (await server.post(`${path}/views/v/rename`, { newName: 'T' })).is(400, 'OBJECT_ALREADY_EXISTS');
  // A name is available after a rename.
  (await server.delete(`${path}/tables/t`)).is(200);
  (await server.post(`${path}/views/v/rename`, { newName: 't' })).is(200, '0', { name: 't', version: 2 });
  (await server.post(`${path}/tables/undrop`, { name: 't' })).is(400, 'OBJECT_ALREADY_EXISTS', { category: 'views' });
  (await server.delete(`${path}/views/t`)).is(200);
  (await server.post(`${path}/tables/undrop`, { name: 't' })).is(200);
  (await server.post(`${path}/views/undrop`, { name: 't' })).is(400, 'OBJECT_ALREADY_EXISTS', { category: 'tables' });
  (await server.post(`${path}/views/undrop`, { name: 't', newName: 'back' })).is(200, '0', { name: 'back' });
  assert.deepEqual(await rows(path, 'SELECT a FROM back'), [[1]]);
  // Of many concurrent requests, one succeeds.
  const race = await Promise.all([
    view(path, 'raced', 'SELECT 1 AS a'),
    server.put(`${path}/tables/raced`, { columns }),
    view(path, 'RACED', 'SELECT 1 AS a'),
  ]);
  assert.equal(race.filter(({ status }) => status === 201).length, 1);
});

test('an object under a view cannot be dropped or renamed', async () => {
  const path = await database('under');
  const outsideDatabase = await database('under outside');
  (await view(path, 'a', 'SELECT id, n FROM t')).is(201);
  (await view(path, 'b', 'SELECT id FROM a')).is(201);
  (await view(outsideDatabase, 'c', 'SELECT count(*) AS c FROM under.b')).is(201);
  const [a, b] = ['a', 'b'].map((name) => `${inDefault(path)}/views/${name}`);
  const c = `${inDefault(outsideDatabase)}/views/c`;
  const inUse = (reply: Reply, ...views: unknown[]) => reply.is(400, 'IN_USE', { views: views.sort(), otherViews: 0 });
  const drops: [string, string | undefined][] = [
    [`${path}/tables/t`, a],
    [`${path}/tables/t?purge=true`, a],
    [`${path}/views/a`, b],
    [`${path}/views/b`, c],
    [`${path}?cascade=true`, c],
    [`${path}?cascade=true&purge=true`, c],
  ];
  for (const [target, dependents] of drops) inUse(await server.delete(target), dependents);
  inUse(await server.post(`${path}/tables/t/rename`, { newName: 'u' }), a);
  inUse(await server.post(`${path}/views/a/rename`, { newName: 'u' }), b);
  inUse(await server.post(`${path}/rename`, { newName: 'u' }), a, b, c);
  inUse(await server.post(`${outsideDatabase}/rename`, { newName: 'u' }), c);
  assert.match((await server.delete(`${path}/views/b`)).message, /"default"\."under outside"\."c"/);
  (await server.delete(path)).is(400, 'NOT_EMPTY');
  assert.deepEqual(await rows(outsideDatabase, 'SELECT * FROM c'), [[3]]);
  // Renamed, and dropped, starting with the views that nothing depends on.
  (await server.post(`${outsideDatabase}/views/c/rename`, { newName: 'd' })).is(200);
  (await server.delete(`${outsideDatabase}/views/d`)).is(200, '0', { deleted: true });
  (await server.delete(`${outsideDatabase}/views/d`)).is(200, '0', { deleted: false });
  (await server.delete(`${path}/views/b`)).is(200);
  (await server.post(`${path}/views/a/rename`, { newName: 'e' })).is(200);
  (await server.post(`${path}/views/e/rename`, { newName: 'E' })).is(200, '0', { name: 'E' });
  assert.deepEqual(await rows(path, 'SELECT count(*) FROM e'), [[3]]);
  (await server.delete(`${path}/views/E`)).is(200);
  (await server.post(`${path}/tables/t/rename`, { newName: 'u' })).is(200);
  (await server.post(`${path}/rename`, { newName: 'under again' })).is(200);
});

test('a catalog with views cannot be renamed, nor dropped while views of other catalogs use it', async () => {
  const catalog = uri`/catalogs/${'with views'}`;
  (await server.put(catalog)).is(201);
  (await server.put(`${catalog}/databases/d`)).is(201);
  await table(`${catalog}/databases/d`, 't', 2);
  const path = await database('of another catalog');
  (await view(path, 'far', 'SELECT * FROM "with views".d.t')).is(201);
  const otherView = `${inDefault(path)}/views/far`;
  const renamed = () => server.post(`${catalog}/rename`, { newName: 'else' });
  (await renamed()).is(400, 'IN_USE', { views: [otherView] });
  (await server.delete(`${catalog}?cascade=true`)).is(400, 'IN_USE', { views: [otherView] });
  (await server.delete(uriIn(path, 'views', 'far'))).is(200);
  (await view(`${catalog}/databases/d`, 'near', 'SELECT id FROM t')).is(201);
  (await renamed()).is(400, 'IN_USE', { views: [`${catalog}/databases/d/views/near`] });
  (await server.delete(`${catalog}?cascade=true`)).is(200);
  // Under another name its views are created again.
  (await server.post('/api/v2/catalogs/undrop', { name: 'with views', newName: 'views elsewhere' })).is(200);
  const restoredDatabase = uri`/catalogs/${'views elsewhere'}/databases/d`;
  assert.deepEqual(await rows(restoredDatabase, 'SELECT count(*) FROM near'), [[2]]);
  (await server.get(`${restoredDatabase}/views/near`)).is(200, '0', { dependsOn: [`${restoredDatabase}/tables/t`] });
  (await server.delete(`${restoredDatabase}/tables/t`)).is(400, 'IN_USE', {
    views: [`${restoredDatabase}/views/near`],
  });
});

test('a table under views can change as long as they stay valid; their columns follow', async () => {
  const path = await database('altered under');
  (await view(path, 'stars', 'SELECT * FROM t')).is(201);
  (await view(path, 'over', 'SELECT n * 2 AS n2 FROM stars')).is(201);
  (await view(path, 'apart', 'SELECT id FROM t WHERE id > 1')).is(201);
  const typesOf = async (name: string) =>
    (await server.get(`${path}/views/${name}`))
      .is(200)
      .at<{ name: string; type: string }[]>('columns')
      .map((column) => `${column.name} ${column.type}`);
  (await server.post(`${path}/tables/t/columns`, { name: 'more', type: 'STRING' })).is(201);
  assert.deepEqual(await typesOf('stars'), ['id BIGINT', 'n INT', 'more STRING']);
  (await server.patch(`${path}/tables/t/columns/n`, { type: 'BIGINT' })).is(200);
  assert.deepEqual(await typesOf('stars'), ['id BIGINT', 'n BIGINT', 'more STRING']);
  assert.deepEqual(await typesOf('over'), ['n2 BIGINT']);
  (await server.get(`${path}/views/apart`)).is(200, '0', { version: 1 });
  assert.deepEqual(await rows(path, 'SELECT * FROM over ORDER BY 1'), [[0], [20], [40]]);
  const [stars, over, apart] = ['stars', 'over', 'apart'].map((name) => `${inDefault(path)}/views/${name}`);
  assert.ok(stars);
  const table = (await server.get(`${path}/tables/t`)).result;
  (await server.delete(`${path}/tables/t/columns/n`)).is(400, 'IN_USE', { views: [over], otherViews: 0 });
  (await server.post(`${path}/tables/t/columns/id/rename`, { newName: 'key' })).is(400, 'IN_USE', { views: [apart] });
  const ambiguous = 'SELECT more FROM t, (SELECT 1 AS extra)';
  (await view(path, 'joined', ambiguous)).is(201);
  (await server.patch(`${path}/tables/t`, { columns: [{ name: 'id', type: 'BIGINT' }] })).is(400, 'IN_USE');
  assert.deepEqual((await server.get(`${path}/tables/t`)).at('columns'), table.columns);
  (await server.delete(`${path}/views/joined`)).is(200);
  (await server.delete(`${path}/tables/t/columns/more`)).is(200, '0', { deleted: true });
  assert.deepEqual(await typesOf('stars'), ['id BIGINT', 'n BIGINT']);
});

test('a query can change as long as views on it stay valid, and never becomes circular', async () => {
  const path = await database('changed queries');
  (await view(path, 'a', 'SELECT id, n FROM t')).is(201);
  (await view(path, 'b', 'SELECT id FROM a')).is(201);
  assert.deepEqual(await rows(path, 'SELECT count(*) FROM b'), [[3]]);
  const changed = await server.patch(`${path}/views/a`, { sql: 'SELECT id::DOUBLE AS id FROM t WHERE id = 2' });
  changed.is(200, '0', { version: 2, columns: [{ name: 'id', position: 1, type: 'DOUBLE' }] });
  (await server.get(`${path}/views/b`)).is(200, '0', { columns: [{ name: 'id', position: 1, type: 'DOUBLE' }] });
  assert.deepEqual(await rows(path, 'SELECT * FROM b'), [[2]]);
  const refusedPatch = await server.patch(`${path}/views/a`, { sql: 'SELECT n FROM t' });
  refusedPatch.is(400, 'IN_USE', { views: [`${inDefault(path)}/views/b`] });
  for (const sql of ['SELECT * FROM a', 'SELECT * FROM b', 'SELECT id FROM (SELECT * FROM b)'])
    (await server.patch(`${path}/views/a`, { sql })).is(400, 'SQL_INVALID');
  (await server.patch(`${path}/views/a`, { sql: 'SELECT nope FROM t' })).is(400, 'SQL_INVALID');
  // Refused changes leave neither the text nor its dependencies.
  await table(path, 'u');
  (await server.patch(`${path}/views/a`, { sql: 'SELECT n FROM u' })).is(400, 'IN_USE');
  (await server.delete(`${path}/tables/u`)).is(200);
  assert.deepEqual(await rows(path, 'SELECT * FROM b'), [[2]]);
  (await server.patch(`${path}/views/a`, { sql: 'SELECT 7 AS id' })).is(200, '0', { dependsOn: [] });
  (await server.delete(`${path}/tables/t`)).is(200);
  assert.deepEqual(await rows(path, 'SELECT * FROM b'), [[7]]);
});

test('the depth of views on views is limited', async () => {
  const path = await database('deep');
  (await view(path, 'v1', 'SELECT id FROM t')).is(201);
  for (let i = 2; i <= 16; i++) (await view(path, `v${i}`, `SELECT id FROM v${i - 1}`)).is(201);
  (await view(path, 'v17', 'SELECT id FROM v16')).is(400, 'SQL_NOT_SUPPORTED');
  assert.deepEqual(await rows(path, 'SELECT count(*) FROM v16'), [[3]]);
  // Also from underlying objects.
  (await view(path, 'under', 'SELECT id FROM t')).is(201);
  (await server.patch(`${path}/views/v1`, { sql: 'SELECT id FROM under' })).is(400, 'SQL_NOT_SUPPORTED');
  (await view(path, 'w1', 'SELECT 1 AS i FROM t a, t b, t c, t d, t e, t f')).is(201);
  (await view(path, 'w2', 'SELECT 1 AS i FROM w1 a, w1 b, w1 c, w1 d, w1 e, w1 f')).is(201);
  (await view(path, 'w3', 'SELECT 1 AS i FROM w2 a, w2 b, w2 c, w2 d')).is(201);
  (await view(path, 'w4', 'SELECT 1 AS i FROM w3 a, w3 b, w3 c, w3 d, w3 e, w3 f, w3 g')).is(400, 'SQL_NOT_SUPPORTED');
});

test('a view is restored if its query is still valid', async () => {
  const path = await database('undropped');
  (await server.post(`${path}/views`, { name: 'v', sql: 'SELECT * FROM t', comment: 'kept' })).is(201);
  (await server.delete(`${path}/views/v`)).is(200);
  (await server.post(`${path}/query`, { sql: 'SELECT * FROM v' })).is(400, 'SQL_INVALID');
  const views = (await server.post(`${path}/views/search`, { dropped: true })).is(200);
  assert.deepEqual(names(views, 'views'), ['v']);
  // A source was replaced by another object.
  (await server.delete(`${path}/tables/t`)).is(200);
  (await server.post(`${path}/views/undrop`, { name: 'v' })).is(400, 'SQL_INVALID');
  (await server.post(`${path}/tables`, { name: 't', columns: [{ name: 'other', type: 'DATE' }] })).is(201);
  const restored = (await server.post(`${path}/views/undrop`, { name: 'v' })).is(200);
  restored.is(200, '0', { comment: 'kept', version: 2, columns: [{ name: 'other', position: 1, type: 'DATE' }] });
  (await server.delete(`${path}/tables/t`)).is(400, 'IN_USE');
  (await server.delete(`${path}/views/v?purge=true`)).is(200);
  (await server.post(`${path}/views/undrop`, { name: 'v' })).is(404, 'OBJECT_NOT_FOUND');
});

test('a database is restored with its views; invalid ones stay dropped', async () => {
  const path = await database('with its views');
  const other = await database('beside the views');
  (await view(path, 'z', 'SELECT id FROM t')).is(201);
  (await view(path, 'a', 'SELECT id FROM z')).is(201);
  (await view(path, 'lost', 'SELECT id FROM "beside the views".t')).is(201);
  (await view(path, 'over lost', 'SELECT id FROM lost')).is(201);
  (await view(path, 'named', 'SELECT id FROM "with its views".t')).is(201);
  (await server.delete(path)).is(400, 'NOT_EMPTY', { category: 'tables' });
  (await server.delete(`${path}?cascade=true`)).is(200);
  const dropped = (await server.post('/api/v2/databases/search', { dropped: true, namePattern: 'with its%' })).is(200);
  assert.equal(dropped.at('databases', 0, 'viewCount'), 5);
  // Dropped views do not prevent changes.
  (await server.delete(`${other}/tables/t`)).is(200);
  (await server.post('/api/v2/databases/undrop', { name: 'with its views', newName: 'back again' })).is(200);
  const renamedDatabase = uri`/databases/${'back again'}`;
  assert.deepEqual(names(await server.get(`${renamedDatabase}/views`), 'views'), ['a', 'z']);
  assert.deepEqual(await rows(renamedDatabase, 'SELECT count(*) FROM a'), [[3]]);
  (await server.get(renamedDatabase)).is(200, '0', { tableCount: 1, viewCount: 2 });
  (await server.get(`${renamedDatabase}/views/a`)).is(200, '0', {
    dependsOn: [`${inDefault(renamedDatabase)}/views/z`],
  });
  (await server.delete(`${renamedDatabase}/views/z`)).is(400, 'IN_USE');
  const remaining = await server.post(`${renamedDatabase}/views/search`, { dropped: true });
  assert.deepEqual(names(remaining, 'views'), ['lost', 'named', 'over lost']);
  (await server.post(`${other}/tables/undrop`, { name: 't' })).is(200);
  for (const name of ['lost', 'over lost']) (await server.post(`${renamedDatabase}/views/undrop`, { name })).is(200);
  assert.deepEqual(await rows(renamedDatabase, 'SELECT count(*) FROM "over lost"'), [[3]]);
});
