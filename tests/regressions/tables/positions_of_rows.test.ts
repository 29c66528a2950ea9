// How long positions of rows are valid while rows are removed and writes are retried: a removal or a reverted write in between ends it.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { DataVersions } from '../../../src/engines/duckdb/analysis/data_versions.ts';
import { ensureSteps } from '../../../src/engines/duckdb/instance/applied_steps.ts';
import { Sessions } from '../../../src/engines/duckdb/instance/connection_pool.ts';
import { RowNumberings } from '../../../src/engines/duckdb/query/row_positions.ts';
import { Snapshots } from '../../../src/engines/duckdb/snapshot/snapshots.ts';
import { catalogFile, catalogsDirectory } from '../../../src/engines/duckdb/storage/catalog_files.ts';
import { definitionOf } from '../../conformance/engine/engine_world.ts';

const catalog = { id: 'c', name: 'c' };
const name = { catalog: 'c', database: 'd', table: 't' };
const definition = definitionOf({ i: 'BIGINT' });
let directory: string;
let instance: DuckDBInstance;
let connection: DuckDBConnection;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'tabularium-positions-'));
  mkdirSync(catalogsDirectory(directory));
  instance = await DuckDBInstance.create(':memory:');
  connection = await instance.connect();
  await connection.run(`ATTACH '${catalogFile(directory, catalog)}' AS c; CREATE SCHEMA c.d`);
  await connection.run('CREATE TABLE c.d.t AS SELECT range AS i FROM range(300000)');
  await ensureSteps(connection, 'c');
  await connection.run('CHECKPOINT c');
});
after(() => {
  connection.closeSync();
  instance.closeSync();
  rmSync(directory, { recursive: true, force: true });
});

/** The connection, running `work` after its first statement that matches; errors of `work` become errors of that statement. */
function connectionWith(pattern: RegExp, work: () => Promise<void>): DuckDBConnection {
  let isDone = false;
  const run: DuckDBConnection['run'] = async (sql, ...rest) => {
    const result = await connection.run(sql, ...rest);
    if (!isDone && pattern.test(sql)) {
      isDone = true;
      await work();
    }
    return result;
  };
  return new Proxy(connection, {
    get(target, property) {
      if (property === 'run') return run;
      const value: unknown = Reflect.get(target, property);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

for (const pattern of [/^BEGIN/, /^INSERT INTO .*steps/])
  test(`a removal that commits between the snapshot (${pattern.source}) and the count invalidates the positions`, async () => {
    const removals = new DataVersions();
    const numberings = new RowNumberings(directory, removals);
    const other = await instance.connect();
    await connection.run('CREATE OR REPLACE TABLE c.d.t AS SELECT range AS i FROM range(300000)');
    const racing = connectionWith(pattern, () =>
      removals.trackWrites([name], async () => void (await other.run('DELETE FROM c.d.t WHERE i < 200000'))),
    );
    const table = { catalog, database: 'd', table: 't' };
    const marks = await numberings.of(racing, table, definition);
    assert.equal(marks.length, 1);
    other.closeSync();
    await connection.run('CHECKPOINT c');
    const renumbered = await connection.runAndReadAll('SELECT max(rowid) FROM c.d.t');
    assert.deepEqual(renumbered.getRows(), [[99_999n]]);
    const laterNumbering = await numberings.of(connection, table, definition);
    assert.equal(laterNumbering.length, 2, 'the rows have no gaps now');
    assert.deepEqual(
      laterNumbering.filter((mark) => marks.includes(mark)),
      [],
    );
  });

test('a reverted attempt to restore a part is recorded, although the next one succeeded', async () => {
  const epochs = { data: new DataVersions(), removals: new DataVersions() };
  const path = join(directory, 'part');
  writeFileSync(path, '');
  const rowsBefore = Number((await connection.runAndReadAll('SELECT count(*) FROM c.d.t')).getRows()[0]?.[0]);
  const sessions = new Sessions(instance);
  const reverting = connectionWith(/^BEGIN/, async () => {
    await connection.run('ROLLBACK');
    throw new Error('TransactionContext Error: Failed to commit: write-write conflict');
  });
  sessions.with = (_key, _started, work) => work({ connection: reverting } as Parameters<typeof work>[0]);
  const snapshots = new Snapshots(instance, directory, { sessions, versions: epochs });
  const { restorePart } = snapshots.operations(() => undefined, new AbortController().signal);
  const before = epochs.removals.latestOf([name]);
  const part = { table: { catalog, database: 'd', table: 't' }, path, rowsBefore, rows: 0 };
  await restorePart(part as unknown as Parameters<typeof restorePart>[0]);
  const latestRemoval = epochs.removals.latestOf([name]);
  assert.notEqual(latestRemoval, before);
  await restorePart(part as unknown as Parameters<typeof restorePart>[0]);
  assert.equal(epochs.removals.latestOf([name]), latestRemoval, 'an insert that succeeds at once moves no rows');
});
