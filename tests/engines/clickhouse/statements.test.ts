// Statements on a real server that fail, are cancelled, exceed their limits or write: what the caller gets, and what is left of them on the
// server.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { isUncounted, parseError, serverFailure } from '../../../src/engines/clickhouse/connection/clickhouse_error.ts';
import { HttpServer } from '../../../src/engines/clickhouse/connection/http_server.ts';
import { namesOf } from '../../../src/engines/clickhouse/names.ts';
import { readSettings } from '../../../src/engines/clickhouse/query/statement_settings.ts';
import { qualifiedName } from '../../../src/engines/clickhouse/sql/identifiers.ts';
import type { PageReady } from '../../../src/engines/port/statements.ts';
import { Failure, outcomeOf } from '../../../src/standard/failure.ts';
import { definitionOf, failureOf, MiB, openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { deadlineMs, eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { deployedUser } from './ring/deployed_user.ts';
import { missingRing, startRing } from './ring/ring.ts';

/** The rows up to the end of a page, as a reader finds them when it is reported: in memory, or in the file. */
function rowsUpTo({ path, recent, end }: PageReady): Buffer {
  const parts: Buffer[] = [];
  for (let position = 0; position < end; ) {
    const held = recent?.hold(position, end);
    const bytes = Buffer.from(held?.bytes ?? readFileSync(path).subarray(position, end));
    held?.release();
    assert.notEqual(bytes.length, 0);
    parts.push(bytes);
    position += bytes.length;
  }
  return Buffer.concat(parts);
}

const memoryBytesOfUser = 384 * MiB;
/** Read after the file of the deployment. */
const limitsOfUser = `<clickhouse><profiles><tabularium>
  <max_memory_usage>${memoryBytesOfUser}</max_memory_usage>
</tabularium></profiles></clickhouse>`;

describe('statements', { skip: missingRing }, async () => {
  if (missingRing !== false) return;
  const ring = await startRing(1, { files: { 'users.d/tabularium_limits.xml': limitsOfUser } });
  const world = await openEngine({}, engineOn(accessTo(ring.nodes), ring.nodes));
  after(async () => {
    await world.close();
    await ring.close();
  });
  const { run } = world;
  const ask = async (sql: string) => {
    const signal = AbortSignal.timeout(deadlineMs(10_000));
    return (await fetch(ring.nodes[0]?.url ?? '', { method: 'POST', body: sql, signal })).text();
  };
  /** The number of statements that run on the server and contain the text. */
  const running = async (mark: string) =>
    Number(
      await ask(`SELECT count() FROM system.processes WHERE position(query, '${mark}') > 0 AND query_id != queryID()`),
    );

  test('an error in the middle of a result fails the statement, and its file is removed', async () => {
    const resultPath = join(world.spool, randomUUID());
    const pages: PageReady[] = [];
    const failure = await failureOf(
      run(`SELECT number, intDiv(1, 3000000 - number), repeat('x', 20) FROM numbers(4000000)`, {
        resultPath,
        onPage: (page) => pages.push(page),
      }),
    );
    assert.equal(failure.code, 'SQL_INVALID');
    assert.match(failure.message, /zero/i);
    assert.notEqual(pages.length, 0);
    assert.equal(existsSync(`${resultPath}.rows`), false);
  });

  test('pages are reported while later ones are computed, and each is complete', async () => {
    const pages: PageReady[] = [];
    const result = await run(`SELECT number, concat('line', char(10), 'next') FROM numbers(200000)`, {
      pageBytesMax: MiB,
      onPage: (page) => {
        const text = rowsUpTo(page).toString();
        assert.ok(text.endsWith('],\n'));
        assert.equal(JSON.parse(`[${text.slice(0, -2)}]`).length, page.endRow);
        pages.push(page);
      },
    });
    assert.ok(pages.length >= 2);
    assert.equal(result.rowCount, 200_000);
    assert.equal(result.rows.kind, 'file');
    if (result.rows.kind !== 'file') return;
    const { path, offsets, firstRows } = result.rows;
    assert.equal(firstRows.at(-1), 200_000);
    const all = JSON.parse(
      `[${readFileSync(path, 'utf8').slice(0, offsets.at(-1)).replace(/,\n$/, '')}]`,
    ) as unknown[][];
    assert.deepEqual(all[199_999], [199_999, 'line\nnext']);
    assert.deepEqual(
      result.columns.map(({ type }) => type),
      ['LARGEINT', 'STRING'],
    );
  });

  test('rowsMax cuts a result of several pages at the row', async () => {
    for (const rowsMax of [1, 65_409, 65_536, 99_999]) {
      const result = await run('SELECT number FROM numbers(100000)', { rowsMax });
      assert.deepEqual([result.rowCount, result.truncated], [rowsMax, true]);
      const text = result.rows.kind === 'text' ? result.rows.text : readFileSync(result.rows.path, 'utf8');
      assert.equal(JSON.parse(`[${text.replace(/,\n$/, '')}]`).length, rowsMax);
    }
  });

  test('a cancelled statement ends on the server, also if it returns nothing', async () => {
    const controller = new AbortController();
    const mark = `silent ${randomUUID()}`;
    const sql = `SELECT count() FROM numbers(100000000000) WHERE '${mark}' != toString(number)`;
    const failed = failureOf(run(sql, { signal: controller.signal }));
    await eventually('the statement runs', async () => (await running(mark)) > 0);
    controller.abort();
    assert.equal((await failed).code, 'STATEMENT_CANCELLED');
    await eventually('the statement has ended', async () => (await running(mark)) === 0);
  });

  test('a statement has the limits of the profile of its user', async () => {
    const controller = new AbortController();
    const mark = `limited ${randomUUID()}`;
    const sql = `SELECT count() FROM numbers(100000000000) WHERE '${mark}' != toString(number)`;
    const failed = failureOf(run(sql, { signal: controller.signal }));
    await eventually('the statement runs', async () => (await running(mark)) > 0);
    const limits = await ask(
      `SELECT Settings['max_memory_usage'], Settings['max_threads'] FROM system.processes
        WHERE position(query, '${mark}') > 0 AND query_id != queryID() FORMAT JSONCompactEachRow`,
    );
    controller.abort();
    await failed;
    assert.deepEqual(JSON.parse(limits), [String(memoryBytesOfUser), '']);
  });

  test('a statement that takes too long, or too much memory, is stopped with its code', async () => {
    const slow = await failureOf(
      run('SELECT count() FROM numbers(100000000000) WHERE number % 7 = 8', { timeoutMs: 500 }),
    );
    assert.deepEqual([slow.code, slow.result], ['STATEMENT_TIMEOUT', { timeoutSeconds: 0.5 }]);
    const large = await failureOf(
      run(`SELECT groupArray(concat(toString(number), repeat('x', 100))) FROM numbers(100000000)`),
    );
    assert.equal(large.code, 'MEMORY_LIMIT_EXCEEDED');
    assert.deepEqual(await rowsOf(world, 'SELECT 1'), [[1]]);
  });

  test('a statement that is stopped because a server is short of memory can be repeated later', async () => {
    const server = new HttpServer({
      name: 'node1',
      url: ring.nodes[0]?.url ?? '',
      credentials: async () => ({ user: 'default', password: '' }),
      hosts: undefined,
    });
    const failed = async (settings: Record<string, number>) => {
      const sql = 'SELECT max(number) FROM numbers(250000000)';
      const sent = server.text({ sql, settings, timeoutMs: deadlineMs(10_000) }).then(
        () => assert.fail('it was not stopped'),
        (error: unknown) => serverFailure(error),
      );
      return described(await sent);
    };
    const described = (failure: unknown) => {
      assert.ok(failure instanceof Failure, String(failure));
      return [failure.code, outcomeOf(failure)];
    };
    const large = { max_block_size: 250_000_000 };
    assert.deepEqual(await failed({ ...large, max_memory_usage: 0 }), ['WAREHOUSE_BUSY', 'unknown']);
    const ofUser = { max_memory_usage: 0, max_memory_usage_for_user: 100 * MiB };
    assert.deepEqual(await failed({ ...large, ...ofUser }), ['WAREHOUSE_BUSY', 'unknown']);
    assert.deepEqual(await failed({ ...large, max_memory_usage: 100 * MiB }), ['MEMORY_LIMIT_EXCEEDED', undefined]);
    await server.close();
    // As the oldest supported version names them, also when another server sends them.
    for (const [limit, code] of [
      ['(total)', 'WAREHOUSE_BUSY'],
      ['(for user)', 'WAREHOUSE_BUSY'],
      ['(for query)', 'MEMORY_LIMIT_EXCEEDED'],
    ])
      for (const sender of ['', 'Received from 10.0.0.2:9000. DB::Exception: ']) {
        const message = `${sender}Memory limit ${limit} exceeded: would use 9.32 GiB, maximum: 9.31 GiB.: While executing f('(total) memory limit exceeded')`;
        const text = `Code: 241. DB::Exception: ${message}. (MEMORY_LIMIT_EXCEEDED) (version 24.8.4.1)`;
        assert.equal(described(serverFailure(parseError(text)))[0], code, text);
      }
  });

  test('progress is reported while the query of an INSERT runs, and cancelled it inserts nothing', async () => {
    const { catalog, database } = world;
    const definition = definitionOf({ a: 'BIGINT' });
    await world.change({ kind: 'createTable', table: { catalog, database, table: 'filled' }, definition });
    const controller = new AbortController();
    const fractions: number[] = [];
    const failed = failureOf(
      run('INSERT INTO filled SELECT number FROM numbers(100000000000) WHERE number % 7 = 8', {
        signal: controller.signal,
        progress: (fraction) => fractions.push(fraction),
      }),
    );
    await eventually('progress is reported', () => fractions.length > 1);
    controller.abort();
    assert.equal((await failed).code, 'STATEMENT_CANCELLED');
    assert.deepEqual(await rowsOf(world, 'SELECT count(*) FROM filled'), [[0]]);
  });

  test('a long statement writes as a short one does', async () => {
    const { catalog, database } = world;
    const definition = definitionOf({ a: 'BIGINT' });
    await world.change({ kind: 'createTable', table: { catalog, database, table: 'long' }, definition });
    // Longer than what servers take by default, which is 256 KiB.
    const numbers = Array.from({ length: 20_000 }, (_, n) => 1_000_000_000_000 + n);
    await run(`INSERT INTO long VALUES ${numbers.map((n) => `(${n})`).join(', ')}`);
    await run(`DELETE FROM long WHERE a IN (${numbers.slice(1).join(', ')})`);
    assert.deepEqual(await rowsOf(world, 'SELECT count(*) FROM long'), [[1]]);
  });

  test('progress is reported while a statement runs', async () => {
    const controller = new AbortController();
    const fractions: number[] = [];
    const failed = failureOf(
      run('SELECT count() FROM numbers(100000000000) WHERE number % 7 = 8', {
        signal: controller.signal,
        progress: (fraction) => fractions.push(fraction),
      }),
    );
    await eventually('progress is reported', () => fractions.length > 1);
    controller.abort();
    await failed;
    assert.ok(fractions.every((fraction) => fraction > 0 && fraction <= 1));
  });

  test('parameters are bound, and none of them becomes a part of the text', async () => {
    const value = `x' OR 1 = 1 -- \\ {a:String} \n\t😀`;
    assert.deepEqual(await rowsOf(world, 'SELECT $1, $2', { parameters: [value, 5] }), [[value, 5]]);
  });

  test('nothing that a statement is refused for names the server', async () => {
    const failures = await Promise.all(
      ['SELECT nope', 'SELECT 1 FROM nowhere', `SELECT toUInt8('x')`].map((sql) => failureOf(run(sql))),
    );
    for (const { code, message, result } of failures) {
      assert.equal(code, 'SQL_INVALID');
      assert.doesNotMatch(JSON.stringify([message, result]), /127\.0\.0\.1|localhost|version|__local|Stack/);
    }
  });

  test('a write is applied once for each step, and completes what an earlier attempt left', async () => {
    await world.table('target', { id: 'BIGINT', name: 'STRING' }, { partitionBy: ['name'] });
    const sql = `INSERT INTO target (id, name) SELECT number, toString(number % 3) FROM numbers(300)`;
    for (const repeated of [false, true]) {
      const result = await run(sql, { step: 'insert' });
      assert.deepEqual([result.rowCount, result.repeated ?? false], [300, repeated]);
    }
    for (const repeated of [false, true]) {
      const result = await run(`UPDATE target SET id = id + 1000 WHERE id < 10`, { step: 'update' });
      assert.deepEqual([result.rowCount, result.repeated ?? false], [10, repeated]);
    }
    assert.equal((await run('DELETE FROM target WHERE id >= 1000', { step: 'delete' })).rowCount, 10);
    assert.deepEqual(await rowsOf(world, 'SELECT count(*), min(id), max(id) FROM target'), [[290, 10, 299]]);
    const left = await ask(
      `SELECT count() FROM system.tables WHERE database = '_tabularium' AND startsWith(name, 'load_')`,
    );
    assert.equal(Number(left), 0);
  });

  test('columns that are called as what the adapter computes', async () => {
    const { catalog, database, engine } = world;
    const names = ['n', 'n0', 'c0', 'v0', 'v1', 's0', 's1'];
    const { signal } = new AbortController();
    const rowsIn = (table: string) => rowsOf(world, `SELECT * FROM ${table} ORDER BY 1`);
    const results = [];
    for (const prefix of ['', 'other_']) {
      const table = `${prefix}named`;
      const definition = await world.table(table, Object.fromEntries(names.map((name) => [prefix + name, 'BIGINT'])));
      await run(`INSERT INTO ${table} SELECT ${names.map((_, i) => `number + ${i}`).join(', ')} FROM numbers(10)`);
      const set = names.map((name) => `${prefix}${name} = ${prefix}${name} + 100`).join(', ');
      assert.equal((await run(`UPDATE ${table} SET ${set} WHERE ${prefix}n < 5`)).rowCount, 5);
      assert.equal((await run(`DELETE FROM ${table} WHERE ${prefix}n0 = 6 AND ${prefix}c0 > 0`)).rowCount, 1);
      const to = {
        ...definition,
        columns: definition.columns.map((column, i) =>
          i === 0 ? { ...column, nullable: false, defaultValue: '0' } : column,
        ),
      };
      const of = { catalog, database, table };
      await world.change({ kind: 'alterTable', table: of, from: definition, to, renamedColumns: {} });
      const sums = await engine.checksumTable({ ...of, columns: to.columns }, { signal });
      results.push({ rows: await rowsIn(table), sums });
    }
    assert.deepEqual(results[0], results[1]);
  });

  // Nodes of this version do not replicate: it is asked for what the statements of clusters that do are sent with.
  test('a server that does not count for a statement refuses to be read, also where it has no such row', async () => {
    await world.table('counted', { id: 'INT' });
    await run('INSERT INTO counted SELECT number FROM numbers(3)');
    const table = { catalog: world.catalog.name, database: world.database, table: 'counted' };
    const server = new HttpServer({
      name: 'node1',
      url: ring.nodes[0]?.url ?? '',
      credentials: async () => deployedUser,
      hosts: undefined,
    });
    const [{ id } = { id: '' }] = await server.rows<{ id: string }>({
      sql: 'SELECT toString(serverUUID()) AS id',
      timeoutMs: deadlineMs(10_000),
    });
    const read = (what: string, ids: readonly string[]) => {
      const settings = readSettings({ countedReplicas: () => ({ ids, first: 0 }) }, server, [table]);
      const sql = `SELECT ${what.replace('FROM', `AS n FROM ${qualifiedName(namesOf(table))}`)}`;
      return server.rows({ sql, settings, timeoutMs: deadlineMs(10_000) });
    };
    for (const [what, rows] of [
      ['toUInt8(count()) FROM', [{ n: 3 }]],
      ['max(id) FROM', [{ n: 2 }]],
      ['id FROM WHERE id = 1', [{ n: 1 }]],
      ['id FROM WHERE id = 9', []],
    ] as const) {
      await assert.rejects(read(what, ['another one']), isUncounted);
      assert.deepEqual(await read(what, ['another one', id]), rows);
    }
    await server.close();
  });

  test('a write that fails on one of its rows changes none of them', async () => {
    await world.table('whole', { id: 'INT', small: 'TINYINT', name: 'VARCHAR(4)' });
    await run(`INSERT INTO whole (id, small, name) SELECT number, number, 'a' FROM numbers(100)`);
    const before = await rowsOf(world, 'SELECT sum(id), sum(small), count(*) FROM whole');
    for (const sql of [
      'INSERT INTO whole (id, small) SELECT number, number FROM numbers(200)',
      `INSERT INTO whole (id, name) SELECT number, repeat('x', number) FROM numbers(6)`,
      'UPDATE whole SET small = id + 100 WHERE id >= 0',
      'UPDATE whole SET id = intDiv(1000, id - 50) WHERE id >= 0',
    ]) {
      const { code } = await failureOf(run(sql));
      assert.ok(['CONSTRAINT_VIOLATED', 'SQL_INVALID'].includes(code), `${sql}: ${code}`);
      assert.deepEqual(await rowsOf(world, 'SELECT sum(id), sum(small), count(*) FROM whole'), before);
    }
    await world.table('ordered', { id: 'INT', part: 'INT' }, { orderBy: ['id'], partitionBy: ['part'] });
    for (const column of ['id', 'part'])
      assert.equal((await failureOf(run(`UPDATE ordered SET ${column} = 1 WHERE id > 0`))).code, 'SQL_NOT_SUPPORTED');
    const waiting = await ask('SELECT count() FROM system.mutations WHERE is_done = 0');
    assert.equal(Number(waiting), 0);
  });
});
