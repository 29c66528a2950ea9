// The snippets of docs/python.md, in their order, as one program against a real server.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { deadlineMs } from '../deadline.ts';
import { start } from '../server.ts';
import { python, skipWithout } from './python.ts';

const skip = skipWithout('httpx', 'pandas', 'polars', 'duckdb', 'pyarrow');

test('the snippets of docs/python.md run', { skip }, async () => {
  const server = await start();
  try {
    (await server.put('/api/v2/databases/shop')).is(201);
    const sql = 'CREATE TABLE orders (id BIGINT, price DECIMAL(18,2), ordered DATETIME)';
    (await server.post('/api/v2/databases/shop/tables', { sql })).is(201);
    const rows = "(1, 9.50, '2026-01-31 10:00:00'), (2, 20.25, '2026-02-01 12:30:00.5')";
    (await server.query('shop', `INSERT INTO orders VALUES ${rows}`)).is(200);
    const page = readFileSync(resolve(import.meta.dirname, '../../docs/python.md'), 'utf8');
    const snippets = [...page.matchAll(/^```python\n(.*?)^```$/gms)].map(([, code]) => code as string);
    assert.equal(snippets.length, 4);
    const env = { ...process.env, URL: server.url, TOKEN: server.token };
    const options = { env, timeout: deadlineMs(60_000) };
    const { stdout } = await promisify(execFile)(python, ['-c', snippets.join('\n')], options);
    const lines = stdout.trim().split('\n');
    assert.equal(lines.length, 3, stdout);
    for (const line of lines)
      assert.match(line, /29\.75.*(?:2026-02-01 12:30:00\.5|2026, 2, 1, 12, 30, 0, 500000)/, stdout);
  } finally {
    await server.close();
  }
});
