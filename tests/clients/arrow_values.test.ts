// The values of every type that pyarrow reads in a query's Arrow file are those of the query's JSON. pyarrow is installed in
// tests/clients/.venv.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../server.ts';
import { python, skipWithout } from './python.ts';

const skip = skipWithout('pyarrow');

/** A definition of a column, and its Arrow type; values of it as SQL, all of them different. */
const columns: Readonly<Record<string, readonly [type: string, arrow: string, values: readonly string[]]>> = {
  flag: ['BOOLEAN', 'bool', ['true', 'false']],
  tiny: ['TINYINT', 'int8', ['-128', '127']],
  small: ['SMALLINT', 'int16', ['-32768', '32767']],
  int: ['INT', 'int32', ['-2147483648', '2147483647']],
  big: ['BIGINT', 'int64', ['-9223372036854775808', '9007199254740993', '9223372036854775807']],
  large: ['LARGEINT', 'decimal128(38, 0)', ['-99999999999999999999999999999999999999', '12345678901234567890123']],
  real: ['FLOAT', 'float', ['0.5', '-1.25', "'NaN'", "'-Infinity'"]],
  double: ['DOUBLE', 'double', ['0.1', '-1e308', '5e-324', "'NaN'", "'Infinity'"]],
  narrow: ['DECIMAL(4,2)', 'decimal128(4, 2)', ['-99.99', '0.01']],
  money: ['DECIMAL(18,2)', 'decimal128(18, 2)', ['-9999999999999999.99', '1.10']],
  medium: ['DECIMAL(9,3)', 'decimal128(9, 3)', ['-999999.999', '0.001']],
  wide: ['DECIMAL(38,10)', 'decimal128(38, 10)', ['-9999999999999999999999999999.9999999999', '0.0000000001']],
  day: ['DATE', 'date32[day]', ["'0001-01-01'", "'9999-12-31'", "'1969-12-31'"]],
  at: ['DATETIME', 'timestamp[us]', ["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.5'"]],
  zoned: ['TIMESTAMPTZ', 'timestamp[us, tz=UTC]', ["'2026-01-31 10:00:00.123456+02'", "'1960-01-01 00:00:00Z'"]],
  fixed: ['CHAR(3)', 'string', ["'abc'"]],
  short: ['VARCHAR(40)', 'string', ["''", "'twelve bytes'", "'thirteen bytes'", "'é\"\\\n😀'"]],
  text: ['STRING', 'string', ["repeat('long ', 5000)", "'x'"]],
  bytes: ['BINARY', 'binary', ["''::BLOB", "'\\x00\\xFF\\x80'::BLOB", "encode(repeat('b', 100))"]],
  json: ['JSON', 'string', [`'{"a": [1, null, "x"]}'`, "'[1.5]'"]],
  id: ['UUID', 'string', ["'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'"]],
  list: ['ARRAY<BIGINT>', 'list<item: int64>', ['[1, NULL, 9223372036854775807]', '[]']],
  struct: ['STRUCT<a: INT, b: ARRAY<STRING>>', 'struct<a: int32, b: list<item: string>>', ["{'a': 1, 'b': ['x', NULL]}", "{'a': NULL, 'b': []}"]],
  map: ['MAP<STRING, DECIMAL(10,2)>', 'map<string, decimal128(10, 2)>', ["MAP {'k': 1.50, 'l': NULL}", 'MAP {}']],
  deep: ['ARRAY<STRUCT<at: DATETIME, of: MAP<INT, BINARY>>>', 'list<item: struct<at: timestamp[us], of: map<int32, binary>>>', ["[{'at': '2026-01-31 10:00:00', 'of': MAP {1: 'ab'::BLOB}}, NULL]"]],
}; // biome-ignore format: one line for each type

let server: TestServer;
let directory: string;
before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'tabularium-arrow-'));
  server = await start();
  (await server.put('/api/v2/databases/shop')).is(201);
  const definitions = Object.entries(columns).map(([name, [type]]) => ({ name, type }));
  (await server.post('/api/v2/databases/shop/tables', { name: 'kinds', columns: definitions })).is(201);
  const rowsMax = Math.max(...Object.values(columns).map(([, , values]) => values.length));
  // A row of nulls between the others.
  const rows = Array.from({ length: rowsMax + 1 }, (_, row) =>
    Object.values(columns).map(([, , values]) => (row === 1 ? 'NULL' : (values[Math.max(0, row - 1)] ?? 'NULL'))),
  );
  const values = rows.map((row) => `(${row.join(', ')})`).join(', ');
  (await server.query('shop', `INSERT INTO kinds VALUES ${values}`)).is(200);
});
after(async () => {
  await server.close();
  rmSync(directory, { recursive: true });
});

const manyRowsSql =
  'SELECT k.* REPLACE (left(text, 30) AS text) FROM range(3000) AS r(i), kinds AS k ORDER BY r.i, k.double';
for (const compression of ['none', 'zstd']) {
  // The second statement is long enough for several batches.
  for (const [name, sql, least] of [
    ['each value', 'SELECT * FROM kinds', 100],
    ['many rows', manyRowsSql, 100_000],
  ] as const) {
    test(`${name}, ${compression}: Arrow has the values of JSON`, { skip }, async () => {
      const queryPath = '/api/v2/databases/shop/query';
      const json = (await server.post(queryPath, { sql, numbers: 'string', rowsMax: 6000 })).is(200);
      const arrow = (await server.post(queryPath, { sql, format: 'arrow', compression, rowsMax: 6000 })).is(200);
      const response = await fetch(new URL(arrow.at<string>('files', 0, 'uri'), server.url));
      const file = join(directory, 'rows.arrow');
      writeFileSync(file, Buffer.from(await response.arrayBuffer()));
      const names = json.at<{ name: string }[]>('columns').map((column) => column.name);
      assert.deepEqual(arrow.at('columns'), json.at('columns'));
      const input = JSON.stringify({ file, columns: names, rows: json.at('rows') });
      const script = join(import.meta.dirname, 'arrow_values.py');
      const { stdout, stderr } = spawnSync(python, [script], { input, encoding: 'utf8', maxBuffer: 2 ** 26 });
      assert.equal(stderr, '');
      const { compared, different, types } = JSON.parse(stdout);
      assert.deepEqual(different, []);
      assert.ok(compared >= least, `${compared} values`);
      const plain = (type: string) => type.replaceAll(" ('entries')", '').replaceAll(' not null', '');
      for (const [column, [, type]] of Object.entries(columns)) assert.equal(plain(types[column]), type, column);
    });
  }
}
