// A transaction that was being committed when the server measured the log is not acknowledged: after a crash the engine drops it, and
// the shorter log is not damaged.
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { catalogFile, catalogsDirectory } from '../../../src/engines/duckdb/storage/catalog_files.ts';
import { duckdbStorage } from '../../../src/engines/duckdb/storage/file_position.ts';

const versionBytes = 8;
const entryHeadBytes = 16;

test('the position of a log ends after its last committed transaction', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-log-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  mkdirSync(catalogsDirectory(directory));
  const file = catalogFile(directory, { id: 'c' });
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run(`ATTACH '${file}' AS c; CREATE TABLE c.t (i INT); INSERT INTO c.t VALUES (1)`);
  const log = readFileSync(`${file}.wal`);
  const position = await duckdbStorage.position(directory, 'c');
  assert.equal(position.logBytes, log.length);
  const firstEntryEnd = versionBytes + entryHeadBytes + Number(log.readBigUInt64LE(versionBytes));
  appendFileSync(`${file}.wal`, log.subarray(versionBytes, firstEntryEnd));
  assert.deepEqual(await duckdbStorage.position(directory, 'c'), position);
  connection.closeSync();
  instance.closeSync();
});
