// The rows of a page are those that JSON.parse finds, whatever is in them and wherever lines end, and are decoded while they are read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errors } from '../../src/client/errors.ts';
import { ExactNumber } from '../../src/client/json/exact_json.ts';
import { PageRows, parsePage } from '../../src/client/json/page_rows.ts';
import { Random } from '../random.ts';

interface Parsed {
  readonly code: string;
  readonly result: { readonly rows: Iterable<readonly unknown[]>; readonly nextPage?: string };
}

const parsed = (text: string) => parsePage(text) as Parsed;
const head = '{"code":"0","message":"OK","result":{"columns":[{"name":"\\"rows\\":[","type":"STRING"}],"rows":[';
const tail = '],"nextPage":"/api/v2/tasks/t/pages/2","rowsBefore":7}}';
const textOf = (rows: readonly string[]) => `${head}${rows.join(',\n')}${tail}`;
/** More rows than are decoded at once. */
const manyRows = Array.from({ length: 30_000 }, (_, n) => `["${n}","text"]`);

test('rows are those of the whole text, and so is all else', () => {
  const page = parsed(textOf(manyRows));
  assert.ok(page.result.rows instanceof PageRows);
  for (let time = 0; time < 2; time++)
    assert.deepEqual(
      [...page.result.rows],
      manyRows.map((row) => JSON.parse(row) as unknown),
    );
  const { rows: _rows, ...rest } = JSON.parse(textOf(manyRows)).result;
  const { rows: _pageRows, ...restOfPage } = page.result;
  assert.deepEqual([page.code, restOfPage], ['0', rest]);
});

test('values have what separates rows elsewhere', () => {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 32) >>> 0;
  const random = new Random(seed);
  const pieces = [
    '],\n[',
    '"rows":[',
    ']',
    '[',
    '"',
    '\\',
    ',\n',
    '\n',
    '{',
    '}}',
    ' ',
    'é',
    '😀',
    '\u2028',
    'x'.repeat(900),
  ];
  for (let time = 0; time < 6; time++) {
    const values = () => Array.from({ length: random.below(7) }, () => random.pick(pieces));
    const rows = Array.from({ length: 200 + random.below(1800) }, () => [
      values().join(''),
      values(),
      { [values().join('')]: null },
      'y'.repeat(random.chance(0.005) ? 200_000 : random.below(20)),
    ]);
    for (const written of [
      textOf(rows.map((row) => JSON.stringify(row))),
      textOf(rows.map((row) => JSON.stringify(row, undefined, 1))),
      JSON.stringify({ code: '0', result: { rows } }),
      JSON.stringify({ code: '0', result: { rows } }, undefined, 2),
    ])
      assert.deepEqual([...parsed(written).result.rows], rows, `seed ${seed}`);
  }
});

test('numbers that a double does not hold are exact', () => {
  const rows = parsed(textOf([...manyRows, '[12345678901234567890,1.00000000000000000001]', ...manyRows])).result.rows;
  assert.deepEqual([...rows][manyRows.length], [
    12_345_678_901_234_567_890n,
    new ExactNumber('1.00000000000000000001'),
  ]);
});

test('rows before a part that is not JSON can be read', () => {
  const rows = parsed(textOf([...manyRows, '[1', ...manyRows])).result.rows;
  let read = 0;
  assert.throws(() => {
    for (const _row of rows) read++;
  }, errors.NO_ENVELOPE);
  assert.ok(read > 10_000 && read <= manyRows.length, `${read} rows`);
});

test('a text that is not JSON in its first or last line is refused', () => {
  for (const text of ['', '{', 'rows', textOf(manyRows).slice(0, -1), textOf(manyRows).slice(1)])
    assert.throws(() => parsePage(text), SyntaxError);
});
