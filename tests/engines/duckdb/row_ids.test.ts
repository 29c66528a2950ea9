// A fact of the engine on which row positions rest (query/row_positions.ts): a checkpoint may run while a transaction that writes is open,
// and then it leaves the row ids as they are. Without such a transaction it drops deleted rows and renumbers the others.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';

const directory = mkdtempSync(join(tmpdir(), 'tabularium-row-ids-'));
after(() => rmSync(directory, { recursive: true, force: true }));

const [rows, deleted] = [300_000, 200_000];

const firstRow = async (connection: DuckDBConnection) => {
  const result = await connection.runAndReadAll('SELECT min(rowid)::INT FROM c.t WHERE i >= 200000');
  return result.getRows()[0]?.[0];
};

/** The counts of the two headers of the file, which checkpoints write in turn. */
async function headersOf(path: string): Promise<string> {
  const file = await open(path, 'r');
  try {
    const { buffer } = await file.read(Buffer.alloc(3 * 4096), 0, undefined, 0);
    return `${buffer.readBigUInt64LE(4096 + 8)} ${buffer.readBigUInt64LE(8192 + 8)}`;
  } finally {
    await file.close();
  }
}

const triggers: readonly (readonly [string, readonly string[]])[] = [
  ['CHECKPOINT', ['CHECKPOINT c']],
  ['FORCE CHECKPOINT', ['FORCE CHECKPOINT c']],
  [
    'an insertion that fills the log',
    ["SET checkpoint_threshold = '1kB'", 'INSERT INTO c.t SELECT range FROM range(1000000, 1002000)'],
  ],
];
for (const [description, statements] of triggers)
  for (const isWriting of [true, false])
    test(`${description} ${isWriting ? 'leaves row ids as they are while a transaction writes' : 'renumbers rows otherwise'}`, async () => {
      const path = join(directory, `${description.replaceAll(' ', '_')}_${isWriting}.duckdb`);
      const instance = await DuckDBInstance.create(':memory:');
      const [connection, writer] = [await instance.connect(), await instance.connect()];
      for (const sql of [
        `ATTACH '${path}' AS c`,
        "SET checkpoint_threshold = '1GB'",
        `CREATE TABLE c.t AS SELECT range AS i FROM range(${rows})`,
        'CREATE TABLE c.steps (step VARCHAR)',
        'CHECKPOINT c',
        `DELETE FROM c.t WHERE i < ${deleted}`,
      ])
        await connection.run(sql);
      const before = await headersOf(path);
      assert.equal(await firstRow(connection), deleted);
      await writer.run('BEGIN TRANSACTION');
      if (isWriting) await writer.run("INSERT INTO c.steps VALUES ('one')");
      for (const sql of statements) await connection.run(sql);
      assert.notEqual(await headersOf(path), before, 'no checkpoint ran');
      const foundRow = await firstRow(connection);
      if (isWriting) {
        assert.equal(foundRow, deleted);
        assert.equal(await firstRow(writer), deleted);
      } else assert.ok(Number(foundRow) < deleted, `the first row is still ${foundRow}`);
      await writer.run('ROLLBACK');
      if (isWriting) assert.equal(await firstRow(connection), deleted);
      instance.closeSync();
    });
