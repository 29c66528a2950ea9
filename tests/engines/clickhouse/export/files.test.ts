// Exports write all of their files or none: several files of a size, the limit of their total size, rowsMax, no rows, cancelled ones, errors of a
// server in the middle of the rows, and values that a format cannot hold.
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import * as arrow from 'apache-arrow';
import type { ExportFormat } from '../../../../src/engines/port/export.ts';
import type { StatementResult } from '../../../../src/engines/port/statements.ts';
import { type EngineWorld, failureOf, openEngine } from '../../../conformance/engine/engine_world.ts';
import { eventually } from '../../../deadline.ts';
import { newClusterEngine } from '../engine.ts';
import { missingRing } from '../ring/ring.ts';

const csv = { kind: 'csv', compression: 'none', delimiter: ',', header: true, nullText: '' } as const;
const formats: Readonly<Record<string, ExportFormat>> = {
  csv,
  'compressed CSV': { ...csv, compression: 'gzip' },
  ndjson: { kind: 'ndjson', compression: 'none' },
  parquet: { kind: 'parquet', compression: 'snappy' },
  'an Arrow file': { kind: 'arrow', layout: 'file' },
  'an Arrow stream': { kind: 'arrow', layout: 'stream', compression: 'none' },
};
const rowCount = 100_000;
/** Numbers and texts that no compression makes small. */
const many = `SELECT number AS n, hex(sipHash128(number)) AS t FROM numbers(${rowCount}) ORDER BY n`;

