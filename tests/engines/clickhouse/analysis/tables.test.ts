// Which tables a statement on ClickHouse reads and writes: all of them, and no other.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { missingRing } from '../ring/ring.ts';
import { openSqlWorld, type SqlWorld } from './sql_world.ts';

let world: SqlWorld;
before(async () => {
  if (!missingRing) world = await openSqlWorld();
});
after(() => world?.close());

const expected: readonly (readonly [string, ...string[]])[] = [
  ['SELECT 1'],
  ['SELECT * FROM t', 'main.t'],
  ['select id from main.T', 'main.t'],
  ['FROM t SELECT id', 'main.t'],
  ['SELECT * FROM shop.main.t', 'main.t'],
  ['SELECT * FROM SHOP.MAIN.T', 'main.t'],
  ['SELECT * FROM "shop"."main"."t"', 'main.t'],
  ['SELECT * FROM `shop` . `main` /* a.b.c */ . `t`', 'main.t'],
  ['SELECT * FROM -- secret\n t', 'main.t'],
  ['SELECT * FROM other.s.p', 'other.s.p'],
  ['SELECT * FROM s.p', 's.p'],
  ['SELECT * FROM "Mixed Case"', 'main.Mixed Case'],
  ['SELECT * FROM "mixed case" AS m WHERE m.id = 1', 'main.Mixed Case'],
  ['SELECT "a.b" FROM "größe.ü"', 'main.größe.ü'],
  ['SELECT * FROM other.system.users', 'other.system.users'],
  ['SELECT * FROM t, u', 'main.t', 'main.u'],
  ['SELECT * FROM t AS x, s.p AS y', 'main.t', 's.p'],
  ['SELECT * FROM t x JOIN u y ON x.id = y.id, s.p', 'main.t', 'main.u', 's.p'],
  ['SELECT * FROM t JOIN u USING (id, k)', 'main.t', 'main.u'],
  ['SELECT * FROM t JOIN u USING id', 'main.t', 'main.u'],
  ['SELECT * FROM t LEFT JOIN u ON t.id = u.id RIGHT JOIN s.p ON p.id = u.id', 'main.t', 'main.u', 's.p'],
  ['SELECT * FROM t GLOBAL ANY LEFT JOIN u ON t.id = u.id', 'main.t', 'main.u'],
  ['SELECT * FROM t SEMI JOIN u ON t.id = u.id', 'main.t', 'main.u'],
  ['SELECT * FROM t ANTI JOIN u ON t.id = u.id', 'main.t', 'main.u'],
  ['SELECT * FROM t ASOF JOIN u ON t.k = u.k AND t.id > u.id', 'main.t', 'main.u'],
  ['SELECT * FROM t CROSS JOIN u', 'main.t', 'main.u'],
  ['SELECT * FROM t PASTE JOIN u', 'main.t', 'main.u'],
  ['SELECT t.id, u.k FROM t, u WHERE main.t.id = shop.main.u.id', 'main.t', 'main.u'],
  ['SELECT main.t.*, u.* FROM main.t JOIN u ON t.id = u.id', 'main.t', 'main.u'],
  ['SELECT * FROM t FINAL', 'main.t'],
  ['SELECT * FROM t x FINAL SAMPLE 1/10 OFFSET 1/2', 'main.t'],
  ['SELECT * FROM t ARRAY JOIN [1, 2] AS a', 'main.t'],
  ['SELECT * FROM t LEFT ARRAY JOIN [1, 2] AS secret, [3, 4] AS u', 'main.t'],
  ['SELECT * FROM t ARRAY JOIN [1] AS a JOIN u ON t.id = u.id', 'main.t', 'main.u'],
  ['SELECT * FROM (SELECT id FROM t) AS x', 'main.t'],
  ['SELECT * FROM (SELECT * FROM (SELECT * FROM (SELECT id FROM u)))', 'main.u'],
  ['SELECT (SELECT max(id) FROM u) FROM t', 'main.t', 'main.u'],
  ['SELECT * FROM t WHERE id = (SELECT max(id) FROM s.p)', 'main.t', 's.p'],
  ['SELECT * FROM t WHERE id IN (SELECT id FROM u) AND k NOT IN (SELECT k FROM s.p)', 'main.t', 'main.u', 's.p'],
  ['SELECT * FROM t WHERE id GLOBAL IN (SELECT id FROM u)', 'main.t', 'main.u'],
  ['SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u)', 'main.t', 'main.u'],
  ['SELECT * FROM t WHERE id = ANY (SELECT id FROM u)', 'main.t', 'main.u'],
  ['SELECT * FROM t WHERE id > ALL (SELECT id FROM u)', 'main.t', 'main.u'],
  ['SELECT k FROM t GROUP BY k HAVING max(id) > (SELECT min(id) FROM u)', 'main.t', 'main.u'],
  ['SELECT k FROM t ORDER BY (SELECT min(id) FROM u), k LIMIT (SELECT count() FROM s.p)', 'main.t', 'main.u', 's.p'],
  ['SELECT k FROM t LIMIT 1 BY k LIMIT 3 OFFSET 2', 'main.t'],
  ['SELECT sum(id) OVER (PARTITION BY k ORDER BY id) FROM t QUALIFY row_number() OVER (ORDER BY id) = 1', 'main.t'],
  ['SELECT sum(id) OVER w FROM t WINDOW w AS (PARTITION BY k)', 'main.t'],
  ['SELECT id FROM t PREWHERE id IN (SELECT id FROM u) WHERE 1', 'main.t', 'main.u'],
  ['SELECT id FROM t UNION ALL SELECT id FROM u', 'main.t', 'main.u'],
  ['(SELECT id FROM t) UNION ALL (SELECT id FROM u UNION ALL SELECT id FROM s.p)', 'main.t', 'main.u', 's.p'],
  ['SELECT id FROM t INTERSECT SELECT id FROM u EXCEPT SELECT id FROM s.p', 'main.t', 'main.u', 's.p'],
  ['WITH q AS (SELECT id FROM t) SELECT * FROM q', 'main.t'],
  ['WITH q AS (SELECT id FROM t), r AS (SELECT * FROM q) SELECT q.id, r.id FROM q, r', 'main.t'],
  ['WITH q AS (SELECT id FROM t) SELECT id FROM q UNION ALL SELECT id FROM q', 'main.t'],
  ['WITH u AS (SELECT id FROM t) SELECT u.id FROM u', 'main.t'],
  ['WITH U AS (SELECT id FROM t) SELECT u.id FROM u', 'main.t'],
  ['WITH t AS (SELECT id FROM t) SELECT id FROM t', 'main.t'],
  // Also what a common table reads that is not used.
  ['WITH u AS (SELECT id FROM t) SELECT id FROM main.u', 'main.t', 'main.u'],
  ['SELECT * FROM (WITH u AS (SELECT id FROM t) SELECT id FROM u) AS x, u', 'main.t', 'main.u'],
  [
    'SELECT * FROM (WITH q AS (SELECT id FROM t), r AS (SELECT id FROM u) SELECT r.id FROM q, r) AS x',
    'main.t',
    'main.u',
  ],
  ['WITH 5 AS five, q AS (SELECT id FROM t WHERE id = five) SELECT * FROM q', 'main.t'],
  ['WITH (SELECT max(id) FROM u) AS m SELECT m FROM t', 'main.t', 'main.u'],
  ['WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM q, s.p WHERE n < 3) SELECT n FROM q', 's.p'],
  ['WITH q AS (SELECT id FROM t) SELECT * FROM u WHERE id IN (SELECT id FROM q)', 'main.t', 'main.u'],
  ['SELECT arrayMap(x -> x + 1, [1, 2]) FROM t', 'main.t'],
  ['SELECT arrayMap((u, secret) -> u + secret, [1], [2]) FROM t', 'main.t'],
  ["SELECT extract(year FROM today()), substring('abc' FROM 2 FOR 1), trim(BOTH 'x' FROM v) FROM t", 'main.t'],
  ['SELECT id IS DISTINCT FROM k FROM t', 'main.t'],
  ['SELECT id IS NOT DISTINCT FROM k FROM t', 'main.t'],
  ['SELECT CAST(id AS String), id::Int32, [1, 2][1], (1, 2).1 FROM t', 'main.t'],
  ["SELECT 'FROM secret', '-- ', '/*', 'it''s', 'a\\'b FROM secret' FROM t /* FROM secret */ -- FROM secret", 'main.t'],
  ['SELECT 1 AS "FROM secret", 2 AS `from` FROM t', 'main.t'],
  ['SELECT "from" FROM (SELECT 1 AS "from") AS x'],
  ['SELECT * EXCEPT (v) REPLACE (k + 1 AS k) FROM t', 'main.t'],
  ['SELECT count(DISTINCT k), sumIf(id, k > 1), quantile(0.5)(id), uniqExact(k) FROM t', 'main.t'],
  ['SELECT sum(id) FILTER (WHERE k > (SELECT min(k) FROM u)) FROM t', 'main.t', 'main.u'],
  ['SELECT CASE WHEN id = 1 THEN (SELECT 1 FROM u LIMIT 1) ELSE 2 END FROM t', 'main.t', 'main.u'],
  ['SELECT id FROM t GROUP BY ROLLUP(id)', 'main.t'],
  ['SELECT id, grouping(id) FROM t GROUP BY GROUPING SETS ((id), (id, k))', 'main.t'],
  ['SELECT id FROM t GROUP BY id WITH TOTALS', 'main.t'],
  ['SELECT id FROM t ORDER BY id WITH FILL FROM 1 TO 10 STEP 2', 'main.t'],
  ['SELECT id, v FROM t ORDER BY id WITH FILL INTERPOLATE (v AS v)', 'main.t'],
  ['SELECT * FROM numbers(10)'],
  ['SELECT * FROM numbers((SELECT max(id) FROM t)) AS n, s.p', 'main.t', 's.p'],
  ['SELECT * FROM generate_series(1, 10) AS g, u', 'main.u'],
  ['SELECT current_user, version(), current_schema(), current_catalog() FROM t', 'main.t'],
  ['SELECT * FROM v1', 'main.t', 'view main.v1'],
  ['SELECT * FROM V1 WHERE v1.id = 1', 'main.t', 'view main.v1'],
  ['SELECT * FROM v2 JOIN v1 ON v1.id = v2.id', 'main.t', 's.p', 'view main.v1', 'view main.v2'],
  [
    'SELECT 1 WHERE 1 IN (SELECT id FROM v3)',
    'main.secret',
    'main.t',
    'other.s.p',
    's.p',
    'view main.v1',
    'view main.v2',
    'view main.v3',
  ],
  ['INSERT INTO t (id) VALUES (1)', '>main.t'],
  ["INSERT INTO t VALUES (1, 2, 3.5, 'x'), (2, NULL, NULL, 'FROM secret')", '>main.t'],
  ['INSERT INTO t (id, k) VALUES (1, (SELECT max(k) FROM u))', '>main.t', 'main.u'],
  ['INSERT INTO TABLE other.s.p SELECT id, k FROM t', '>other.s.p', 'main.t'],
  ['INSERT INTO t (id, k) SELECT id, k FROM t', '>main.t', 'main.t'],
  ['INSERT INTO t (id) WITH q AS (SELECT id FROM u) SELECT id FROM q', '>main.t', 'main.u'],
  ['INSERT INTO t (id) (SELECT id FROM v1)', '>main.t', 'main.t', 'view main.v1'],
  ['UPDATE t SET k = 1 WHERE id = 2', '>main.t', 'main.t'],
  [
    'UPDATE main.t SET k = (SELECT max(k) FROM u), v = upper(v) WHERE id IN (SELECT id FROM s.p)',
    '>main.t',
    'main.t',
    'main.u',
    's.p',
  ],
  ['UPDATE t AS x SET k = x.k + 1', '>main.t', 'main.t'],
  ['DELETE FROM t', '>main.t', 'main.t'],
  ['DELETE FROM t WHERE id IN (SELECT id FROM v1)', '>main.t', 'main.t', 'view main.v1'],
];

