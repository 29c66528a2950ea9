// DuckDB runs a prepared plan again with the minima and maxima that the table had when it was planned: a SELECT that was sent a second
// time, after rows beyond them were inserted, returned wrong rows, rows that were not JSON, or killed the engine
// (engines/duckdb/analysis/data_versions.ts).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
  await server.client.databases.create({ name: 'd' });
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'v', type: 'STRING' },
  ];
  await server.client.databases('d').tables.create({ name: 't', columns }).done();
});
after(() => server.close());

const text = 'y'.repeat(32);
const newest = 1_000_000_000_001;

const questions: readonly { readonly sql: string; readonly before: unknown; readonly after: unknown }[] = [
  {
    sql: 'SELECT * FROM t ORDER BY id DESC LIMIT 2',
    before: [
      [199, 'x'],
      [198, 'x'],
    ],
    after: [
      [newest, text],
      [newest - 1, null],
    ],
  },
  {
    sql: 'SELECT v, count(*) AS n FROM t GROUP BY v ORDER BY n DESC',
    before: [['x', 200]],
    after: [
      ['x', 200],
      [null, 2],
      [text, 1],
    ],
  },
  { sql: 'SELECT max(id), count(*) FROM t WHERE id > 500', before: [[null, 0]], after: [[newest, 2]] },
];

for (const way of ['rows', 'SQL'] as const) {
  test(`a SELECT sees rows inserted as ${way} since it was first sent`, async () => {
    (await server.post('/api/v2/databases/d/tables/t/truncate')).is(200);
    (await server.query('d', "INSERT INTO t SELECT range, 'x' FROM range(200)")).is(200);
    // More than once, and on every connection that may be used later.
    for (let n = 0; n < 5; n++) {
      const results = await Promise.all(questions.map(({ sql }) => server.rows('d', sql)));
      assert.deepEqual(
        results,
        questions.map((question) => question.before),
      );
    }
    const rows = [
      [newest - 1, null],
      [-5_000_000_000_000, null],
      [newest, text],
    ];
    if (way === 'rows') await server.client.databases('d').tables('t').rows.create({ rows });
    else {
      const values = rows.map(([id, v]) => `(${id}, ${v === null ? 'NULL' : `'${v}'`})`).join(', ');
      (await server.query('d', `INSERT INTO t VALUES ${values}`)).is(200);
    }
    for (const { sql, after: expectedRows } of questions)
      assert.deepEqual(await server.rows('d', sql), expectedRows, sql);
  });
}
