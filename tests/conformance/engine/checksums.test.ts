// The checksums of tables: every engine computes those of the definition (src/model/table_checksum.ts), for every logical type.
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { after, test } from 'node:test';
import type { InsertStep } from '../../../src/engines/port/rows.ts';
import { checksumDifference } from '../../../src/model/table_checksum.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { parseJson } from '../../../src/standard/json/parse_json.ts';
import { engineOf } from '../../engines/engine_under_test.ts';
import { openEngine } from './engine_world.ts';

const { engine: testEngine } = engineOf(import.meta.url);
const world = await openEngine({}, testEngine);
after(() => world.close());
const { engine, catalog, database } = world;
const { signal } = new AbortController();

const md5 = (bytes: string | Buffer): bigint => createHash('md5').update(bytes).digest().readBigUInt64LE(8);
const bits = (value: number): bigint => {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return bytes.readBigInt64LE();
};
const P = 2n ** 31n - 1n;
const Q = 2n ** 61n - 1n;
const sumsOf = (numbers: readonly bigint[]) =>
  [(n: bigint) => n % P, (n: bigint) => n % Q, (n: bigint) => ((n % P) * (n % P)) % P].map((of) =>
    String(numbers.reduce((sum, n) => sum + of(n), 0n)),
  );

/** JSON texts of values, and the number of each by the definition. */
const values: Readonly<Record<string, readonly (readonly [json: string, number: bigint])[]>> = {
  BOOLEAN: [
    ['true', 1n],
    ['false', 0n],
  ],
  TINYINT: [
    ['-128', -128n],
    ['127', 127n],
  ],
  SMALLINT: [['-32768', -32768n]],
  INT: [
    ['-2147483648', -2147483648n],
    ['2147483647', 2147483647n],
  ],
  BIGINT: [
    ['-9223372036854775808', -(2n ** 63n)],
    ['9223372036854775807', 2n ** 63n - 1n],
  ],
  LARGEINT: [
    ['-170141183460469231731687303715884105727', 1n - 2n ** 127n],
    ['170141183460469231731687303715884105727', 2n ** 127n - 1n],
  ],
  FLOAT: [
    ['1.5', bits(1.5)],
    ['-0.0', bits(-0)],
    ['0.1', bits(Math.fround(0.1))],
    ['"-Infinity"', bits(Number.NEGATIVE_INFINITY)],
    ['"NaN"', 0x7ff8000000000000n],
  ],
  DOUBLE: [
    ['0.1', bits(0.1)],
    ['5e-324', 1n],
    ['"Infinity"', bits(Number.POSITIVE_INFINITY)],
  ],
  'DECIMAL(18, 3)': [
    ['-0.050', -50n],
    ['999999999999999.999', 999999999999999999n],
  ],
  'DECIMAL(38, 10)': [
    ['-9999999999999999999999999999.9999999999', 1n - 10n ** 38n],
    ['0.0000000001', 1n],
  ],
  DATE: [
    ['"1969-12-31"', -1n],
    ['"2299-12-31"', 120529n],
  ],
  DATETIME: [
    ['"1969-12-31T23:59:59.999999"', -1n],
    ['"2026-01-31T10:00:00"', 1769853600000000n],
  ],
  TIMESTAMPTZ: [['"2026-01-31T12:00:00.5+02:00"', 1769853600500000n]],
  'CHAR(4)': [['"ab"', md5('ab')]],
  'VARCHAR(20)': [['"é"', md5('é')]],
  STRING: [
    ['""', md5('')],
    ['"abc\\u0000d"', md5('abc\u0000d')],
  ],
  BINARY: [
    ['"AAE="', md5(Buffer.from([0, 1]))],
    ['""', md5('')],
  ],
  JSON: [['{"a":1}', md5('{"a":1}')]],
  UUID: [['"550E8400-e29b-41d4-a716-446655440000"', md5('550e8400-e29b-41d4-a716-446655440000')]],
  'ARRAY<INT>': [
    ['[]', md5('[]')],
    ['[1,null,-3]', md5('[1,n,-3,]')],
  ],
  'ARRAY<ARRAY<STRING>>': [['[["a,é"],null,[]]', md5('[[4:a,é,],n,[],]')]],
  'MAP<STRING, DOUBLE>': [['[{"key":"k","value":1.5},{"key":"l","value":null}]', md5(`{1:k=${bits(1.5)},1:l=n,}`)]],
  'STRUCT<a: DATE, b: BINARY, c: STRUCT<d: BOOLEAN>>': [
    ['{"a":"1970-01-02","b":"AAE=","c":{"d":true}}', md5('(1,4:0001,(1,),)')],
    ['{"a":null,"b":null,"c":null}', md5('(n,n,n,)')],
  ],
};

