// How far work has come, as an engine tells it through the port: statements, changes of several parts, work that is cancelled.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, test } from 'node:test';
import { deadlineMs } from '../deadline.ts';
import { definitionOf, openEngine } from './engine_world.ts';

const w = await openEngine();
after(() => w.close());

const toldMin = 4;

/** Collects what is told; with so many different values, `enough` is called. */
function listener(enough: () => void) {
  const told: number[] = [];
  const progress = (fraction: number) => {
    assert.ok(fraction >= 0 && fraction <= 1, `${fraction}`);
    if (fraction !== told.at(-1)) told.push(fraction);
    if (told.length === toldMin) enough();
  };
  return { told, progress };
}

/** Runs what takes very long until it has told enough, and gives what it told. */
async function toldBy(sql: string): Promise<number[]> {
  const controller = new AbortController();
  const { told, progress } = listener(() => controller.abort());
  const running = w.run(sql, { signal: controller.signal, progress, timeoutMs: deadlineMs(60_000) });
  await assert.rejects(running, { code: 'STATEMENT_CANCELLED' });
  return told;
}

await w.table('numbers', { n: 'BIGINT', text: 'VARCHAR(64)' });
await w.run('INSERT INTO numbers SELECT range, md5(range::VARCHAR) FROM range(3000000)');

test('a query, and a statement that writes, tell how far they are while they run', async () => {
  // DuckDB counts by the row group; each takes long enough to be seen.
  const slow = Array.from({ length: 16 }).reduce<string>((inner) => `md5(${inner})`, 'text');
  const statements = [
    `SELECT max(${slow}) FROM numbers`,
    `INSERT INTO numbers SELECT n, ${slow} FROM numbers`,
    `UPDATE numbers SET text = ${slow}`,
  ];
  for (const sql of statements) {
    const told = await toldBy(sql);
    assert.ok(told.length >= toldMin);
    assert.deepEqual(
      told,
      told.toSorted((a, b) => a - b),
      sql,
    );
    assert.ok((told.at(-1) as number) < 1, `${told}`);
  }
});

test('who does not ask is told nothing, and a short statement has nothing to tell', async () => {
  const result = await w.run('SELECT 1', { progress: (fraction) => assert.fail(`${fraction}`) });
  assert.deepEqual(result.rows, { kind: 'text', text: '[1]' });
});

test('a change of several parts tells of each by its weight', async () => {
  const { catalog } = w;
  const database = { catalog, database: 'parts' };
  await w.change({ kind: 'createDatabase', database });
  const definition = definitionOf({ n: 'BIGINT' }, { uniqueKey: ['n'] });
  const tables = ['a', 'b'].map((name) => ({ name, definition }));
  for (const { name } of tables) {
    await w.change({ kind: 'createTable', table: { ...database, table: name }, definition });
    await w.run(`INSERT INTO ${name} SELECT range FROM range(1000)`, { database: 'parts' });
  }
  const { told, progress } = listener(() => undefined);
  const { signal } = new AbortController();
  const rename = { kind: 'renameDatabase', database, newName: 'moved', tables } as const;
  await w.engine.apply(rename, { step: randomUUID(), signal, progress });
  const begun = told.filter((fraction) => [0, 0.25, 0.5, 0.75].includes(fraction));
  assert.deepEqual(begun, [0, 0.25, 0.5, 0.75]);
});

test('a table that is written again tells of the rows and of its key', async () => {
  const { catalog, database } = w;
  const from = await w.table('keyed', { n: 'BIGINT', m: 'VARCHAR(16)' }, { uniqueKey: ['n'] });
  await w.run('INSERT INTO keyed SELECT range, range::VARCHAR FROM range(1000)');
  const to = definitionOf({ m: 'VARCHAR(16)', n: 'BIGINT' }, { uniqueKey: ['n'], primaryKey: ['m'] });
  const { told, progress } = listener(() => undefined);
  const { signal } = new AbortController();
  const change = { kind: 'alterTable', table: { catalog, database, table: 'keyed' }, from, to, renamedColumns: {} };
  await w.engine.apply(change as Parameters<typeof w.engine.apply>[0], { step: randomUUID(), signal, progress });
  const begun = told.filter((fraction) => [0, 0.5].includes(fraction));
  assert.deepEqual(begun, [0, 0.5]);
});