describe('a statement lists exactly its tables', { skip: missingRing }, () => {
  for (const [sql, ...uses] of expected)
    test(sql, async () => {
      assert.deepEqual(await world.uses(sql), uses.toSorted());
    });
});

describe('names in texts', { skip: missingRing }, () => {
  test('without a database, a name of one part is no table', async () => {
    assert.equal((await world.failure('SELECT * FROM t', { database: undefined })).code, 'SQL_INVALID');
    assert.deepEqual(await world.uses('SELECT * FROM main.t', { database: undefined }), ['main.t']);
  });

  test('of the list above all tables are found in the text', async () => {
    for (const [sql, ...uses] of expected) {
      const names = (await world.engine.tableNamesIn(sql)).map((parts) => (parts.at(-1) ?? '').toLowerCase());
      if (uses.some((use) => use.startsWith('view '))) continue;
      for (const use of uses)
        assert.ok(
          names.some((name) => use.toLowerCase().endsWith(`.${name}`)),
          `${use}: ${sql}`,
        );
    }
  });

  test('common tables are not among them', async () => {
    assert.deepEqual(await world.engine.tableNamesIn('WITH q AS (SELECT 1) SELECT * FROM q, a."B c".d'), [
      ['a', 'B c', 'd'],
    ]);
  });
});
