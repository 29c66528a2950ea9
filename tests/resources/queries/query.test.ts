// SQL over REST: parameters, numbers, errors with their position, refusals and the endpoints that they name, waiting and not waiting,
// results of many pages.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Code } from '../../../src/standard/codes.ts';
import { endOfTask, type Reply, start, type TestServer } from '../../server.ts';
import { runScenario, type Scenario, scenarios } from '../scenario.ts';

let server: TestServer;
const url = '/api/v2/databases/shop/query';
before(async () => {
  server = await start({ pageBytesMax: 64 * 1024, taskRunnersMax: 2 });
  (await server.put('/api/v2/databases/shop')).is(201);
  (
    await server.post('/api/v2/databases/shop/tables', { sql: 'CREATE TABLE t (i INT PRIMARY KEY, s TEXT NOT NULL)' })
  ).is(201);
  (await server.query('shop', "INSERT INTO t VALUES (1, 'a'), (2, 'b')")).is(200, '0', { rowCount: 2 });
});
after(() => server.close());

const ask = (name: string, body: unknown, result: object): Scenario => ({
  name,
  method: 'POST',
  url,
  body,
  status: 200,
  result,
});
const refuse = (name: string, body: unknown, code: Code, result: object = {}): Scenario => ({
  name,
  method: 'POST',
  url,
  body,
  status: 400,
  code,
  result,
  afterwards: async (client) =>
    assert.deepEqual(await client.rows('shop', 'SELECT * FROM t ORDER BY i'), [
      [1, 'a'],
      [2, 'b'],
    ]),
});

const wide = '170141183460469231731687303715884105727';

