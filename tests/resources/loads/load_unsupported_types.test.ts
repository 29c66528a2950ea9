// Tables created from files with types that tables do not have: each becomes the nearest type, also inside other types.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { uri } from '../../server.ts';
import { startLoading } from './loading_server.ts';

const ns = "'2024-01-02 03:04:05.123456789'::TIMESTAMP_NS";
const time = '2024-01-02T03:04:05.123456';
/** The expression in the file, and the resulting column and value. */
const columns: readonly (readonly [string, string, unknown])[] = [
  [`${ns} AS at`, 'at DATETIME', time],
  [`[${ns}] AS many`, 'many ARRAY<DATETIME>', [time]],
  [
    `{'at': ${ns}, 'of day': '03:04:05'::TIME} AS one`,
    'one STRUCT<at: DATETIME, "of day": STRING>',
    { at: time, 'of day': '03:04:05' },
  ],
  [`'03:04:05'::TIME AS of_day`, 'of_day STRING', '03:04:05'],
  [`'b'::ENUM ('a', 'b') AS letter`, 'letter STRING', 'b'],
  ['18446744073709551615::UBIGINT AS wide', 'wide LARGEINT', 18446744073709551615n],
];

test('unsupported types become the nearest supported type', async (t) => {
  const { server, directory, close } = await startLoading();
  t.after(close);
  const path = join(directory, 'others.parquet');
  const connection = await (await DuckDBInstance.create()).connect();
  await connection.run(`COPY (SELECT ${columns.map(([value]) => value).join(', ')}) TO '${path}' (FORMAT parquet)`);
  connection.closeSync();
  const post = await server.post(uri`/databases/${'d'}/load`, { table: 'others', source: { path } });
  const { text } = await server.ended(post);
  assert.match(text, /"state":"succeeded"/);
  const record = (await server.get(uri`/databases/${'d'}/tables/${'others'}`)).is(200);
  const types = record.at<{ name: string; type: string }[]>('columns').map(({ name, type }) => `${name} ${type}`);
  assert.deepEqual(
    types,
    columns.map(([, column]) => column),
  );
  const row = JSON.stringify(
    columns.map(([, , value]) => value),
    (_, value) => (typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value),
  );
  const selected = await server.query('d', 'SELECT * FROM others');
  assert.ok(selected.text.includes(`"rows":[${row}]`), selected.text);
});
