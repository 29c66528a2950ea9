// Names in a text at places where a table can be named: none that a plan reads or writes is missed, whatever the text looks like,
// and names of columns and of common table expressions are not included for ordinary statements. FUZZ_SEED replays the random ones.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Failure } from '../../../../src/standard/failure.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { type EngineWorld, openEngine } from '../../../conformance/engine/engine_world.ts';
import { sqlText } from '../../../fuzz/sql/sql_texts.ts';
import { Random, seedFrom } from '../../../random.ts';

const seed = seedFrom('FUZZ_SEED');
const textsMax = 1500;

let world: EngineWorld;
before(async () => {
  world = await openEngine();
  for (const name of ['t', 'u']) await world.table(name, { id: 'BIGINT', k: 'INT', d: 'DOUBLE', v: 'STRING' });
  await world.change({ kind: 'createDatabase', database: { catalog: world.catalog, database: 's' } });
  await world.change({
    kind: 'createTable',
    table: { catalog: world.catalog, database: 's', table: 'p' },
    definition: await world.table('p', { id: 'BIGINT', k: 'INT' }),
  });
});
after(() => world.close());

const namesIn = async (sql: string) => (await world.engine.tableNamesIn(sql)).map((parts) => parts.join('.'));

describe('all names that are bound are found', () => {
  for (const sql of [
    'SELECT * FROM t, s.p',
    'SELECT * FROM t AS x, "s"."p" AS y',
    'SELECT * FROM t x JOIN u y ON x.id = y.id, s.p',
    'SELECT * FROM t x JOIN u y ON CASE WHEN x.id = 1 THEN true ELSE false END, s.p',
    'SELECT * FROM t x JOIN u y ON x.id IN (y.id, y.k), s.p',
    'SELECT * FROM t x JOIN u y ON x.id::INT = y.id, s.p',
    'SELECT * FROM t x JOIN u y USING (id, k), s.p',
    'SELECT * FROM (t CROSS JOIN s.p)',
    'SELECT * FROM ((t CROSS JOIN (u CROSS JOIN s.p)))',
    'SELECT * FROM q : s . /* a */ p',
    'SELECT * FROM range(3), s.p',
    'SELECT * FROM range(3) AS g(i), s.p',
    'SELECT * FROM (VALUES (1)) v(a), s.p',
    'SELECT * FROM t, LATERAL (SELECT * FROM s.p WHERE p.id = t.id)',
    'SELECT * FROM t TABLESAMPLE 10%, s.p',
    'SELECT (SELECT max(id) FROM s.p) FROM t ORDER BY (SELECT min(k) FROM s.p) LIMIT (SELECT count(*) FROM s.p)',
    "SELECT extract(year FROM (SELECT DATE '2026-01-01' FROM s.p LIMIT 1))",
    'SELECT 1 WHERE EXISTS (FROM s.p)',
    'FROM s.p SELECT id, k',
    'TABLE s.p',
    'SELECT id FROM t UNION ALL (SELECT id FROM s.p)',
    'WITH q AS MATERIALIZED (SELECT * FROM s.p) SELECT a.id FROM q a, q b',
    'WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM q, s.p) SELECT * FROM q',
    'SELECT * FROM (PIVOT s.p ON k IN (1, 2) USING sum(id))',
    'SELECT * FROM s.p PIVOT (sum(id) FOR k IN (1, 2))',
    'SELECT * FROM (UNPIVOT s.p ON id, k INTO NAME n VALUE v)',
    'INSERT INTO s.p SELECT id, k FROM t',
    'INSERT INTO s.p BY NAME SELECT id FROM t',
    'UPDATE s.p SET k = 1',
    'UPDATE t SET k = x.k FROM u, s.p AS x WHERE t.id = x.id',
    'DELETE FROM s.p',
    'DELETE FROM t USING u, s.p WHERE t.id = p.id',
    'MERGE INTO t USING s.p AS x ON t.id = x.id WHEN MATCHED THEN UPDATE SET k = x.k',
    'MERGE INTO s.p USING t ON t.id = p.id WHEN NOT MATCHED THEN INSERT VALUES (t.id, t.k)',
    "SELECT * FROM t WINDOW w AS (ORDER BY id) UNION ALL SELECT id, k, 1, '' FROM s.p",
    'SELECT 1 AS "where" FROM t, s.p',
  ])
    test(sql, async () => {
      const analysis = await world.engine.analyze(world.statement(sql), admissionRequest);
      const bound = [...analysis.reads, ...analysis.writes].map(({ database, table }) => `${database}.${table}`);
      assert.ok(bound.includes('s.p'), 'the text does what the test is about');
      assert.ok((await namesIn(sql)).includes('s.p'), JSON.stringify(await namesIn(sql)));
    });

  test('in random texts', async (t) => {
    t.diagnostic(`FUZZ_SEED=${seed}`);
    const random = new Random(seed);
    let bound = 0;
    for (let n = 0; n < textsMax; n++) {
      const sql = sqlText(random);
      const analysis = await world.engine
        .analyze(world.statement(sql), admissionRequest)
        .catch(async (error: unknown) => {
          if (!(error instanceof Failure)) throw error;
          // An analysis sees the tables that the text names, and none of the engine's own. For EXPLAIN, the engine binds it to all
          // tables.
          if (/does not exist|table names? .*in full/.test(error.message) && !sql.includes('__tabularium'))
            await assert.rejects(world.engine.explain(world.statement(sql)), Failure, `${sql}: ${error.message}`);
          return undefined;
        });
      const last = (await world.engine.tableNamesIn(sql)).map((parts) => parts.at(-1)?.toLowerCase());
      for (const { table } of [...(analysis?.reads ?? []), ...(analysis?.writes ?? [])]) {
        bound++;
        assert.ok(last.includes(table.toLowerCase()), `${table} in ${JSON.stringify(sql)}`);
      }
    }
    t.diagnostic(`${bound} tables`);
    assert.ok(bound > 100);
  });
});