scenarios(
  () => server,
  [
    ask('by place, ?', { sql: 'SELECT s FROM t WHERE i = ?', parameters: [2] }, { rows: [['b']], rowCount: 1 }),
    ask(
      'by place, $1',
      { sql: 'SELECT i FROM t WHERE s = $1 OR i = $2 ORDER BY i', parameters: ['a', 2] },
      { rows: [[1], [2]] },
    ),
    ask('by name', { sql: 'SELECT i FROM t WHERE s = $name', parameters: { name: 'a' } }, { rows: [[1]] }),
    ask(
      'a value is never SQL',
      { sql: 'SELECT count(*) FROM t WHERE s = $1', parameters: ["a' OR '1'='1"] },
      { rows: [[0]] },
    ),
    ask(
      'values of every kind',
      {
        sql: 'SELECT $1::HUGEINT, $2::DECIMAL(38,1), $3::DATE, $4::TIMESTAMP, $5::BOOLEAN, $6::TEXT, $7::DOUBLE, $8::INT[]',
        parameters: [
          JSON.rawJSON(wide),
          JSON.rawJSON('1234567890123456789012345678901234567.5'),
          '2026-01-31',
          '2026-01-31T10:00:00',
          true,
          null,
          0.1,
          [1, null],
        ],
      },
      {
        rows: [
          [
            1.7014118346046923e38,
            1.2345678901234568e36,
            '2026-01-31',
            '2026-01-31T10:00:00',
            true,
            null,
            0.1,
            [1, null],
          ],
        ],
      },
    ),
    {
      ...ask(
        'wide numbers keep every digit',
        { sql: `SELECT ${wide}::HUGEINT, 0.10::DECIMAL(3,2), 9007199254740993` },
        {},
      ),
      contains: [`[[${wide},0.10,9007199254740993]]`],
    },
    {
      ...ask(
        'and are strings where that is asked',
        { sql: `SELECT ${wide}::HUGEINT, 0.10::DECIMAL(3,2), 7::BIGINT, 7::INT, [7::BIGINT]`, numbers: 'string' },
        {},
      ),
      contains: [`[["${wide}","0.10","7",7,["7"]]]`],
    },
    ask(
      'what is no number',
      { sql: "SELECT 'NaN'::DOUBLE, 'inf'::FLOAT, '-inf'::DOUBLE" },
      { rows: [['NaN', 'Infinity', '-Infinity']] },
    ),
    ask(
      'types of results',
      { sql: "SELECT 1::TINYINT a, 'x' b, DATE '2026-01-31' c, {'k': [1]} d, MAP {'a': 1} e, NULL f" },
      {
        columns: [
          { name: 'a', type: 'TINYINT' },
          { name: 'b', type: 'STRING' },
          { name: 'c', type: 'DATE' },
          { name: 'd', type: 'STRUCT<k: ARRAY<INT>>' },
          { name: 'e', type: 'MAP<STRING, INT>' },
          { name: 'f' },
        ],
        rows: [[1, 'x', '2026-01-31', { k: [1] }, [{ key: 'a', value: 1 }], null]],
      },
    ),
    ask('a row of no names', { sql: "SELECT row(1, 'x')" }, { rows: [[[1, 'x']]] }),
    ask('JSON inside', { sql: `SELECT '{"a": [1.10, 1e400]}'::JSON, ['{"a": 1}'::JSON]` }, { rowCount: 1 }),
    ask(
      'columns of the same name',
      { sql: 'SELECT 1 AS a, 2 AS a' },
      { columns: [{ name: 'a' }, { name: 'a' }], rows: [[1, 2]] },
    ),
    ask(
      'no rows',
      { sql: 'SELECT * FROM t WHERE false' },
      { rows: [], rowCount: 0, columns: [{ name: 'i' }, { name: 's' }] },
    ),
    ask(
      'cut after so many rows',
      { sql: 'SELECT range FROM range(10)', rowsMax: 3 },
      { rows: [[0], [1], [2]], rowCount: 3, truncated: true },
    ),
    ask(
      'not cut where it ends there',
      { sql: 'SELECT range FROM range(3)', rowsMax: 3 },
      { rowCount: 3, truncated: false },
    ),
    ask('a semicolon and a comment at the end', { sql: 'SELECT 1; -- done' }, { rows: [[1]] }),
    ask('a comment at the end alone', { sql: 'SELECT 1 -- done' }, { rows: [[1]] }),
    ask('a semicolon in a text', { sql: "SELECT ';', $$;$$ /* ; */" }, { rows: [[';', ';']] }),
    ask('WITH, VALUES, FROM first', { sql: 'WITH a AS (VALUES (1)) FROM a' }, { rows: [[1]] }),
    ask('DML answers how many', { sql: "INSERT INTO t VALUES ($1, 'c')", parameters: [3] }, { rowCount: 1 }),
    ask('UPDATE', { sql: "UPDATE t SET s = 'd' WHERE i > 2" }, { rowCount: 1 }),
    ask(
      'RETURNING',
      { sql: 'DELETE FROM t WHERE i = 3 RETURNING s, i' },
      { rows: [['d', 3]], columns: [{ name: 's' }, { name: 'i' }] },
    ),
    ask('other databases by name', { sql: 'SELECT count(*) FROM "default".shop.t' }, { rows: [[2]] }),
    refuse('the same parameter missing', { sql: 'SELECT i FROM t WHERE i = $1', parameters: [] }, 'PARAMETERS_INVALID'),
    refuse('none at all', { sql: 'SELECT i FROM t WHERE i = $1' }, 'PARAMETERS_INVALID'),
    refuse('one too many', { sql: 'SELECT i FROM t WHERE i = $1', parameters: [1, 2] }, 'PARAMETERS_INVALID'),
    refuse('a name that is none', { sql: 'SELECT i FROM t WHERE i = $a', parameters: { b: 1 } }, 'PARAMETERS_INVALID'),
    refuse('names for places', { sql: 'SELECT i FROM t WHERE i = ?', parameters: { a: 1 } }, 'PARAMETERS_INVALID'),
    refuse('a type that does not fit', { sql: 'SELECT i FROM t WHERE i = $1::INT', parameters: ['x'] }, 'SQL_INVALID'),
    refuse('a fault of syntax', { sql: 'SELECT *\nFROM t\nWHER i = 1' }, 'SQL_INVALID', { line: 3, column: 6 }),
    refuse('a table that is not there', { sql: 'SELECT *\n  FROM nothing' }, 'SQL_INVALID', { line: 2 }),
    refuse('a column that is not there', { sql: 'SELECT nothing FROM t' }, 'SQL_INVALID', { line: 1, column: 8 }),
    refuse('a function that is not there', { sql: 'SELECT nothing(1)' }, 'SQL_INVALID', { line: 1 }),
    refuse('a cast that fails on the data', { sql: 'SELECT s::INT FROM t' }, 'SQL_INVALID'),
    refuse('a number out of range', { sql: 'SELECT 300::TINYINT' }, 'SQL_INVALID'),
    refuse('a text of nothing', { sql: ' ' }, 'SQL_INVALID'),
    refuse('a comment alone', { sql: '-- nothing' }, 'SQL_INVALID'),
    refuse('a NUL', { sql: 'SELECT 1 \u0000 FROM t' }, 'INVALID_PARAMETER'),
    refuse('a key that is there', { sql: "INSERT INTO t VALUES (4, 'x'), (1, 'y')" }, 'CONSTRAINT_VIOLATED'),
    refuse('NULL where there is none', { sql: 'INSERT INTO t VALUES (4, NULL)' }, 'CONSTRAINT_VIOLATED'),
    refuse('another warehouse', { sql: 'SELECT 1', warehouse: 'other' }, 'INVALID_PARAMETER'),
  ],
);

