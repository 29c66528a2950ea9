// Small inserts that arrive together share transactions of the engine: each still has its own outcome, once for each key, and all
// acknowledged rows exist.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { merged, withGroupedInserts } from '../../../src/engines/grouped_inserts.ts';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { RowsBatch } from '../../../src/engines/port/rows.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
const tables = '/api/v2/databases/shop/tables';
before(async () => {
  server = await start({});
  (await server.put('/api/v2/databases/shop')).is(201);
});
after(() => server.close());

const countOf = async (table: string) => {
  const { result } = (await server.query('shop', `SELECT count(*), count(DISTINCT i), sum(d) FROM ${table}`)).is(200);
  return (result.rows as number[][])[0];
};

describe('concurrent inserts', () => {
  it('fail individually: those with an existing key, or with an invalid value', async () => {
    const sql = 'CREATE TABLE alone (i INT NOT NULL, d INT DEFAULT 7, PRIMARY KEY (i))';
    (await server.post(tables, { sql })).is(201);
    (await server.post(`${tables}/alone/rows`, { rows: [[1000, 7]] })).is(201);
    const answers = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const rows = n % 10 === 3 ? [{ i: 1000 }] : n % 10 === 7 ? [{ i: 'no number' }] : [{ i: n }];
        return { n, answer: await server.post(`${tables}/alone/rows`, { rows }) };
      }),
    );
    for (const { n, answer } of answers) {
      if (n % 10 === 3) {
        answer.is(400, 'CONSTRAINT_VIOLATED');
        assert.equal(answer.at<{ pointer: string }[]>('violations')[0]?.pointer, '/rows/0');
      } else if (n % 10 === 7) answer.is(400, 'ROWS_INVALID');
      else answer.is(201, '0', { rowCount: 1 });
    }
    assert.deepEqual(await countOf('alone'), [49, 49, 49 * 7]);
  });

  it('are applied once for each idempotency key, together with those that have none', async () => {
    (await server.post(tables, { sql: 'CREATE TABLE keyed (i INT, d INT)' })).is(201);
    const send = (n: number) =>
      server.request('POST', `${tables}/keyed/rows`, {
        body: { rows: [[n, 1]] },
        headers: n % 3 === 0 ? {} : { 'x-service-idempotency-key': `grouped-${n}` },
      });
    const all = Array.from({ length: 45 }, (_, n) => n);
    for (const answer of await Promise.all(all.map(send))) answer.is(201, '0', { rowCount: 1 });
    for (const answer of await Promise.all(all.filter((n) => n % 3 !== 0).map(send)))
      answer.is(201, '0', { rowCount: 1 });
    assert.deepEqual(await countOf('keyed'), [45, 45, 45]);
  });
});

