// Rows as servers write them are rewritten to the JSON form of values in their own bytes: random rows of a printed seed, in which some values
// get shorter and others longer, and rows with spaces after their commas.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countedRows, rowsRewriter } from '../../../src/engines/clickhouse/types/json_rows.ts';
import { Random, seedFrom } from '../../random.ts';

const seed = seedFrom('REWRITTEN_ROWS_SEED');
console.log(`REWRITTEN_ROWS_SEED=${seed}`);
const random = new Random(seed);

/** A value as a server writes it, and as it is delivered. */
type Pair = readonly [written: string, delivered: string];

const digits = (count: number) => String(random.below(10 ** count)).padStart(count, '0');

function time(zone: 'Z' | ''): Pair {
  const whole = `20${digits(2)}-01-31T10:00:${digits(2)}`;
  const fraction = random.pick([digits(6), `${digits(2)}0000`, '000000', '100000', '000001']);
  const short = fraction.replace(/0+$/, '');
  return [`"${whole}.${fraction}Z"`, `"${whole}${short === '' ? '' : `.${short}`}${zone}"`];
}

function text(): Pair {
  const alphabet = ['a', '"', '\\', ',', ']', '[', '}', '\n', '2026-01-31T10:00:00Z', 'ß', '😀'];
  const value = Array.from({ length: random.below(random.pick([3, 80])) }, () => random.pick(alphabet)).join('');
  return [JSON.stringify(value), JSON.stringify(value)];
}

function bytes(): Pair {
  const value = Array.from({ length: random.below(5) }, () => random.below(128));
  const written = JSON.stringify(String.fromCharCode(...value));
  return [written, `"${Buffer.from(value).toString('base64')}"`];
}

const same = (value: string): Pair => [value, value];
const orNull = (make: () => Pair) => () => (random.chance(0.25) ? same('null') : make());

function list(make: () => Pair): Pair {
  const pairs = Array.from({ length: random.below(4) }, make);
  return [`[${pairs.map(([written]) => written)}]`, `[${pairs.map(([, delivered]) => delivered)}]`];
}

/** Newer servers write entries, older ones an object whose keys are texts. */
function map(key: () => Pair, value: () => Pair): Pair {
  const entries = Array.from({ length: random.below(4) }, () => [key(), value()] as const);
  const delivered = entries.map(([k, v]) => `{"key":${k[1]},"value":${v[1]}}`);
  const asObject = entries.map(([k, v]) => `${k[0].startsWith('"') ? k[0] : `"${k[0]}"`}:${v[0]}`);
  const asList = entries.map(([k, v]) => random.pick([`[${k[0]},${v[0]}]`, `{"keys":${k[0]},"values":${v[0]}}`]));
  return [random.chance(0.5) ? `{${asObject}}` : `[${asList}]`, `[${delivered}]`];
}

const float = (): Pair => random.pick([same('1.5e-7'), same('-0'), ['"nan"', '"NaN"'], ['"-inf"', '"-Infinity"']]);

const columns: Readonly<Record<string, () => Pair>> = {
  Int64: () => same(digits(6)),
  'Nullable(String)': orNull(text),
  'Array(Nullable(String))': () => list(orNull(text)),
  'Nullable(Float64)': orNull(() =>
    random.pick([same('1.5e-7'), same('-0'), ['"nan"', '"NaN"'], ['"-inf"', '"-Infinity"'], ['"inf"', '"Infinity"']]),
  ),
  "Nullable(DateTime64(6, 'Etc/UTC'))": orNull(() => time('')),
  "Array(Nullable(DateTime64(6, 'UTC')))": () => list(orNull(() => time('Z'))),
  'SimpleAggregateFunction(anyLast, Nullable(String))': orNull(bytes),
  'Map(String, Nullable(Int64))': () =>
    map(
      text,
      orNull(() => same(digits(6))),
    ),
  "Map(DateTime64(6, 'UTC'), Map(Int128, SimpleAggregateFunction(anyLast, String)))": () =>
    map(
      () => time('Z'),
      () => map(() => same(digits(6)), bytes),
    ),
  'Map(LowCardinality(Float64), Array(Nullable(String)))': () => map(float, () => list(orNull(text))),
  'Map(Bool, Map(SimpleAggregateFunction(anyLast, String), Nullable(Float64)))': () =>
    map(
      () => same(random.pick(['true', 'false'])),
      () => map(bytes, orNull(float)),
    ),
  'Nullable(Bool)': orNull(() => same(random.pick(['true', 'false']))),
};

