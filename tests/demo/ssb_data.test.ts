// The Star Schema Benchmark's generator, tables and queries on a real DuckDB, without a server: equal rows for any batches, the
// specified counts, joining keys, and rows for each of the 13 queries.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { type SsbTable, type SsbValue, ssbTables } from '../../src/demo/ssb_data.ts';
import { ssbQueries, ssbTableFile } from '../../src/demo/ssb_load.ts';

const tableNamed = (name: string): SsbTable => {
  const table = ssbTables.find((candidate) => candidate.name === name);
  assert.ok(table, name);
  return table;
};

function allRows(table: SsbTable, scale: number, batchRows: number): SsbValue[][] {
  const rows: SsbValue[][] = [];
  for (let from = 0; from < table.rowCount(scale); from += batchRows) rows.push(...table.batch(scale, from, batchRows));
  return rows;
}

test('rows do not depend on the batches', () => {
  const scale = 0.0013; // the last order is cut off by the end of the table
  for (const table of ssbTables) {
    const expected = table.batch(scale, 0, table.rowCount(scale));
    assert.equal(expected.length, table.rowCount(scale), table.name);
    for (const batchRows of [1, 5, 28, 1000]) assert.deepEqual(allRows(table, scale, batchRows), expected, table.name);
    assert.deepEqual(table.batch(scale, expected.length, 10), [], `${table.name}: nothing after the end`);
    assert.deepEqual(table.batch(scale, expected.length - 2, 10), expected.slice(-2), `${table.name}: only to the end`);
    for (const row of expected) assert.equal(row.length, table.columns.length, table.name);
  }
});

test('later batches are generated without the earlier ones', () => {
  const lineorder = tableNamed('lineorder');
  const from = 5_999_999_990; // beyond 32 bits
  const rows = lineorder.batch(1000, from, 100);
  assert.equal(rows.length, 10);
  assert.deepEqual(rows.slice(4, 7), lineorder.batch(1000, from + 4, 3));
});

test('row counts are those of the benchmark', () => {
  const counts = (scale: number): number[] => ssbTables.map((table) => table.rowCount(scale));
  assert.deepEqual(
    ssbTables.map((table) => table.name),
    ['customer', 'supplier', 'part', 'dates', 'lineorder'],
  );
  assert.deepEqual(counts(0.01), [300, 20, 2_000, 2557, 60_000]);
  assert.deepEqual(counts(0.1), [3_000, 200, 20_000, 2557, 600_000]);
  assert.deepEqual(counts(1), [30_000, 2_000, 200_000, 2557, 6_000_000]);
  assert.deepEqual(counts(10), [300_000, 20_000, 800_000, 2557, 60_000_000]);
});

test('the data does not change from one version to the next', () => {
  const row = (table: string, index: number): string => JSON.stringify(tableNamed(table).batch(0.1, index, 1)[0]);
  const expectedSums: Record<string, string> = {
    customer:
      '[8,"Customer#000000008","MJQszQ03ffd","UNITED ST1","UNITED STATES","AMERICA","33-139-678-7509","HOUSEHOLD"]',
    supplier: '[8,"Supplier#000000008","R1o9aj1adS29R","ARGENTINA0","ARGENTINA","AMERICA","11-973-979-2902"]',
    part: '[8,"saddle lace","MFGR#5","MFGR#52","MFGR#5231","deep","MEDIUM ANODIZED TIN",14,"WRAP PKG"]',
    lineorder: '[3,1,1909,16437,145,19971203,"2-HIGH",0,30,4060290,3879606,9,3694863,81205,5,19980210,"MAIL"]',
  };
  for (const [table, expected] of Object.entries(expectedSums)) assert.equal(row(table, 7), expected);
  const leapDay =
    '[19960229,"February 29, 1996","Thursday","February",1996,199602,"Feb1996",5,29,60,2,9,"Winter",false,true,false,true]';
  assert.equal(row('dates', 1520), leapDay);
});

const scales = [0.01, 0.1];

