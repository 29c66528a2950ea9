// A cancellation stops the engine, whatever it is doing: the tests measure the time until nothing runs in it or its process was replaced.
// It should be a second; the assertion leaves more for a busy machine.
import assert from 'node:assert/strict';
import { mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { deadlineMs, eventually } from '../../deadline.ts';
import { endOfTask, type Reply, start, type TestServer } from '../../server.ts';

/** The engine reports it by a heartbeat every quarter of a second. */
const stoppedWithinMs = deadlineMs(5000);
/** The time after which running work is cancelled: it is in progress then. */
const workMs = 400;
const pollMs = 10;

let server: TestServer;
let directory: string;
const database = '/api/v2/databases/shop';
const backend = '/api/v2/warehouses/default/backends/embedded';

before(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'tabularium-cancel-')));
  server = await start({ loadDirectories: directory });
  (await server.put(database)).is(201);
  (await server.post(`${database}/tables`, { sql: 'CREATE TABLE t (n BIGINT, s TEXT)' })).is(201);
  (await server.query('shop', "INSERT INTO t VALUES (1, 'x')")).is(200);
});
after(async () => {
  await server.close();
  await rm(directory, { recursive: true });
});

async function pollUntil(description: string, isSo: (answer: Reply) => boolean, withinMs: number): Promise<number> {
  const since = performance.now();
  for (;;) {
    const reply = (await server.get(backend)).is(200);
    const ms = performance.now() - since;
    if (isSo(reply)) return ms;
    assert.ok(ms < withinMs, `${description}: not within ${withinMs} ms: ${reply.text}`);
    await sleep(pollMs);
  }
}

/** Cancels running work and waits until the engine has stopped it. Returns the time that took. */
async function stopped(description: string, cancel: () => Promise<Reply>): Promise<number> {
  await pollUntil(`${description} begins`, (reply) => reply.at<number>('runningQueries') > 0, deadlineMs(30_000));
  await sleep(workMs);
  const startedAt = (await server.get(backend)).at<string>('lastStartAt');
  const since = performance.now();
  const [, ms] = await Promise.all([
    cancel().then((reply) => reply.is(200)),
    pollUntil(
      `${description} ends`,
      (reply) => reply.at('runningQueries') === 0 || reply.at('lastStartAt') !== startedAt,
      stoppedWithinMs,
    ),
  ]);
  const totalMs = Math.max(ms, performance.now() - since);
  const isAnother = (await server.get(backend)).at('lastStartAt') !== startedAt;
  process.stdout.write(
    `cancel of ${description}: ${totalMs.toFixed(0)} ms${isAnother ? ', by the end of the process' : ''}\n`,
  );
  return totalMs;
}

/** A separate task, cancelled while it runs; the engine is available for others afterwards. */
async function cancelledTask(description: string, accepted: Reply): Promise<void> {
  const uri = accepted.is(202).at<string>('uri');
  await stopped(description, () => server.post(`${uri}/cancel`));
  (await endOfTask(server, uri)).is(200, '0', { state: 'cancelled' });
  await answers();
}

/** Nothing was changed. */
async function answers(): Promise<void> {
  await pollUntil('the engine is back', (reply) => reply.at('alive') === true, deadlineMs(30_000));
  assert.deepEqual(await server.rows('shop', 'SELECT * FROM t'), [[1, 'x']]);
  const spool = (await readdir(join(server.dataDirectory, 'spool'))).filter((name) => name !== 'spill');
  assert.deepEqual(
    spool,
    spool.filter((name) => name === 'loads'),
  );
  if (spool.length > 0) assert.deepEqual(await readdir(join(server.dataDirectory, 'spool', 'loads')), []);
}

const statements: Readonly<Record<string, string>> = {
  'a long aggregate':
    'SELECT count(*) FROM (SELECT range % 1000003 AS g, sum(hash(range)) FROM range(20000000000) GROUP BY g)',
  'a join that explodes':
    'SELECT sum(a.range + b.range) FROM range(1000000) AS a JOIN range(1000000) AS b ON a.range % 10 = b.range % 10',
  'a sort': 'SELECT max(n) FROM (SELECT range AS n FROM range(100000000) ORDER BY hash(range) OFFSET 10)',
  // Of few rows, with an aggregate that is slow: windows are held in memory, and must not reach the limit of the warehouse.
  'a window':
    'SELECT max(r) FROM (SELECT mode(range) OVER (ORDER BY hash(range) ROWS 1000 PRECEDING) AS r FROM range(3000000))',
  'a recursive query':
    'WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 1000000000) SELECT max(n) FROM r',
  'a result of many pages': 'SELECT range AS n, md5(range::VARCHAR) AS t FROM range(1000000000)',
};
for (const [description, sql] of Object.entries(statements)) {
  test(`cancel stops ${description}`, async () => {
    await cancelledTask(description, await server.query('shop', sql, { waitSeconds: 0 }));
  });
  test(`cancel stops the profile of ${description}`, async () => {
    await cancelledTask(
      `the profile of ${description}`,
      await server.post(`${database}/profile`, { sql, waitSeconds: 0 }),
    );
  });
}

for (const [i, format] of ['parquet', 'csv', 'ndjson', 'arrow'].entries()) {
  test(`cancel stops an export to ${format}`, async () => {
    // A different text for each: a statement whose cancellation ended the process is quarantined.
    const sql = `SELECT range AS n, md5(range::VARCHAR) AS t FROM range(${2_000_000_000 + i})`;
    await cancelledTask(`an export to ${format}`, await server.post(`${database}/export`, { sql, format }));
    assert.deepEqual(await readdir(join(server.dataDirectory, 'files')), []);
  });
}

test('cancel stops a load', async () => {
  const path = join(directory, 'rows.csv');
  await writeFile(path, `n,s\n${Array.from({ length: 300_000 }, (_, i) => `${i},row ${i}\n`).join('')}`);
  const columns = [{ name: 'n' }, { name: 's', expression: 'md5(repeat(s, 3000))' }];
  await cancelledTask('a load', await server.post(`${database}/tables/t/load`, { source: { path }, columns }));
});

test('cancel stops insert_select, through the history', async () => {
  const sql = 'SELECT range AS n, md5(range::VARCHAR) AS s FROM range(1000000000)';
  const answer = server.post(`${database}/tables/t/insert_select`, { sql });
  await stopped('insert_select', async () => {
    let uri: string | undefined;
    await eventually('it is in the history', async () => {
      const running = await server.post('/api/v2/queries/search', { state: 'running', kind: 'insert' });
      uri = running.at<{ uri: string }[]>('queries')[0]?.uri;
      return uri !== undefined;
    });
    return server.post(`${uri}/cancel`);
  });
  (await answer).is(400, 'STATEMENT_CANCELLED');
  await answers();
});