describe('names that a plan does not show are found', () => {
  for (const sql of [
    'SELECT NULL + (SELECT k FROM s.p)',
    'SELECT typeof((SELECT k FROM s.p))',
    'WITH q AS (SELECT NULL + (SELECT k FROM s.p)) SELECT * FROM q',
    'WITH s AS (SELECT 1) SELECT NULL + (SELECT k FROM s.p) FROM s',
    'UPDATE t SET k = NULL + (SELECT k FROM s.p)',
    'SELECT 1 WHERE NULL IS DISTINCT FROM (NULL + (SELECT k FROM s.p))',
  ])
    test(sql, async () => {
      const { reads } = await world.engine.analyze(world.statement(sql), admissionRequest);
      assert.ok(!reads.some(({ table }) => table === 'p'), 'the text does what the test is about');
      assert.ok((await namesIn(sql)).includes('s.p'), JSON.stringify(await namesIn(sql)));
    });

  for (const sql of [
    'WITH q AS (SELECT k FROM p), p AS (SELECT 1 AS k) SELECT k FROM q',
    'WITH p AS (SELECT k FROM p) SELECT k FROM p',
    'SELECT (WITH p AS (SELECT 1 AS k) SELECT k FROM p), NULL + (SELECT k FROM p)',
    'WITH RECURSIVE p AS (SELECT NULL + (SELECT k FROM p) AS a) SELECT * FROM p',
    'WITH RECURSIVE p(a) AS (SELECT NULL + (SELECT k FROM p) UNION SELECT a FROM p) SELECT * FROM p',
    'WITH RECURSIVE p(a) AS (SELECT 1 UNION SELECT NULL + (SELECT k FROM p) UNION SELECT a FROM p) SELECT * FROM p',
    'WITH p AS (SELECT 1 AS k) INSERT INTO p (k) SELECT k FROM p',
    'SELECT i::TIMESTAMP WITH TIME ZONE AS a, (1), p AS b, (2), NULL + (SELECT k FROM p) FROM (SELECT now() AS i, 1 AS p)',
    'SELECT a FROM unnest([1]) WITH ORDINALITY AS x(a, b), (SELECT 1 AS p), (SELECT NULL + (SELECT k FROM p))',
  ])
    test(`${sql}: a name that does not always refer to the same object`, async () => {
      await world.engine.analyze(world.statement(sql, { database: 's' }), admissionRequest);
      assert.ok((await namesIn(sql)).includes('p'), JSON.stringify(await namesIn(sql)));
    });
});

describe('names of other things are not tables', () => {
  for (const sql of [
    'SELECT o.a, lower(o.b, o.c) FROM t o WHERE o.d IN (o.e, o.f) GROUP BY o.a, o.b HAVING o.x ORDER BY o.a, o.b LIMIT 1',
    'SELECT o.a FROM t o JOIN t p ON o.x = p.y AND (o.z = p.z) WHERE o.x = 1',
    'SELECT extract(year FROM o.a), trim(BOTH FROM o.b) FROM t o',
    'UPDATE t AS o SET a = o.x, b = o.y WHERE o.z = 1',
    'INSERT INTO t (a, b) SELECT o.x, o.y FROM t o',
    'FROM t o SELECT o.x, o.y',
    'SELECT a IS DISTINCT FROM o.x, b IS NOT DISTINCT FROM o.y FROM t o',
    'SELECT * FROM t JOIN t o USING (a, b)',
    'SELECT * FROM t o JOIN t p ON o.a::DECIMAL(9, 2) = p.b',
    'WITH q AS (SELECT * FROM t), r (a, b) AS MATERIALIZED (SELECT * FROM q) SELECT * FROM q, r AS x JOIN q y ON true',
    'WITH RECURSIVE q(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q, t) SELECT * FROM q',
    'INSERT INTO t WITH q AS (SELECT 1) SELECT * FROM q',
    'INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = excluded.b',
    'MERGE INTO t USING t AS s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT VALUES (s.a)',
    'SELECT * FROM t USING SAMPLE 10%',
    'SELECT * FROM t, range(3) AS r(i), generate_series(1, t.a)',
    'SELECT a FROM t ORDER BY a DESC NULLS LAST',
  ])
    test(sql, async () => assert.deepEqual([...new Set(await namesIn(sql))], ['t']));
});