for (const [type, cases] of Object.entries(values))
  test(`the numbers of ${type} are those of the definition`, async () => {
    const name = `t${randomUUID()}`;
    const definition = await world.table(name, { v: type });
    const table = { catalog, database, table: name };
    const empty = await engine.checksumTable({ ...table, columns: definition.columns }, { signal });
    assert.deepEqual(empty, { rows: 0, columns: [{ nulls: 0, sums: ['0', '0', '0'] }] });
    // Repeated, so that an engine that hashes equal values once counts all of them.
    const rows = Array.from({ length: 6 }, () => cases.map(([json]) => `[${json}]`)).flat();
    const batch = rowReader(definition.columns).read(parseJson(`[${[...rows, '[null]'].join()}]`) as unknown[]);
    await engine.insertRows(table, batch, { signal, definition });
    const numbers = cases.map(([, number]) => number);
    assert.deepEqual(await engine.checksumTable({ ...table, columns: definition.columns }, { signal }), {
      rows: rows.length + 1,
      columns: [{ nulls: 1, sums: sumsOf(Array.from({ length: 6 }, () => numbers).flat()) }],
    });
  });

test('a changed value, a lost row and a value in another column are differences that name the column', () => {
  const columns = [{ name: 'a' }, { name: 'b' }];
  const sums = (...numbers: bigint[]) => ({ nulls: 0, sums: sumsOf(numbers) });
  const whole = { rows: 2, columns: [sums(1n, 2n), sums(3n, 4n)] };
  assert.equal(checksumDifference(columns, whole, { rows: 2, columns: [sums(2n, 1n), sums(4n, 3n)] }), undefined);
  const changed = { rows: 2, columns: [sums(1n, 2n), sums(2n, 5n)] };
  assert.deepEqual(checksumDifference(columns, whole, changed), { column: 'b' });
  assert.deepEqual(checksumDifference(columns, whole, { ...whole, rows: 3 }), { column: null });
  const multiple = { rows: 2, columns: [sums(1n + P, 2n), sums(3n, 4n)] };
  assert.deepEqual(checksumDifference(columns, whole, multiple), { column: 'a' });
});

test('recorded steps are listed in pages, and recorded in another catalog they are not repeated there', async () => {
  const definition = await world.table('stepped', { v: 'INT' });
  const table = { catalog, database, table: 'stepped' };
  const one = rowReader(definition.columns).read([[1]]);
  for (const step of ['s1', 's2', 's3'])
    await engine.insertRows(table, one, { signal, definition, steps: [{ step, rowCount: 1 }] });
  const found: InsertStep[] = [];
  for (let after: string | undefined; ; after = found.at(-1)?.step) {
    const page = await engine.recordedSteps({ catalog, limit: 2, ...(after === undefined ? {} : { after }) });
    if (page.length === 0) break;
    found.push(...page);
  }
  const inserted = found.filter(({ step }) => /^s\d$/.test(step));
  assert.deepEqual(
    inserted,
    ['s1', 's2', 's3'].map((step) => ({ step, rowCount: 1 })),
  );
  const other = { id: randomUUID(), name: `${catalog.name} other` };
  await world.change({ kind: 'createCatalog', catalog: other });
  const again = [...inserted, { step: 's4', rowCount: 2 }];
  assert.equal(await engine.recordSteps({ catalog: other, steps: inserted }), 3);
  assert.equal(await engine.recordSteps({ catalog: other, steps: again }), 1);
  assert.deepEqual(await engine.recordedSteps({ catalog: other, limit: 10 }), again);
});

test('a whole page of steps with long names is recorded in another catalog once', async () => {
  const other = { id: randomUUID(), name: `${catalog.name} many` };
  await world.change({ kind: 'createCatalog', catalog: other });
  const steps = Array.from({ length: 10_000 }, (_, n) => ({
    step: `${String(n).padStart(5, '0')} ${'s'.repeat(250)}`,
    rowCount: n,
  }));
  assert.equal(await engine.recordSteps({ catalog: other, steps }), steps.length);
  assert.equal(await engine.recordSteps({ catalog: other, steps }), 0);
  assert.deepEqual(await engine.recordedSteps({ catalog: other, limit: steps.length }), steps);
});