const refusedBySql: readonly [sql: string, endpoint: string][] = [
  ['CREATE TABLE u (i INT)', 'tables'],
  ['CREATE TABLE u AS SELECT 1 AS i', 'tables'],
  ['CREATE SCHEMA u', 'databases'],
  ['DROP TABLE t', 'DELETE'],
  ['DROP SCHEMA shop CASCADE', 'DELETE'],
  ['ALTER TABLE t ADD COLUMN x INT', 'PATCH'],
  ['ALTER TABLE t RENAME TO u', 'PATCH'],
];

for (const [sql, endpoint] of refusedBySql) {
  test(`${sql}: refused as SQL, and the message names the endpoint`, async () => {
    const reply = await runScenario(server, refuse('', { sql }, 'SQL_NOT_SUPPORTED'));
    assert.match(reply.message, new RegExp(endpoint), reply.message);
  });
}

test('a function with arguments of wrong types: the message lists the first overloads only', async () => {
  const reply = await server.post(url, { sql: 'SELECT $1 + $2', parameters: [[1], true] });
  reply.is(400, 'SQL_INVALID', { line: 1 });
  assert.match(
    reply.message,
    /^No function matches .*'\+\(.*Candidate functions:\n\t\+\(.*\n\t… \(line 1, column \d+\)$/s,
  );
  assert.ok(reply.message.length <= 300, reply.message);
});

const forbidden = [
  'SELECT 1; SELECT 2',
  'SELECT 1; DROP TABLE t',
  'BEGIN',
  'COMMIT',
  'ROLLBACK',
  "ATTACH '/tmp/x.db' AS x",
  'DETACH shop',
  'USE shop',
  "COPY t TO '/tmp/x.csv'",
  "COPY t FROM '/etc/passwd'",
  "EXPORT DATABASE '/tmp/x'",
  'INSTALL httpfs',
  'LOAD httpfs',
  'SET memory_limit = 1',
  'RESET memory_limit',
  'PRAGMA database_list',
  'CALL pragma_version()',
  'CHECKPOINT',
  'VACUUM',
  'PREPARE x AS SELECT 1',
  'EXECUTE x',
  'EXPLAIN SELECT 1',
  'SHOW TABLES',
  'DESCRIBE t',
  'CREATE VIEW v AS SELECT 1',
  'CREATE MACRO m(x) AS x',
  'CREATE TEMP TABLE x (i INT)',
  'CREATE SEQUENCE x',
  'CREATE INDEX x ON t (s)',
  'COMMENT ON TABLE t IS 1',
  "SELECT * FROM '/etc/passwd'",
  "SELECT * FROM read_csv('/etc/passwd')",
  "SELECT * FROM read_text('/etc/passwd')",
  "SELECT * FROM read_blob('/etc/*')",
  "SELECT * FROM glob('/*')",
  "SELECT * FROM parquet_scan('x')",
  "SELECT * FROM 'http://127.0.0.1/x.csv'",
  "SELECT * FROM query('DROP TABLE t')",
  "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
  "SELECT * FROM query_table('nothing')",
  "SELECT * FROM query_table('/etc/passwd')",
  "SELECT * FROM sql_auto_complete('SEL')",
  'SELECT * FROM duckdb_settings()',
  'SELECT * FROM duckdb_secrets()',
  'SELECT * FROM duckdb_databases()',
  'SELECT * FROM pragma_database_list()',
  'SELECT * FROM information_schema.tables',
  'SELECT * FROM sqlite_master',
  'SELECT * FROM pg_catalog.pg_class',
  "SELECT getenv('HOME')",
  "SELECT current_setting('temp_directory')",
  "SELECT write_log('x')",
  'SELECT * FROM enable_logging()',
  "SELECT json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
  "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
  'SELECT * FROM force_checkpoint()',
  "SELECT nextval('x')",
];

for (const sql of forbidden) {
  test(`never run: ${sql}`, async () => {
    const reply = await server.post(url, { sql });
    assert.ok(reply.status === 400 && reply.code.startsWith('SQL_'), `${reply.status} ${reply.text.slice(0, 500)}`);
    assert.ok(!/root:|tabularium-test|metadata\.sqlite|\.duckdb/.test(reply.text), reply.text);
    assert.deepEqual(await server.rows('shop', 'SELECT count(*) FROM t'), [[2]]);
  });
}

