// A checkpoint that ended after writing its header and before removing the log has put all of the log into the file: the engine removes
// that log when it attaches the file, and it must not be reported as missing then, nor while it is measured.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { faultOfPosition } from '../../../src/engines/catalog_guard.ts';
import { catalogFile, catalogsDirectory } from '../../../src/engines/duckdb/storage/catalog_files.ts';
import { duckdbStorage } from '../../../src/engines/duckdb/storage/file_position.ts';

for (const [moment, isComplete, isFirst] of [
  ['before_truncate', true, false],
  ['before_truncate', true, true],
  ['before_header', false, false],
  ['before_header', false, true],
] as const)
  test(`the log of a ${isFirst ? 'first' : 'later'} checkpoint that ends (${moment}) is measured up to what is still needed`, async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'tabularium-checkpoint-'));
    t.after(() => rmSync(directory, { recursive: true, force: true }));
    mkdirSync(catalogsDirectory(directory));
    const file = catalogFile(directory, { id: 'c' });
    const instances = [await DuckDBInstance.create(':memory:'), await DuckDBInstance.create(':memory:')] as const;
    const [writing, reading] = [await instances[0].connect(), await instances[1].connect()];
    await writing.run(`ATTACH '${file}' AS c; CREATE TABLE c.t AS SELECT range AS i FROM range(1000)`);
    // The metadata of the first checkpoint is at position 0.
    if (!isFirst) await writing.run('CHECKPOINT c');
    await writing.run('INSERT INTO c.t SELECT range FROM range(100)');
    const written = await duckdbStorage.position(directory, 'c');
    await writing.run(`SET debug_checkpoint_abort = '${moment}'`);
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

/** The turn of the event loop at which the log is truncated: the measurement takes fewer. */
const turns = 60;

test('a log that a checkpoint truncates while it is measured counts as empty', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-checkpoint-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  mkdirSync(catalogsDirectory(directory));
  const file = catalogFile(directory, { id: 'c' });
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run(`ATTACH '${file}' AS c; CREATE TABLE c.t (i INT); INSERT INTO c.t VALUES (1)`);
  await connection.run("SET debug_checkpoint_abort = 'before_truncate'");
  await assert.rejects(connection.run('CHECKPOINT c'), /Checkpoint aborted/);
  connection.closeSync();
  instance.closeSync();
  const log = readFileSync(`${file}.wal`);
  for (let turn = 0; turn < turns; turn++) {
    writeFileSync(`${file}.wal`, log);
    const measuring = duckdbStorage.position(directory, 'c');
    for (let i = 0; i < turn; i++) await new Promise((resolve) => setImmediate(resolve));
    truncateSync(`${file}.wal`, 0);
    assert.deepEqual(await measuring, { checkpoint: 1, logBytes: 0 }, `truncated at turn ${turn}`);
  }
});