test('each value is delivered in its form, whatever is before and after it', () => {
  for (let round = 0; round < 200; round++) {
    const types = Array.from({ length: 1 + random.below(6) }, () => random.pick(Object.keys(columns)));
    const rows = Array.from({ length: random.below(6) }, () => types.map((type) => (columns[type] as () => Pair)()));
    for (const comma of [',', ', ']) {
      const lines = (index: 0 | 1) => rows.map((row) => `[${row.map((pair) => pair[index]).join(comma)}],\n`).join('');
      const { rows: rewritten, rowCount } = rowsRewriter(types)(Buffer.from(lines(0)));
      assert.equal(rewritten.toString(), lines(1), types.join());
      assert.equal(rowCount, rows.length);
      // Few superfluous bytes may become spaces: the values are the same.
      const blanks = rowsRewriter(types, { blanksMax: 2 })(Buffer.from(lines(0)));
      const valuesOf = (rows: string) => rows.replaceAll(/("(?:[^"\\]|\\.)*")| +/g, '$1');
      assert.equal(valuesOf(blanks.rows.toString()), valuesOf(lines(1)), types.join());
      assert.equal(blanks.rowCount, rows.length);
      assert.doesNotMatch(blanks.rows.toString(), /Z" {3}/);
    }
  }
});

test('a time keeps few superfluous bytes as spaces, and loses more', () => {
  const rewrite = rowsRewriter(["Nullable(DateTime64(6, 'Etc/UTC'))", 'Int64'], { blanksMax: 2 });
  const delivered = (fraction: string) =>
    rewrite(Buffer.from(`["2026-01-31T10:00:00.${fraction}Z",1],\n`)).rows.toString();
  assert.equal(delivered('123456'), '["2026-01-31T10:00:00.123456" ,1],\n');
  assert.equal(delivered('123450'), '["2026-01-31T10:00:00.12345"  ,1],\n');
  assert.equal(delivered('123400'), '["2026-01-31T10:00:00.1234",1],\n');
  assert.equal(delivered('000000'), '["2026-01-31T10:00:00",1],\n');
});

test('keys of maps that are wide numbers are strings on request, also those of older servers', () => {
  const written = '[{"5":{"1.50":1}},[[5,[["1.50",1]]]]],\n';
  const delivered = (numbers: 'number' | 'string') =>
    rowsRewriter(['Map(Int64, Map(Decimal(9, 2), UInt8))', 'Map(Int64, Map(String, UInt8))'], { numbers })(
      Buffer.from(written),
    ).rows.toString();
  const entry = (key: string, text: string) => `[{"key":${key},"value":[{"key":${text},"value":1}]}]`;
  assert.equal(delivered('number'), `[${entry('5', '1.50')},${entry('5', '"1.50"')}],\n`);
  assert.equal(delivered('string'), `[${entry('"5"', '"1.50"')},${entry('5', '"1.50"')}],\n`);
  const nested = rowsRewriter(['Map(Array(Int8), UInt8)']);
  assert.throws(() => nested(Buffer.from('[{"[1,2]":3}],\n')), { code: 'SQL_NOT_SUPPORTED' });
  assert.equal(nested(Buffer.from('[[[[1,2],3]]],\n')).rows.toString(), '[[{"key":[1,2],"value":3}]],\n');
});

test('rows are counted at any address, beside bytes that resemble newlines', () => {
  for (let run = 0; run < 2000; run++) {
    const offset = random.below(8);
    const buffer = Buffer.alloc(offset + random.below(40));
    for (let i = 0; i < buffer.length; i++) buffer[i] = random.pick([0x0a, 0x0a, 0x0b, 0x09, 0x8a, 0x00, 0xff]);
    const rows = buffer.subarray(offset);
    assert.equal(countedRows(rows).rowCount, rows.filter((byte) => byte === 0x0a).length);
  }
});
