// Data directories that earlier releases wrote (data/README.md) are opened in place, replayed log included; a catalog file of a
// newer, unknown release of the engine is refused with a message that says so.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { attachCatalog } from '../../src/engines/duckdb/storage/catalog_files.ts';
import { start, type TestServer } from '../server.ts';
import { content, hasRows } from './content.ts';

const archives = readdirSync(join(import.meta.dirname, 'data')).filter((name) => name.endsWith('.tar.gz'));

function unpackArchive(t: TestContext, archive: string): string {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-release-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  execFileSync('tar', ['-xzf', join(import.meta.dirname, 'data', archive), '-C', directory]);
  return directory;
}

async function requireRecordedAnswers(server: TestServer): Promise<void> {
  for (const [sql, rows] of content.answers) {
    const reply = (await server.query('kept', sql)).is(200);
    assert.ok(hasRows(reply.text, rows), `${sql}: ${reply.text}`);
  }
}

/** Raises the version of the file's format to one that no release has, and recomputes the checksum of the header. */
function withUnknownFormat(file: string): void {
  const multiplier = 0xbf58476d1ce4e5b9n;
  const bytes = readFileSync(file);
  // The header: a checksum, the letters DUCK, the version of the format. The checksum combines the products of its 64-bit words.
  const wordAt = 8 + 8;
  const versionAt = 8 + 4;
  assert.equal(bytes.toString('latin1', 8, versionAt), 'DUCK');
  const before = bytes.readBigUInt64LE(wordAt - 8);
  const beforeNext = bytes.readBigUInt64LE(wordAt);
  bytes.writeBigUInt64LE(9999n, versionAt);
  const product = (word: bigint): bigint => BigInt.asUintN(64, word * multiplier);
  const changedWords = [before, bytes.readBigUInt64LE(wordAt - 8), beforeNext, bytes.readBigUInt64LE(wordAt)];
  bytes.writeBigUInt64LE(
    changedWords.map(product).reduce((sum, word) => sum ^ word, bytes.readBigUInt64LE(0)),
    0,
  );
  writeFileSync(file, bytes);
}

describe('a data directory of an earlier release', () => {
  for (const archive of archives)
    test(`${basename(archive, '.tar.gz')}: is complete, can be changed, and is complete after a restart`, async (t) => {
      const dataDir = unpackArchive(t, archive);
      const first = await start({ dataDir });
      try {
        await requireRecordedAnswers(first);
        (await first.get('/api/v2/catalogs/second')).is(200);
        await first.client
          .databases('kept')
          .tables('late')
          .rows.create({ rows: [[9]] });
        (await first.query('kept', 'DELETE FROM late WHERE id = 9')).is(200);
      } finally {
        await first.close();
      }
      const logs = readdirSync(join(dataDir, 'catalogs')).filter((name) => name.endsWith('.wal'));
      assert.deepEqual(logs, [], 'a clean stop writes the logs into the files of the catalogs');
      const second = await start({ dataDir });
      try {
        await requireRecordedAnswers(second);
      } finally {
        await second.close();
      }
    });
});

test('a catalog file of a newer, unknown release of the engine is refused with a message, and not changed', async (t) => {
  const dataDir = unpackArchive(t, archives[0] as string);
  const files = readdirSync(join(dataDir, 'catalogs')).filter((name) => name.endsWith('.duckdb'));
  const paths = files.map((name) => join(dataDir, 'catalogs', name));
  for (const path of paths) withUnknownFormat(path);
  const before = paths.map((path) => readFileSync(path));
  const server = await start({ dataDir, logLevel: 'silent' });
  try {
    assert.equal((await server.query('kept', 'SELECT 1')).status, 503);
  } finally {
    await server.close();
  }
  assert.deepEqual(
    paths.map((path) => readFileSync(path)),
    before,
  );

  const connection = await (await DuckDBInstance.create(':memory:')).connect();
  t.after(() => connection.closeSync());
  await assert.rejects(
    attachCatalog(connection, dataDir, { id: (files[0] as string).replace('.duckdb', ''), name: 'shop' }),
    /its file was written by a newer release of DuckDB in format 9999, and this release reads the formats 64 to 68: start /,
  );
});
