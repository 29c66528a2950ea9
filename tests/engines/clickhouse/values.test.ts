// Values of all types are stored exactly: at their limits, nested, and random ones of a printed seed. A statement cannot store a value that its
// column does not have.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import type { TypeKind } from '../../../src/model/types.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { parseJson } from '../../../src/standard/json/parse_json.ts';
import { failureOf, openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { Random, seedFrom } from '../../random.ts';
import { engineOf } from '../engine_under_test.ts';
import { newClusterEngine } from './engine.ts';
import { missingRing } from './ring/ring.ts';

const seed = seedFrom('VALUES_SEED');
console.log(`VALUES_SEED=${seed}`);

/** By type: the JSON texts of values, as they are inserted and, if that is another text, as they are read. */
const values: Readonly<Record<TypeKind, readonly [type: string, ...values: (string | readonly [string, string])[]]>> = {
  BOOLEAN: ['BOOLEAN', 'true', 'false'],
  TINYINT: ['TINYINT', '-128', '127'],
  SMALLINT: ['SMALLINT', '-32768', '32767'],
  INT: ['INT', '-2147483648', '2147483647'],
  BIGINT: ['BIGINT', '-9223372036854775808', '9223372036854775807', '9007199254740993'],
  LARGEINT: [
    'LARGEINT',
    '-170141183460469231731687303715884105728',
    '170141183460469231731687303715884105727',
    '9007199254740993',
  ],
  FLOAT: ['FLOAT', '0.1', '"NaN"', '"-Infinity"', ['-0.0', '-0'], ['3.4028234663852886e+38', '3.4028235e38']],
  DOUBLE: [
    'DOUBLE',
    '0.1',
    '"NaN"',
    '"Infinity"',
    ['-0.0', '-0'],
    '5e-324',
    ['1.7976931348623157e+308', '1.7976931348623157e308'],
  ],
  DECIMAL: [
    'DECIMAL(38,2)',
    '-999999999999999999999999999999999999.99',
    '999999999999999999999999999999999999.99',
    ['0.1', '0.10'],
    ['7', '7.00'],
  ],
  DATE: ['DATE', '"1900-01-01"', '"2299-12-31"', '"2024-02-29"', '"1969-12-31"'],
  DATETIME: [
    'DATETIME',
    '"1900-01-01T00:00:00"',
    '"2299-12-31T23:59:59.999999"',
    '"1969-12-31T23:59:59.000001"',
    ['"2026-03-08 02:30:00.500000000"', '"2026-03-08T02:30:00.5"'],
  ],
  TIMESTAMPTZ: [
    'TIMESTAMPTZ',
    ['"2026-01-31T10:00:00.25+02:00"', '"2026-01-31T08:00:00.25Z"'],
    '"1900-01-01T00:00:00Z"',
    ['"2299-12-31T23:59:59.999999-00:00"', '"2299-12-31T23:59:59.999999Z"'],
  ],
  CHAR: ['CHAR(3)', '"a"', '"😀é "'],
  VARCHAR: ['VARCHAR(3)', '""', '"1.0"'],
  STRING: ['STRING', '"1"', String.raw`"line\nnext \"x\" \\ \\N"`, String.raw`"\u0000\u0001\t"`, '"null"', '"nan"'],
  BINARY: ['BINARY', '"AP8="', '""', '"IlwKDQA="', '"+/+/"'],
  JSON: ['JSON', '{"q":[1,"z",null]}', '"text"', '12345678901234567890123', String.raw`{"a":"x\"\\\n"}`, 'true', '[]'],
  UUID: ['UUID', ['"00112233-4455-6677-8899-AABBCCDDEEFF"', '"00112233-4455-6677-8899-aabbccddeeff"']],
  ARRAY: [
    'ARRAY<ARRAY<DECIMAL(38,1)>>',
    ['[[1,null,2.5],null,[]]', '[[1.0,null,2.5],null,[]]'],
    '[[123456789012345678.3,-9999999999999999999999999999999999999.9]]',
    '[]',
  ],
  MAP: [
    'MAP<TIMESTAMPTZ, MAP<LARGEINT, BINARY>>',
    '[{"key":"2026-01-31T08:00:00Z","value":[{"key":170141183460469231731687303715884105727,"value":"AP8="}]}]',
    '[{"key":"2026-01-31T08:00:00.000001Z","value":null}]',
    '[]',
  ],
  STRUCT: [
    `STRUCT<x: INT, "y ""'z": ARRAY<STRUCT<j: JSON, f: DOUBLE>>>`,
    String.raw`{"x":null,"y \"'z":[{"j":{"a":[1]},"f":"NaN"},null]}`,
    String.raw`{"x":1,"y \"'z":null}`,
  ],
};

const randomCount = 200;
/** A random value of a type as the text with which it is inserted and read. */
const randomText: Partial<Record<TypeKind, (random: Random) => string>> = {
  BIGINT: (random) => String(randomInteger(random, 64)),
  LARGEINT: (random) => String(randomInteger(random, 128)),
  DOUBLE: (random) => doubleText(random),
  DECIMAL: (random) => {
    const digits = String(randomInteger(random, 120)).replace('-', '').padStart(3, '0');
    return `${random.chance(0.5) ? '' : '-'}${digits.slice(0, -2)}.${digits.slice(-2)}`.replace(/^-(0\.00)$/, '$1');
  },
  DATE: (random) => JSON.stringify(randomTime(random).slice(0, 10)),
  TIMESTAMPTZ: (random) => JSON.stringify(`${randomTime(random)}Z`),
  // Servers escape the line separator.
  STRING: (random) => JSON.stringify(randomString(random)).replaceAll('\u2028', String.raw`\u2028`),
  BINARY: (random) =>
    JSON.stringify(
      Buffer.concat([
        Buffer.from(Array.from({ length: random.below(40) }, () => random.below(256))),
        Buffer.from(randomString(random)),
      ]).toString('base64'),
    ),
  JSON: (random) => JSON.stringify({ [randomString(random)]: [randomString(random), random.below(1e9), null] }),
};

function randomInteger(random: Random, bits: number): bigint {
  let value = 0n;
  for (let i = 0; i < bits; i += 16) value = (value << 16n) | BigInt(random.below(65536));
  return BigInt.asIntN(1 + random.below(bits), value);
}

function doubleText(random: Random): string {
  const bytes = Buffer.from(Array.from({ length: 8 }, () => random.below(256)));
  const value = bytes.readDoubleLE();
  return Number.isFinite(value) ? String(value).replace('e+', 'e') : '"NaN"';
}

const [firstMs, lastMs] = [Date.parse('1900-01-01'), Date.parse('2300-01-01')];

function randomTime(random: Random): string {
  const seconds = new Date(firstMs + Math.floor(random.next() * (lastMs - firstMs))).toISOString().slice(0, 19);
  const micros = String(random.below(1_000_000)).padStart(6, '0').replace(/0+$/, '');
  return micros === '' ? seconds : `${seconds}.${micros}`;
}

const pieces = ['\n', '"', '\\', '\u0000', '\t', "'", '`', '😀', 'é', 'a', ',', '[', '}', '\u2028', '\u007f', ';'];
const randomString = (random: Random): string =>
  Array.from({ length: random.below(12) }, () => random.pick(pieces)).join('');

/** Imported for another cluster (`suitesOnEngine`), it needs none of this machine. */
const isOfAnother = new URL(import.meta.url).searchParams.has('engine');
const missing = isOfAnother ? false : missingRing;

describe('values', { skip: missing }, async () => {
  if (missing !== false) return;
  const tested = isOfAnother ? engineOf(import.meta.url).engine : newClusterEngine(1, 'shards');
  const world = await openEngine({}, tested);
  after(() => world.close());

  for (const [kind, [type, ...pairs]] of Object.entries(values))
    test(`of ${kind}`, async () => {
      const random = new Random(seed);
      const make = randomText[kind as TypeKind];
      const texts = [
        ...pairs.map((pair) => (typeof pair === 'string' ? ([pair, pair] as const) : pair)),
        ...Array.from({ length: make ? randomCount : 0 }, () => {
          const text = make?.(random) ?? '';
          return [text, text] as const;
        }),
      ];
      const table = `of_${kind}`;
      const definition = await world.table(table, { n: 'INT', v: type });
      const inserted = texts.map(([text], n) => [n, parseJson(text)]);
      const batch = rowReader(definition.columns).read([...inserted, [texts.length, null]]);
      const ref = { catalog: world.catalog, database: world.database, table };
      await world.engine.insertRows(ref, batch, { signal: new AbortController().signal, definition });
      const { rows } = await world.run(`SELECT v FROM ${table} ORDER BY n`);
      const expected = [...texts.map(([, text]) => text), 'null'].map((text) => `[${text}]`);
      assert.equal(rows.kind, 'text');
      const read = rows.kind === 'text' ? rows.text.split(',\n') : [];
      // One by one, so that a failure shows the value.
      for (const [n, text] of expected.entries()) assert.equal(read[n], text);
      assert.equal(read.length, expected.length);
      // Copied by a statement, they are the same.
      await world.table(`copy_${kind}`, { n: 'INT', v: type });
      await world.run(`INSERT INTO copy_${kind} (n, v) SELECT n, v FROM ${table}`);
      assert.deepEqual((await world.run(`SELECT v FROM copy_${kind} ORDER BY n`)).rows, rows);
    });

  test('64-bit and wider numbers are strings on request, also within other values', async () => {
    const { rows } = await world.run('SELECT v FROM of_MAP WHERE n = 0', { numbers: 'string' });
    const text =
      '[[{"key":"2026-01-31T08:00:00Z","value":[{"key":"170141183460469231731687303715884105727","value":"AP8="}]}]]';
    assert.deepEqual(rows, { kind: 'text', text });
  });

  test('rows with dates that the servers do not have are refused by index', async () => {
    const definition = await world.table('dates', { d: 'DATE', t: 'ARRAY<TIMESTAMPTZ>' });
    const batch = rowReader(definition.columns).read([
      ['1899-12-31', null],
      ['2000-01-01', ['2299-12-31T23:00:00-01:30']],
    ]);
    const ref = { catalog: world.catalog, database: world.database, table: 'dates' };
    const failure = await failureOf(
      world.engine.insertRows(ref, batch, { signal: new AbortController().signal, definition }),
    );
    assert.equal(failure.code, 'ROWS_INVALID');
    assert.deepEqual(
      (failure.result.violations as { pointer: string }[]).map(({ pointer }) => pointer),
      ['/rows/0/d', '/rows/1/t'],
    );
    assert.deepEqual(await rowsOf(world, 'SELECT count(*) FROM dates'), [[0]]);
  });

  test('a statement that stores a value of another type is refused, and stores nothing', async () => {
    for (const [table, value] of [
      ['of_INT', `'x'`],
      ['of_TINYINT', '128'],
      ['of_TINYINT', '64 + 64'],
      ['of_TINYINT', `'128'`],
      ['of_BIGINT', '9223372036854775808'],
      ['of_INT', '1.5'],
      ['of_DATE', `'2026-02-30'`],
      ['of_DATE', `'2300-01-01'`],
      ['of_DECIMAL', '1000000000000000000000000000000000000'],
      ['of_VARCHAR', `'abcd'`],
      ['of_UUID', `'x'`],
      ['of_JSON', `'{'`],
    ] as const) {
      const { code } = await failureOf(world.run(`INSERT INTO ${table} (n, v) VALUES (9999, ${value})`));
      assert.ok(['CONSTRAINT_VIOLATED', 'SQL_INVALID'].includes(code), `${table} ${value}: ${code}`);
      assert.deepEqual(await rowsOf(world, `SELECT count(*) FROM ${table} WHERE n = 9999`), [[0]]);
    }
  });
});