describe('files of an export', { skip: missingRing }, () => {
  if (missingRing !== false) return;
  let world: EngineWorld;
  let reader: DuckDBConnection;
  before(async () => {
    world = await openEngine({}, newClusterEngine(1, 'shards'));
    reader = await (await DuckDBInstance.create(':memory:')).connect();
  });
  after(async () => {
    reader?.closeSync();
    await world?.close();
  });

  const pathsOf = ({ files }: StatementResult): string[] =>
    (files?.entries ?? []).map(({ name }) => join(files?.directory ?? '', name));

  async function numbersIn(path: string, format: ExportFormat): Promise<number[]> {
    if (format.kind === 'arrow')
      return [...(arrow.tableFromIPC(readFileSync(path)).getChild('n') ?? [])].map((value) => Number(value as bigint));
    if (format.kind === 'parquet') {
      const read = await reader.runAndReadAll(`SELECT n FROM read_parquet('${path.replaceAll("'", "''")}')`);
      return read.getRowsJson().map(([n]) => Number(n));
    }
    const bytes = readFileSync(path);
    const lines = (format.compression === 'gzip' ? gunzipSync(bytes) : bytes).toString().trimEnd().split('\n');
    if (format.kind === 'ndjson') return lines.map((line) => JSON.parse(line).n);
    assert.equal(lines.shift(), 'n,t');
    return lines.map((line) => Number(line.split(',')[0]));
  }

  afterEach(() => {
    for (const name of readdirSync(world.spool)) rmSync(join(world.spool, name), { recursive: true });
  });

  /** Nothing of an export remains. */
  const requireNothing = () => assert.deepEqual(readdirSync(world.spool), []);

  for (const [name, format] of Object.entries(formats)) {
    test(`several of ${name}, durable, with the rows in their order`, async () => {
      const fileBytesMax = 500_000;
      const result = await world.run(many, { into: { format, fileBytesMax, isDurable: true } });
      const entries = result.files?.entries ?? [];
      assert.ok(entries.length > 2, `${entries.length} files`);
      assert.equal(result.rowCount, rowCount);
      const read: number[] = [];
      for (const [i, path] of pathsOf(result).entries()) {
        const bytes = readFileSync(path);
        const numbers = await numbersIn(path, format);
        const sha256 = createHash('sha256').update(bytes).digest('hex');
        assert.deepEqual(entries[i], { name: entries[i]?.name, bytes: bytes.length, rows: numbers.length, sha256 });
        if (i + 1 < entries.length) assert.ok(bytes.length >= fileBytesMax, `${bytes.length} bytes`);
        assert.ok(bytes.length < 2.5 * fileBytesMax, `${bytes.length} bytes`);
        for (const n of numbers) read.push(n);
      }
      assert.deepEqual(
        read,
        Array.from({ length: rowCount }, (_, n) => n),
      );
    });

    test(`no rows: one file of ${name} with the columns`, async () => {
      const result = await world.run('SELECT 1 AS n, 2 AS t WHERE 1 = 0', { into: { format } });
      assert.equal(result.rowCount, 0);
      const [path = '', ...more] = pathsOf(result);
      assert.deepEqual(more, []);
      if (format.kind === 'ndjson') assert.equal(readFileSync(path, 'utf8'), '');
      else assert.deepEqual(await numbersIn(path, format), []);
    });

    test(`rows beyond rowsMax are not in ${name}`, async () => {
      for (const [rowsMax, truncated] of [
        [4999, true],
        [5000, false],
      ] as const) {
        const result = await world.run(`SELECT number AS n, 'x' AS t FROM numbers(5000)`, {
          into: { format },
          rowsMax,
        });
        assert.deepEqual([result.rowCount, result.truncated], [rowsMax, truncated]);
        assert.equal((await numbersIn(pathsOf(result)[0] ?? '', format)).length, rowsMax);
      }
    });

    test(`${name} beyond bytesMax is refused`, async () => {
      const failure = await failureOf(world.run(many, { into: { format, bytesMax: 500_000 } }));
      assert.deepEqual([failure.code, failure.result.roomBytes], ['FILE_QUOTA_EXCEEDED', 500_000]);
      requireNothing();
    });

    test(`an error in the middle of the rows leaves no file of ${name}`, async () => {
      const failing = `SELECT number AS n, intDiv(1, 400000 - number) AS t FROM numbers(500000)`;
      const failure = await failureOf(world.run(failing, { into: { format } }));
      assert.equal(failure.code, 'SQL_INVALID', failure.message);
      requireNothing();
    });

    test(`a cancelled export leaves no file of ${name}`, async () => {
      const canceller = new AbortController();
      const resultPath = join(world.spool, randomUUID());
      const endless = 'SELECT number AS n, hex(sipHash128(number)) AS t FROM numbers(100000000000)';
      const running = failureOf(world.run(endless, { into: { format }, resultPath, signal: canceller.signal }));
      await eventually('the export has begun', () => existsSync(`${resultPath}.files.incomplete`));
      canceller.abort();
      assert.equal((await running).code, 'STATEMENT_CANCELLED');
      requireNothing();
    });
  }

  test('columns of one name get others', async () => {
    const result = await world.run('SELECT 1 AS a, 2 AS "A"', { into: { format: csv } });
    assert.equal(readFileSync(pathsOf(result)[0] ?? '', 'utf8'), 'a,A_1\n1,2\n');
    assert.deepEqual(
      result.columns.map(({ name }) => name),
      ['a', 'A_1'],
    );
  });

  test('values that a format cannot hold are refused, with the column', async () => {
    const { parquet } = formats;
    assert.ok(parquet);
    for (const [sql, format] of [
      [`SELECT 1 AS a, toInt128('100000000000000000000000000000000000000') AS wide`, parquet],
      [`SELECT 1 AS a, unhex('ff') AS wide`, parquet],
      [`SELECT 1 AS a, unhex('ff') AS wide`, csv],
      [`SELECT 1 AS a, toInt256(1) AS wide`, parquet],
    ] as const) {
      const failure = await failureOf(world.run(sql, { into: { format } }));
      assert.deepEqual([failure.code, failure.result.column], ['SQL_INVALID', 'wide'], sql);
      requireNothing();
    }
  });
});
