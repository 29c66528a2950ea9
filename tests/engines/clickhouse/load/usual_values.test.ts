// Texts of a file that a server reads in their usual forms are the values that all forms give, and any other text is refused: for each type texts
// that are usual, unusual and wrong, on a real server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { MappedColumn } from '../../../../src/engines/clickhouse/load/column_mapping.ts';
import type { FileShape } from '../../../../src/engines/clickhouse/load/file_shape.ts';
import { nativeSource } from '../../../../src/engines/clickhouse/load/native_source.ts';
import { faultCount, rowSql } from '../../../../src/engines/clickhouse/load/row_values.ts';
import { usualRow, usualSettings } from '../../../../src/engines/clickhouse/load/usual_values.ts';
import { parseType } from '../../../../src/model/types.ts';
import { deadlineMs } from '../../../deadline.ts';
import { missingRing, type Ring, startRing } from '../ring/ring.ts';

const skip = missingRing;
let ring: Ring;
before(async () => {
  if (skip === false) ring = await startRing(1);
});
after(() => ring?.close());

const integers = [
  '0',
  '-1',
  '127',
  '128',
  '32768',
  '2147483648',
  '9223372036854775808',
  '1.0',
  '1e2',
  ' 1',
  '+1',
  '0x1',
  '007',
  '1.5',
  'x',
];
const numbers = [
  ...integers,
  '0.1',
  '-0.0',
  '1e999',
  'inf',
  'nan',
  '.5',
  '1.',
  '1_0',
  '1,5',
  '12345.678',
  '9999999.99',
  '99999999.99',
  '1.999',
];
const dates = [
  '2024-02-29',
  '2023-02-29',
  '1899-12-31',
  '1900-01-01',
  '2299-12-31',
  '2300-01-01',
  '2024-2-9',
  '2024/02/09',
  '20240209',
  ' 2024-02-09',
  'x',
];
const times = [
  ...dates,
  ...[
    'T10:00:00',
    ' 10:00:00.5',
    'T10:00:00.123456',
    'T10:00:00.1234567',
    'T10:61:00',
    'T25:00:00',
    'T10:00',
    'T',
    'T10:00:00Z',
  ].map((time) => `2024-02-29${time}`),
  '2024-02-29T10:00:00+02:00',
  '2023-02-29T10:00:00Z',
  '2024-02-29T10:00:00.5Z',
  '2024-02-29TT10:00:00',
];
const texts: Readonly<Record<string, readonly string[]>> = {
  BOOLEAN: ['true', 'false', 'TRUE', 't', '1', '0', 'on', 'x'],
  TINYINT: integers,
  SMALLINT: integers,
  INT: integers,
  BIGINT: integers,
  FLOAT: numbers,
  DOUBLE: numbers,
  'DECIMAL(9,2)': numbers,
  'DECIMAL(18,2)': numbers,
  'DECIMAL(38,0)': numbers,
  DATE: dates,
  DATETIME: times,
  TIMESTAMPTZ: times,
  'VARCHAR(3)': ['abc', 'ßß😀', 'abcd', ' '],
  STRING: ['abc', 'ß😀', ' '],
  UUID: ['00000000-0000-0000-0000-00000000000a', '0000000000000000000000000000000a', 'x'],
};

async function ask(sql: string, settings: Readonly<Record<string, string | number>>): Promise<unknown[][]> {
  const query = new URLSearchParams(Object.entries(settings).map(([name, value]) => [name, String(value)]));
  const signal = AbortSignal.timeout(deadlineMs(10_000));
  const response = await fetch(`${ring.nodes[0]?.url}/?${query}`, { method: 'POST', body: sql, signal });
  const text = await response.text();
  assert.ok(response.ok, text);
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as unknown[]]));
}

for (const [name, list] of Object.entries(texts))
  test(`of ${name}`, { skip }, async () => {
    const file = { name: 'c', type: parseType('STRING') };
    const shape: FileShape = { file: { path: '', format: 'ndjson', csv: {} }, csv: {}, columns: [file] };
    const column = { name: 'c', type: parseType(name), nullable: true };
    const mapped: readonly MappedColumn[] = [{ column, source: file, expression: undefined }];
    const native = nativeSource(shape, mapped, []);
    assert.ok(native);
    const values = [...list, ''].map((text) => `('${text}')`).join(', ');
    const from = `(SELECT c AS \`_raw_0\` FROM values('c Nullable(String)', ${values}, (NULL)))`;
    const row = rowSql(shape, mapped, native.raws, { source: from, isJsonChecked: false });
    const usual = usualRow(shape, mapped, native.raws);
    assert.ok(usual);
    const select = (value: string, fault: string) =>
      `SELECT \`_raw_0\`, ${value}, toUInt8(ifNull(${fault}, 1)) FROM ${from} FORMAT JSONCompactEachRow`;
    const { settings } = native;
    const expected = await ask(select(row.columns[0]?.value ?? '', `(${faultCount(row)}) > 0`), settings);
    const found = await ask(select(usual.values[0] ?? '', usual.fault), { ...settings, ...usualSettings });
    assert.equal(found.length, list.length + 2);
    let accepted = 0;
    for (const [i, [text, value, fault]] of found.entries()) {
      if (fault === 1) continue;
      accepted++;
      assert.deepEqual([text, value, fault], expected[i]);
    }
    // Null, and a text.
    assert.ok(accepted >= 2, 'the usual forms are refused');
  });
