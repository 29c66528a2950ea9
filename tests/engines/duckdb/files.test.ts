// What the server reads of a catalog's files without the engine: their position, and whether a copy of them would be intact.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { duckdbStorage } from '../../../src/engines/duckdb/storage/file_position.ts';
import { CheckpointRunning } from '../../../src/engines/port/catalog_storage.ts';

/** As DuckDB 1.5.6 writes them: the beginning of a log, a commit, and what a checkpoint appends before it writes the file. */
const version = '640062650002ffff';
const commit = '0500000000000000e7fe7d722fed3d5e640064ffff';
const checkpoint = '1700000000000000bed0097b06fdfe6164006365006400d2818080808080801e650008ffffffff';

test('the files of a catalog are not copied during a checkpoint', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-files-'));
  try {
    mkdirSync(join(directory, 'catalogs'));
    const file = join(directory, 'catalogs', 'a.duckdb');
    const head = Buffer.alloc(3 * 4096);
    head.write('DUCK', 8);
    // DuckDB's checksum of the first header, of which one word is not zero.
    head.writeBigUInt64LE(5381n ^ BigInt.asUintN(64, head.readBigUInt64LE(8) * 0xbf58476d1ce4e5b9n), 0);
    writeFileSync(file, head);
    const storage = duckdbStorage;
    const filesWith = async (log: string) => {
      writeFileSync(`${file}.wal`, Buffer.from(log, 'hex'));
      return storage.filesAt(directory, 'a', await storage.position(directory, 'a'));
    };
    const bytes = (version + commit).length / 2;
    assert.deepEqual(await filesWith(version + commit), [
      { path: 'catalogs/a.duckdb', bytes: head.length },
      { path: 'catalogs/a.duckdb.wal', bytes },
    ]);
    // Bytes after the last commit do not count.
    assert.equal((await filesWith(`${version}${commit}1700000000000000`))[1]?.bytes, bytes);
    await assert.rejects(filesWith(version + commit + checkpoint + commit), CheckpointRunning);
    await assert.rejects(filesWith(version + checkpoint + commit), CheckpointRunning);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
