// A result whose server fails in the middle: its reader meets the text of the error before the end of the stream, and may find that it is no row.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { ClickHouseError } from '../../../src/engines/clickhouse/connection/clickhouse_error.ts';
import { readResult } from '../../../src/engines/clickhouse/query/result_stream.ts';

const spool = mkdtempSync(join(tmpdir(), 'tabularium-results-'));
after(() => rmSync(spool, { recursive: true }));

const head = '["v"],\n["Array(Float64)"],\n[[1.5]],\n';
const error = new ClickHouseError(395, 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO', 'not a "row');

/** The bytes as a socket gives them, each chunk after the one before was read; then the stream ends with the error. */
const failing = (chunks: readonly string[], end: Error | null = error): Readable =>
  Readable.from(
    (async function* () {
      for (const chunk of chunks) yield Buffer.from(chunk);
      if (end) throw end;
    })(),
    { highWaterMark: 1 },
  );

const read = (stream: Readable, name: string, pageBytesMax = 1024 * 1024) =>
  readResult(stream, { numbers: 'number', resultPath: join(spool, name), pageBytesMax, rowsMax: undefined });

const texts: Readonly<Record<string, readonly string[]>> = {
  'after whole rows': [`${head}\r\n__exception__\r\nabc\r\n`, 'Code: 395. DB::Exception: not a "row\n'],
  'within a row': [`${head}[["`, '\nCode: 395. DB::Exception: not a "row. (version 26.7)\n'],
  'within the header': ['["v', '"\nCode: 395. DB::Exception: not a "row\n'],
};
for (const [name, chunks] of Object.entries(texts))
  test(`an error that a server writes ${name} is the error of the result`, async () => {
    const stream = failing(chunks);
    await assert.rejects(read(stream, name, 1), error);
    assert.ok(stream.destroyed);
    assert.equal(existsSync(join(spool, `${name}.rows`)), false);
  });

test('rows that cannot be read, of a server that does not fail, are an error of their own', async () => {
  const stream = failing([`${head}[["`, '\n;'], null);
  await assert.rejects(read(stream, 'broken'), /does not end/);
  assert.ok(stream.destroyed);
});