for (const scale of scales) {
  const state = { directory: '' };
  let connection: DuckDBConnection;

  const numbers = async (sql: string): Promise<number[]> =>
    (await connection.runAndReadAll(sql)).getRowsJson().flatMap((row) => row.map(Number));

  before(async () => {
    state.directory = await mkdtemp(join(tmpdir(), 'ssb-data-'));
    connection = await (await DuckDBInstance.create(':memory:')).connect();
    for (const table of ssbTables) {
      await connection.run(await readFile(ssbTableFile(table.name), 'utf8'));
      // A JSON array of these values without its brackets is a line of CSV.
      const csv = table.batch(scale, 0, table.rowCount(scale)).map((row) => JSON.stringify(row).slice(1, -1));
      const file = join(state.directory, `${table.name}.csv`);
      await writeFile(file, csv.join('\n'));
      await connection.run(`COPY ${table.name} FROM '${file}' (FORMAT csv, HEADER false)`);
    }
  });

  after(async () => {
    connection?.closeSync();
    await rm(state.directory, { recursive: true, force: true });
  });

  test(`scale ${scale}: the tables' columns are the generator's, in its order`, async () => {
    for (const table of ssbTables) {
      const result = await connection.runAndReadAll(`SELECT * FROM ${table.name} LIMIT 0`);
      assert.deepEqual(result.columnNames(), table.columns, table.name);
      assert.deepEqual(await numbers(`SELECT count(*) FROM ${table.name}`), [table.rowCount(scale)], table.name);
    }
  });

  test(`scale ${scale}: no value is longer than its column's declared length`, async () => {
    for (const table of ssbTables) {
      const declared = (await readFile(ssbTableFile(table.name), 'utf8')).matchAll(/(\w+) VARCHAR\((\d+)\)/g);
      for (const [, column, length] of declared) {
        const [longest] = await numbers(`SELECT max(length(${column})) FROM ${table.name}`);
        assert.ok(Number(longest) <= Number(length), `${table.name}.${column}: ${longest} > ${length}`);
      }
    }
  });

  test(`scale ${scale}: every key in lineorder is in its dimension`, async () => {
    const references = [
      ['lo_custkey', 'customer', 'c_custkey'],
      ['lo_partkey', 'part', 'p_partkey'],
      ['lo_suppkey', 'supplier', 's_suppkey'],
      ['lo_orderdate', 'dates', 'd_datekey'],
      ['lo_commitdate', 'dates', 'd_datekey'],
    ] as const;
    for (const [from, table, to] of references) {
      const orphans = `SELECT count(*) FROM lineorder WHERE ${from} NOT IN (SELECT ${to} FROM ${table})`;
      assert.deepEqual(await numbers(orphans), [0], from);
    }
  });

  test(`scale ${scale}: orders are complete and their totals add up`, async () => {
    const [orders, repeated, gaps, mixed, wrongTotals] = await numbers(`
      WITH orders AS (
        SELECT lo_orderkey, count(*) AS lines, count(DISTINCT lo_linenumber) AS numbers, max(lo_linenumber) AS last,
          count(DISTINCT (lo_custkey, lo_orderdate, lo_orderpriority, lo_ordtotalprice)) AS headers,
          max(lo_ordtotalprice) AS total, sum(lo_revenue * (100 + lo_tax) // 100) AS expected
        FROM lineorder GROUP BY lo_orderkey)
      SELECT count(*), count(*) FILTER (numbers <> lines), count(*) FILTER (last <> lines OR last > 7),
        count(*) FILTER (headers <> 1), count(*) FILTER (total <> expected) FROM orders`);
    assert.ok(Math.abs(Number(orders) - 1_500_000 * scale) <= 7, `${orders} orders`);
    assert.deepEqual([repeated, gaps, mixed, wrongTotals], [0, 0, 0, 0]);
    const outsideSql = `SELECT count(*) FROM lineorder WHERE lo_quantity NOT BETWEEN 1 AND 50
      OR lo_discount NOT BETWEEN 0 AND 10 OR lo_tax NOT BETWEEN 0 AND 8 OR lo_orderdate > 19980802
      OR lo_revenue <> lo_extendedprice * (100 - lo_discount)::BIGINT // 100`;
    assert.deepEqual(await numbers(outsideSql), [0]);
  });

  test(`scale ${scale}: each of the 13 queries returns rows`, async () => {
    const queries = await ssbQueries();
    const names = '1.1 1.2 1.3 2.1 2.2 2.3 3.1 3.2 3.3 3.4 4.1 4.2 4.3'.split(' ').map((number) => `q${number}`);
    assert.deepEqual(
      queries.map((query) => query.name),
      names,
    );
    for (const { name, sql } of queries) {
      const rows = (await connection.runAndReadAll(sql)).getRowsJson();
      assert.ok(rows.length > 0 && rows[0]?.every((value) => value !== null), `${name}: ${JSON.stringify(rows[0])}`);
    }
  });
}
