// The progress of work, as an engine reports it through the port: statements, changes of several parts, cancelled work.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, test } from 'node:test';
import { definitionOf, openEngine } from '../../conformance/engine/engine_world.ts';
import { deadlineMs } from '../../deadline.ts';

const world = await openEngine();
after(() => world.close());

const reportsMin = 4;

/** Collects the reports; `enough` is called after this many different values. */
function listener(isEnough: () => void) {
  const reported: number[] = [];
  const progress = (fraction: number) => {
    assert.ok(fraction >= 0 && fraction <= 1, `${fraction}`);
    if (fraction !== reported.at(-1)) reported.push(fraction);
    if (reported.length === reportsMin) isEnough();
  };
  return { reported, progress };
}

/** Runs long work until it has reported enough, and returns the reports. */
async function reportsOf(sql: string): Promise<number[]> {
  const controller = new AbortController();
  const { reported, progress } = listener(() => controller.abort());
  const running = world.run(sql, { signal: controller.signal, progress, timeoutMs: deadlineMs(60_000) });
  await assert.rejects(running, { code: 'STATEMENT_CANCELLED' });
  return reported;
}

await world.table('numbers', { n: 'BIGINT', text: 'VARCHAR(64)' });
await world.run('INSERT INTO numbers SELECT range, md5(range::VARCHAR) FROM range(3000000)');

test('a query, and a statement that writes, report their progress while they run', async () => {
  // DuckDB counts row groups; each takes long enough to be observed.
  const slow = Array.from({ length: 16 }).reduce<string>((inner) => `md5(${inner})`, 'text');
  const statements = [
    `SELECT max(${slow}) FROM numbers`,
    `INSERT INTO numbers SELECT n, ${slow} FROM numbers`,
    `UPDATE numbers SET text = ${slow}`,
  ];
  for (const sql of statements) {
    const reported = await reportsOf(sql);
    assert.ok(reported.length >= reportsMin);
    assert.deepEqual(
      reported,
      reported.toSorted((a, b) => a - b),
      sql,
    );
    assert.ok((reported.at(-1) as number) < 1, `${reported}`);
  }
});

test('progress is reported only on request, and not for a short statement', async () => {
  const result = await world.run('SELECT 1', { progress: (fraction) => assert.fail(`${fraction}`) });
  assert.deepEqual(result.rows, { kind: 'text', text: '[1]' });
});

test('a change of several parts reports progress by their weights', async () => {
  const { catalog } = world;
  const database = { catalog, database: 'parts' };
  await world.change({ kind: 'createDatabase', database });
  const definition = definitionOf({ n: 'BIGINT' }, { uniqueKey: ['n'] });
  const tables = ['a', 'b'].map((name) => ({ name, definition }));
  for (const { name } of tables) {
    await world.change({ kind: 'createTable', table: { ...database, table: name }, definition });
    await world.run(`INSERT INTO ${name} SELECT range FROM range(1000)`, { database: 'parts' });
  }
  const { reported, progress } = listener(() => undefined);
  const { signal } = new AbortController();
  const rename = { kind: 'renameDatabase', database, newName: 'moved', tables } as const;
  await world.engine.apply(rename, { step: randomUUID(), signal, progress });
  const startedParts = reported.filter((fraction) => [0, 0.25, 0.5, 0.75].includes(fraction));
  assert.deepEqual(startedParts, [0, 0.25, 0.5, 0.75]);
});

test('a table rewrite reports progress of the rows and of its key', async () => {
  const { catalog, database } = world;
  const from = await world.table('keyed', { n: 'BIGINT', m: 'VARCHAR(16)' }, { uniqueKey: ['n'] });
  await world.run('INSERT INTO keyed SELECT range, range::VARCHAR FROM range(1000)');
  const to = definitionOf({ m: 'VARCHAR(16)', n: 'BIGINT' }, { uniqueKey: ['n'], primaryKey: ['m'] });
  const { reported, progress } = listener(() => undefined);
  const { signal } = new AbortController();
  const change = { kind: 'alterTable', table: { catalog, database, table: 'keyed' }, from, to, renamedColumns: {} };
  await world.engine.apply(change as Parameters<typeof world.engine.apply>[0], {
    step: randomUUID(),
    signal,
    progress,
  });
  const startedParts = reported.filter((fraction) => [0, 0.5].includes(fraction));
  assert.deepEqual(startedParts, [0, 0.5]);
});