const repeated: readonly [sql: string, parameters?: readonly unknown[]][] = [
  ['SELECT i FROM t ORDER BY i LIMIT 1'],
  ['SELECT i FROM t ORDER BY i OFFSET 1'],
  ['SELECT i FROM t ORDER BY i LIMIT 1 OFFSET 1'],
  ['SELECT range FROM range(10) ORDER BY range DESC LIMIT 50%'],
  ['SELECT i FROM t WHERE i >= $1 ORDER BY i', [1]],
  ['SELECT i FROM t WHERE i = $1 LIMIT $2', [1, 1]],
  ['SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 ORDER BY 1'],
  ['SELECT 1 AS a UNION ALL (SELECT 2 LIMIT 1) ORDER BY a -- limited'],
  ['SELECT 1 AS a, 2 AS a; -- done'],
  ['SELECT range FROM range(10) USING SAMPLE 100%'],
  ['/* first */ SELECT range FROM range(100) ORDER BY range'],
  ['(SELECT range FROM range(100) ORDER BY range)'],
  ['FROM range(100) ORDER BY range'],
  ['SUMMARIZE SELECT range FROM range(30000)'],
  ['SUMMARIZE FROM range(30000)'],
  ['WITH a AS (FROM range(100)) FROM a ORDER BY range'],
];

test('a repeated statement returns the rows of its first run, whatever ends its text', async () => {
  for (const [sql, parameters] of repeated) {
    const resultOf = async (rowsMax: number | undefined) => {
      const reply = (await server.post(url, { sql, parameters, rowsMax })).is(200);
      return ['columns', 'rows', 'rowCount', 'truncated'].map((field) => reply.at(field));
    };
    // The first run streams its result; later runs use what is known of it.
    for (const rowsMax of [undefined, 2]) {
      const first = await resultOf(rowsMax);
      for (let run = 0; run < 2; run++) assert.deepEqual(await resultOf(rowsMax), first, sql);
    }
  }
});

test('the position of an error is the same in a repeated statement', async () => {
  const sql = "SELECT\n  i,\n  (CASE WHEN $1 THEN 'x' ELSE '1' END)::INT\nFROM t";
  for (let run = 0; run < 3; run++) (await server.post(url, { sql, parameters: [false] })).is(200);
  (await server.post(url, { sql, parameters: [true] })).is(400, 'SQL_INVALID', { line: 3 });
});

test('a repeated statement runs in the namespace that its URI has now', async () => {
  const at = '/api/v2/databases/moving';
  const setUp = async (value: string) => {
    (await server.put(at)).is(201);
    (await server.post(`${at}/tables`, { sql: 'CREATE TABLE t (s TEXT)' })).is(201);
    (await server.query('moving', 'INSERT INTO t VALUES ($1)', { parameters: [value] })).is(200);
    for (let run = 0; run < 3; run++) assert.deepEqual(await server.rows('moving', 'SELECT s FROM t'), [[value]]);
  };
  await setUp('first');
  (await server.post(`${at}/rename`, { newName: 'moved' })).is(200);
  (await server.query('moving', 'SELECT s FROM t')).is(404, 'OBJECT_NOT_FOUND', { category: 'databases' });
  assert.deepEqual(await server.rows('moved', 'SELECT s FROM t'), [['first']]);
  await setUp('second');
  (await server.delete(`${at}?cascade=true`)).is(200);
  (await server.query('moving', 'SELECT s FROM t')).is(404, 'OBJECT_NOT_FOUND', { category: 'databases' });
});

test('explain shows a plan and runs nothing', async () => {
  const explain = '/api/v2/databases/shop/explain';
  const reply = (await server.post(explain, { sql: 'DELETE FROM t' })).is(200);
  assert.match(reply.at('plan'), /DELETE/);
  assert.deepEqual(await server.rows('shop', 'SELECT count(*) FROM t'), [[2]]);
  (await server.post(explain, { sql: 'SELECT nothing FROM t' })).is(400, 'SQL_INVALID');
  (await server.post(explain, { sql: 'DROP TABLE t' })).is(400, 'SQL_NOT_SUPPORTED');
  assert.equal((await server.post(explain, { sql: "SELECT * FROM read_text('/etc/passwd')" })).status, 400);
});

test('in a catalog, tables are named with their database', async () => {
  const ofCatalog = '/api/v2/catalogs/default/query';
  (await server.post(ofCatalog, { sql: 'SELECT count(*) FROM shop.t' })).is(200, '0', { rows: [[2]] });
  (await server.post(ofCatalog, { sql: 'SELECT count(*) FROM t' })).is(400, 'SQL_INVALID');
});

