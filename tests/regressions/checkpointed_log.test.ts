// A checkpoint that ended after its header and before it removed the log has put all of the log into the file: the engine removes
// that log when it attaches the file, and it is not missing then.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { faultOfPosition } from '../../src/engines/catalog_guard.ts';
import { catalogFile, catalogsDirectory } from '../../src/engines/duckdb/storage/catalog_files.ts';
import { duckdbStorage } from '../../src/engines/duckdb/storage/file_position.ts';

for (const [when, isComplete] of [
  ['before_truncate', true],
  ['before_header', false],
] as const)
  test(`the log of a checkpoint that ends (${when}) is measured as far as it is still needed`, async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'tabularium-checkpoint-'));
    t.after(() => rmSync(directory, { recursive: true, force: true }));
    mkdirSync(catalogsDirectory(directory));
    const file = catalogFile(directory, { id: 'c' });
    const instances = [await DuckDBInstance.create(':memory:'), await DuckDBInstance.create(':memory:')] as const;
    const [writing, reading] = [await instances[0].connect(), await instances[1].connect()];
    await writing.run(`ATTACH '${file}' AS c; CREATE TABLE c.t AS SELECT range AS i FROM range(1000); CHECKPOINT c`);
    await writing.run('INSERT INTO c.t SELECT range FROM range(100)');
    const written = await duckdbStorage.position(directory, 'c');
    await writing.run(`SET debug_checkpoint_abort = '${when}'`);
    await assert.rejects(writing.run('CHECKPOINT c'), /Checkpoint aborted/);
    writing.closeSync();
    instances[0].closeSync();
    assert.ok(existsSync(`${file}.wal`));
    const measured = await duckdbStorage.position(directory, 'c');
    assert.equal(measured.checkpoint, written.checkpoint + (isComplete ? 1 : 0));
    assert.equal(measured.logBytes > 0, !isComplete);
    assert.equal(faultOfPosition(written, measured), undefined);
    await reading.run(`ATTACH '${file}' AS c`);
    assert.deepEqual((await reading.runAndReadAll('SELECT count(*) FROM c.t')).getRows(), [[1100n]]);
    assert.equal(faultOfPosition(measured, await duckdbStorage.position(directory, 'c')), undefined);
    reading.closeSync();
    instances[1].closeSync();
  });
