// Texts that are made to take long to read: the thread that reads them has other callers, too. Each would take minutes if the time grew with
// the square of its length.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { spentMs } from '../deadline.ts';

const reader = new URL('./read_text.ts', import.meta.url);
/** It takes less than a second. */
const readMs = spentMs(5_000);

const texts: Readonly<Record<string, readonly [engine: 'duckdb' | 'clickhouse', sql: string]>> = {
  'WITH again and again': ['duckdb', 'WITH '.repeat(209_000)],
  'many common tables and many names': [
    'duckdb',
    `WITH ${'a AS(x),'.repeat(65_000)} SELECT 1 FROM ${'b,'.repeat(240_000)}b`,
  ],
  'many common tables of one name': ['duckdb', `${'(WITH a AS(x))'.repeat(40_000)} FROM ${'a,'.repeat(200_000)}a`],
  'many tables in brackets': ['duckdb', `FROM ${'(a,b,'.repeat(150_000)}`],
  'WITH again and again on ClickHouse': ['clickhouse', 'WITH '.repeat(99_000)],
  'common tables of one name on ClickHouse': [
    'clickhouse',
    `SELECT ${'(WITH a AS(x)SELECT 1),'.repeat(6_000)}1 FROM ${'a,'.repeat(16_000)}a`,
  ],
  'a name of many parts on ClickHouse': [
    'clickhouse',
    `SELECT 1 FROM a${'.a'.repeat(24_000)} WHERE a${'.a'.repeat(24_000)}`,
  ],
  'aliases in a bracket on ClickHouse': ['clickhouse', `SELECT f(${'a AS b,'.repeat(24_000)}1)`],
  'casts to types that do not end on ClickHouse': ['clickhouse', `SELECT ${'1::a<'.repeat(24_000)}1`],
};

describe('a long text', () => {
  for (const [name, [engine, sql]] of Object.entries(texts))
    test(`${name} is read`, async () => {
      const worker = new Worker(reader, { workerData: { engine, sql } });
      const late = AbortSignal.timeout(readMs);
      try {
        const [code] = await once(worker, 'exit', { signal: late });
        assert.equal(code, 0);
      } finally {
        await worker.terminate();
      }
    });
});