test('without waiting: a task at once, whose pages contain the rows', async () => {
  const accepted = await server.query('shop', 'SELECT range AS n FROM range(3)', { waitSeconds: 0 });
  accepted.is(202, '0', { type: 'run_query', target: '/api/v2/catalogs/default/databases/shop' });
  assert.equal(accepted.headers.location, accepted.at('uri'));
  const task = (await server.ended(accepted)).is(200, '0', {
    state: 'succeeded',
    progress: 1,
    error: null,
    attempt: 1,
  });
  assert.equal(task.at('result', 'rowCount'), 3);
  const page = (await server.get(task.at('firstPage'))).is(200, '0', { rows: [[0], [1], [2]], page: 0, pageCount: 1 });
  assert.equal(page.at('columns', 0, 'name'), 'n');
  assert.equal(page.at('nextPage'), undefined);
  (await server.get(`${task.at<string>('uri')}/pages/1`)).is(404, 'OBJECT_NOT_FOUND', { category: 'pages', name: '1' });
  for (const page of ['-1', '00', 'x', '1e0', '99999999999'])
    (await server.get(`${task.at<string>('uri')}/pages/${page}`)).is(404, 'OBJECT_NOT_FOUND', { category: 'pages' });
});

test('with a short wait: a task that continues and is cancelled', async () => {
  const sql = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';
  const accepted = (await server.query('shop', sql, { waitSeconds: 0.1 })).is(202);
  (await server.get(accepted.at('uri'))).is(200, '0', { state: 'running' });
  (await server.post(accepted.at('cancelUri'))).is(200);
  (await endOfTask(server, accepted.at<string>('uri'))).is(200, '0', { state: 'cancelled' });
  (await server.get(`${accepted.at<string>('uri')}/pages/0`)).is(404, 'OBJECT_NOT_FOUND');
});

test('a failed task has the error that the query would have had', async () => {
  const accepted = await server.query('shop', 'SELECT nothing FROM t', { waitSeconds: 0 });
  const task = (await server.ended(accepted)).is(200, '0', { state: 'failed', result: null });
  assert.equal(task.at('error', 'code'), 'SQL_INVALID');
  assert.equal(task.at('error', 'result', 'line'), 1);
});

async function allRows(first: Reply): Promise<unknown[]> {
  const rows = first.at<unknown[]>('rows').slice();
  let next = first.at<string | undefined>('nextPage');
  while (next !== undefined) {
    const page = (await server.get(next)).is(200);
    assert.ok(Buffer.byteLength(page.text) < 80 * 1024, 'a page keeps its size');
    rows.push(...page.at<unknown[]>('rows'));
    next = page.at('nextPage');
  }
  return rows;
}

for (const [description, width] of [
  ['rows short', 10],
  ['rows longer than a page', 100_000],
] as const) {
  test(`a result of many pages, ${description}: every row once, in order`, async () => {
    // Results of less than 1 MiB are complete when their first page is sent.
    const count = width > 1000 ? 6 : 30_000;
    const sql = `SELECT range AS n, repeat('é\n"', ${Math.ceil(width / 4)}) AS s FROM range(${count}) ORDER BY n`;
    for (let run = 0; run < 2; run++) {
      // The second run is planned with the known size of the first.
      const reply = (await server.query('shop', sql)).is(200, '0', { rowCount: count, truncated: false });
      assert.ok(reply.at<number>('pageCount') > 1);
      const pages = width > 1000 ? undefined : await allRows(reply);
      if (pages)
        assert.deepEqual(
          pages.map((row) => (row as [number])[0]),
          Array.from({ length: count }, (_, i) => i),
        );
    }
  });
}

test('pages are deleted with their task', async () => {
  const reply = (await server.query('shop', 'SELECT range FROM range(50000)')).is(200);
  const next = reply.at<string>('nextPage');
  (await server.get(next)).is(200);
  const task = next.replace(/\/pages\/.*/, '');
  (await server.get(task)).is(200, '0', { state: 'succeeded', type: 'run_query' });
  (await server.delete(task)).is(200, '0', { deleted: true });
  (await server.get(next)).is(404, 'OBJECT_NOT_FOUND', { category: 'tasks' });
});

test('RETURNING of many pages', async () => {
  (await server.post('/api/v2/databases/shop/tables', { sql: 'CREATE TABLE many (i INT, s TEXT)' })).is(201);
  const sql = "INSERT INTO many SELECT range, 'some text' FROM range(20000) RETURNING i, s";
  const reply = (await server.query('shop', sql)).is(200);
  assert.ok(reply.at<number>('pageCount') > 1);
  assert.equal((await allRows(reply)).length, 20_000);
});