describe('groups', () => {
  const column = (name: string) => ({ name, type: { kind: 'INT' }, nullable: true, defaultValue: '7' });
  const batch = (rows: readonly (readonly unknown[])[], omitted?: RowsBatch['omitted']) =>
    ({
      columns: [column('i'), column('d')],
      json: JSON.stringify(rows),
      rowCount: rows.length,
      ...(omitted ? { omitted } : {}),
    }) as unknown as RowsBatch;
  const table = { catalog: { id: 'c', name: 'c' }, database: 'd', table: 't' };
  const always = new AbortController().signal;

  /** Records the batches that the engine gets, and responds as `outcomeOf` determines. */
  function recordGroups(outcomeOf: (batch: RowsBatch) => Failure | undefined) {
    const batches: RowsBatch[] = [];
    const engine = {
      running: true,
      insertRows: async (_table: unknown, batch: RowsBatch) => {
        batches.push(batch);
        await new Promise((resolve) => setTimeout(resolve, 2));
        const failure = outcomeOf(batch);
        if (failure) throw failure;
        return batch.rowCount;
      },
    } as unknown as EngineWarehouse;
    const inserts = withGroupedInserts(engine);
    const insert = (batch: RowsBatch, signal = always) =>
      inserts
        .insertRows(table, batch, { signal, definition: { columns: [] } as never })
        .catch((error: Failure) => error.code);
    return { batches, insert };
  }

  it('consist of inserts that arrive while another runs', async () => {
    const { batches, insert } = recordGroups(() => undefined);
    const first = insert(batch([['0', '0']]));
    await new Promise((resolve) => setImmediate(resolve));
    const otherInserts = [1, 2, 3].map((n) => insert(batch([[`${n}`, '0']])));
    assert.deepEqual(await Promise.all([first, ...otherInserts]), [1, 1, 1, 1]);
    assert.deepEqual(
      batches.map(({ rowCount }) => rowCount),
      [1, 3],
    );
  });

  it('exclude large inserts', async () => {
    const { batches, insert } = recordGroups(() => undefined);
    const large = batch(Array.from({ length: 101 }, () => ['1', '1']));
    assert.deepEqual(await Promise.all([insert(large), insert(large)]), [101, 101]);
    assert.equal(batches.length, 2);
  });

  it('are split if one is refused, but not if the outcome is unknown', async () => {
    const refused = recordGroups(({ json }) =>
      json.includes('"bad"') ? new Failure('CONSTRAINT_VIOLATED', 'bad') : undefined,
    );
    const batches = ['1', 'bad', '2'].map((i) => batch([[i, '0']]));
    assert.deepEqual(await Promise.all(batches.map((candidate) => refused.insert(candidate))), [
      1,
      'CONSTRAINT_VIOLATED',
      1,
    ]);
    assert.deepEqual(
      refused.batches.map(({ rowCount }) => rowCount),
      [3, 1, 1, 1],
    );
    const lost = recordGroups(() => new Failure('WAREHOUSE_FAILED', 'gone', {}, { outcome: 'unknown' }));
    assert.deepEqual(await Promise.all(batches.map((batch) => lost.insert(batch))), [
      'WAREHOUSE_FAILED',
      'WAREHOUSE_FAILED',
      'WAREHOUSE_FAILED',
    ]);
    assert.equal(lost.batches.length, 1);
  });

  it('omit inserts that were aborted while they waited, which are answered at once', async () => {
    const running = Promise.withResolvers<void>();
    const engine = {
      running: true,
      insertRows: async (_table: unknown, batch: RowsBatch) => {
        batches.push(batch.json);
        if (batches.length === 1) await running.promise;
        return batch.rowCount;
      },
    } as unknown as EngineWarehouse;
    const batches: string[] = [];
    const inserts = withGroupedInserts(engine);
    const insert = (i: string, signal = always) =>
      inserts.insertRows(table, batch([[i, '0']]), { signal, definition: { columns: [] } as never });
    const first = insert('1');
    await new Promise((resolve) => setImmediate(resolve));
    const aborted = new AbortController();
    const otherInserts = [insert('2'), insert('4')];
    const cancelled = insert('3', aborted.signal);
    aborted.abort();
    await assert.rejects(cancelled, { code: 'STATEMENT_CANCELLED' });
    await assert.rejects(insert('5', AbortSignal.abort()), { code: 'STATEMENT_CANCELLED' });
    assert.equal(batches.length, 1);
    running.resolve();
    assert.deepEqual(await Promise.all([first, ...otherInserts]), [1, 1, 1]);
    assert.deepEqual(batches, ['[["1","0"]]', '[["2","0"],["4","0"]]']);
  });

  it('are split without those that were aborted while the group ran', async () => {
    const aborted = new AbortController();
    const { batches, insert } = recordGroups(({ json }) => {
      aborted.abort();
      return json.includes('"bad"') ? new Failure('CONSTRAINT_VIOLATED', 'bad') : undefined;
    });
    const all = [
      insert(batch([['1', '0']])),
      insert(batch([['bad', '0']])),
      insert(batch([['2', '0']]), aborted.signal),
    ];
    assert.deepEqual(await Promise.all(all), [1, 'CONSTRAINT_VIOLATED', 'STATEMENT_CANCELLED']);
    assert.deepEqual(
      batches.map(({ rowCount }) => rowCount),
      [3, 1, 1],
    );
  });

  it('are refused as a whole, and not run again, if the warehouse is busy or starting', async () => {
    for (const code of ['WAREHOUSE_BUSY', 'WAREHOUSE_STARTING', 'STORAGE_FULL'] as const) {
      const { batches, insert } = recordGroups(() => new Failure(code, 'not now', {}, { outcome: 'notApplied' }));
      const all = ['1', '2', '3'].map((i) => insert(batch([[i, '0']])));
      assert.deepEqual(await Promise.all(all), [code, code, code]);
      assert.equal(batches.length, 1, code);
    }
  });

  it('have the rows of their members in order, and record which rows omit a column with a default', () => {
    const all = merged([
      batch(
        [
          ['1', null],
          ['2', '5'],
        ],
        [{ column: 1, rows: [0] }],
      ),
      batch([['3', '6']]),
      batch([['4', null]], [{ column: 1, rows: [0] }]),
    ]);
    assert.deepEqual(JSON.parse(all.json), [
      ['1', null],
      ['2', '5'],
      ['3', '6'],
      ['4', null],
    ]);
    assert.deepEqual([all.rowCount, all.omitted], [4, [{ column: 1, rows: [0, 3] }]]);
  });
});
