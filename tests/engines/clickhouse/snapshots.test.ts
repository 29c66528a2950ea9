// Snapshots of a catalog on two real servers with a part of the rows each: what happens to its tables afterwards changes nothing in them, parts that
// are unchanged are recognized, and nothing is left on the servers. Values of all types: tests/conformance/engine/backups.test.ts.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { Snapshot, TablePart } from '../../../src/engines/port/snapshot.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { failureOf, openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { deadlineMs, eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { missingRing, startRing } from './ring/ring.ts';

const { signal } = new AbortController();
const rowsOfParts = 20;
/** So that its part on either server has files of its own. */
const rowsOfLarge = 400_000;
const columns = { id: 'BIGINT', day: 'DATE', note: 'STRING' };
/** More than are in one file, of two servers. */
const manyRows = 10_000_000;

describe('a snapshot of a catalog on a cluster', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(2);
  const world = await openEngine({}, engineOn(accessTo(ring.nodes), ring.nodes));
  after(async () => {
    await world.close();
    await ring.close();
  });
  const { engine, catalog, database, run } = world;
  const refOf = (table: string) => ({ catalog, database, table });
  const readOf = (table: string, definition: TableDefinition) => ({ database, table, columns: definition.columns });
  const insert = (table: string, first: number, count: number) =>
    run(
      `INSERT INTO ${table} SELECT number + ${first}, toDate('2026-01-01') + toInt32(number % 5), 'n' FROM numbers(${count})`,
    );
  const sumOf = (table: string, { columns: all }: TableDefinition) =>
    engine.checksumTable({ ...refOf(table), columns: all }, { signal });
  const onNodes = (sql: string) =>
    Promise.all(
      ring.nodes.map(async ({ url }) => {
        const response = await fetch(url, {
          method: 'POST',
          body: sql,
          signal: AbortSignal.timeout(deadlineMs(10_000)),
        });
        const text = (await response.text()).trim();
        assert.ok(response.ok, text);
        return text;
      }),
    );
  const left = () => onNodes("SELECT name FROM system.tables WHERE database = '_tabularium' AND name LIKE 'load\\_%'");

  async function withSnapshot<T>(use: (snapshot: Snapshot) => Promise<T>): Promise<T> {
    const snapshot = await engine.snapshot(catalog, { signal });
    try {
      return await use(snapshot);
    } finally {
      await snapshot.close();
    }
  }

  const written = async (snapshot: Snapshot, table: string, definition: TableDefinition) => {
    const parts: (TablePart & { readonly path: string })[] = [];
    for (const part of await snapshot.parts(readOf(table, definition), signal)) {
      const path = join(world.spool, randomUUID());
      assert.equal(await snapshot.write(readOf(table, definition), part.part, path, signal), part.rows);
      parts.push({ ...part, path });
    }
    return parts;
  };

  async function restored(parts: Awaited<ReturnType<typeof written>>, definition: TableDefinition): Promise<string> {
    const table = `r${randomUUID().slice(0, 8)}`;
    await world.change({ kind: 'createTable', table: refOf(table), definition });
    let rowsBefore = 0;
    for (const { path, rows } of parts) {
      const part = { table: refOf(table), columns: definition.columns, path, rowsBefore, rows, step: randomUUID() };
      await engine.restorePart(part, { signal });
      await engine.restorePart(part, { signal });
      rowsBefore += rows;
    }
    return table;
  }

  test('what is written, changed, truncated or dropped afterwards is not in it', async () => {
    const definitions: TableDefinition[] = [];
    const tables = ['inserted', 'updated', 'truncated', 'dropped'] as const;
    for (const table of tables) {
      definitions.push(await world.table(table, columns, { partitionBy: ['day'] }));
      for (let part = 0; part < 3; part++) await insert(table, rowsOfParts * part, rowsOfParts);
    }
    const empty = await world.table('empty', columns);
    const [first] = definitions as [TableDefinition];
    const before = await sumOf('inserted', first);
    assert.equal(before.rows, 3 * rowsOfParts);
    await withSnapshot(async (snapshot) => {
      await insert('inserted', 1000, rowsOfParts);
      await engine.optimize(refOf('inserted'), { signal });
      await run(`UPDATE updated SET note = 'other' WHERE id < 30`);
      await world.change({ kind: 'truncateTable', table: refOf('truncated') });
      await world.change({ kind: 'dropTable', table: refOf('dropped') });
      for (const [index, table] of tables.entries()) {
        const definition = definitions[index] as TableDefinition;
        const copy = await restored(await written(snapshot, table, definition), definition);
        assert.deepEqual(await sumOf(copy, definition), before, table);
      }
      assert.deepEqual(await snapshot.parts(readOf('empty', empty), signal), []);
    });
    assert.deepEqual(await left(), ['', '']);
  });

  test('unchanged parts are recognized, and changed ones are not', async () => {
    const definition = await world.table('compared', columns);
    for (let part = 0; part < 2; part++) await insert('compared', rowsOfLarge * part, rowsOfLarge);
    const keys = () =>
      withSnapshot(async (snapshot) =>
        (await snapshot.parts(readOf('compared', definition), signal)).map(
          ({ part, rows, fingerprint }) => `${part} ${rows} ${fingerprint}`,
        ),
      );
    const before = await keys();
    assert.equal(before.length, 4, 'two servers have two parts each');
    assert.deepEqual(await keys(), before);
    for (let part = 0; part < 3; part++) await insert('compared', -1000 * part, rowsOfParts);
    const more = new Set(await keys());
    assert.equal(more.size, 6, 'small parts share files');
    assert.ok(before.every((key) => more.has(key)));
    await run(`UPDATE compared SET note = 'other' WHERE id = 0`);
    const changed = new Set(await keys());
    assert.equal(before.filter((key) => !changed.has(key)).length, 1);
  });

  test('parts of many rows are written in pieces', { timeout: deadlineMs(180_000) }, async () => {
    const definition = await world.table('large', { id: 'BIGINT' });
    await run(`INSERT INTO large SELECT number FROM numbers(${manyRows})`);
    await engine.optimize(refOf('large'), { signal });
    const parts = await withSnapshot((snapshot) => written(snapshot, 'large', definition));
    assert.equal(parts.length, 4);
    const copy = await restored(parts, definition);
    assert.deepEqual(await sumOf(copy, definition), await sumOf('large', definition));
  });

  test('a file of other rows, or of none, is refused, and leaves nothing', async () => {
    const definition = await world.table('whole', columns);
    await insert('whole', 0, rowsOfParts);
    const other = await world.table('other', { id: 'BIGINT', price: 'DOUBLE' });
    await run('INSERT INTO other VALUES (1, 2.5)');
    const [[part], [ofOther]] = await withSnapshot(async (snapshot) => [
      await written(snapshot, 'whole', definition),
      await written(snapshot, 'other', other),
    ]);
    assert.ok(part && ofOther);
    await world.table('target', columns);
    const restore = (path: string, rows: number) =>
      failureOf(
        engine.restorePart(
          { table: refOf('target'), columns: definition.columns, path, rowsBefore: 0, rows, step: randomUUID() },
          { signal },
        ),
      );
    assert.equal((await restore(part.path, part.rows + 1)).code, 'DATA_INVALID');
    assert.equal((await restore(ofOther.path, 1)).code, 'DATA_INVALID');
    truncateSync(part.path, 100);
    assert.equal((await restore(part.path, part.rows)).code, 'DATA_INVALID');
    const text = join(world.spool, randomUUID());
    writeFileSync(text, 'no file of rows');
    assert.equal((await restore(text, part.rows)).code, 'DATA_INVALID');
    assert.deepEqual(await rowsOf(world, 'SELECT count(*) FROM target'), [[0]]);
    assert.deepEqual(await left(), ['', '']);
  });

  test('what an earlier snapshot for the same purpose has left is removed, and of other databases nothing is read', async () => {
    await engine.snapshot(catalog, { signal, purpose: 'task' });
    assert.ok((await left()).every((names) => names !== ''));
    const databases = ['nothing'];
    const snapshot = await engine.snapshot(catalog, { signal, purpose: 'task', databases });
    assert.deepEqual(await left(), ['', '']);
    const definition = await world.table('since', columns);
    assert.equal((await failureOf(snapshot.parts(readOf('since', definition), signal))).code, 'CHANGE_IN_PROGRESS');
    await snapshot.close();
  });

  test('a snapshot whose server is lost fails, and its tables are removed when the server is back', async () => {
    const definition = await world.table('lost', columns);
    await insert('lost', 0, rowsOfParts);
    const snapshot = await engine.snapshot(catalog, { signal });
    const parts = await snapshot.parts(readOf('lost', definition), signal);
    const node = ring.nodes[1];
    assert.ok(node);
    await node.kill();
    const path = join(world.spool, randomUUID());
    const all = Promise.all(
      parts.map(({ part }) => snapshot.write(readOf('lost', definition), part, `${path} ${part}`, signal)),
    );
    assert.ok(['WAREHOUSE_FAILED', 'REPLICAS_UNAVAILABLE'].includes((await failureOf(all)).code));
    await snapshot.close();
    await node.start();
    await eventually('nothing is left', async () => (await left()).every((names) => names === ''), 60_000);
  });
});
