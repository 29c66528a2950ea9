// A statement that ends the process of the engine, through REST: it is refused for a while, concurrent reads succeed nevertheless,
// and an operator can release it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { busyChild, idleChildren } from '../../children.ts';
import { deadlineMs, eventually } from '../../deadline.ts';
import { type Reply, start, startProcess, statementRuns, type TestServer, uri } from '../../server.ts';

/** One call of a function that ignores interrupts, for longer than `killerSeconds`. */
const killer = `SELECT length(regexp_replace(repeat('ab', 60000000 + range::INT), 'b', 'c', 'g')) FROM range(1)`;
const warehouse = '/api/v2/warehouses/default';
const killerSeconds = 2;

let server: TestServer;
before(async () => {
  server = await start({ warehouseMemoryBytes: 1024 ** 3, logLevel: 'silent' });
  (await server.put('/api/v2/databases/d')).is(201);
  (await server.post('/api/v2/databases/d/tables', { name: 't', columns: [{ name: 'id', type: 'INT' }] })).is(201);
  (await server.query('d', 'INSERT INTO t SELECT range FROM range(100)')).is(200);
});
after(() => server.close());

/** Begins a statement with a short time limit; the statements after it have the usual one, however slow the machine is. */
async function begunKiller(sql: string, more: object = {}): Promise<{ readonly answer: Promise<Reply> }> {
  const { statementTimeoutSeconds } = (await server.get(warehouse)).is(200).result;
  (await server.patch(warehouse, { statementTimeoutSeconds: killerSeconds })).is(200);
  const answer = server.query('d', sql, more);
  await Promise.race([answer, statementRuns(server)]);
  (await server.patch(warehouse, { statementTimeoutSeconds })).is(200);
  return { answer };
}

/** Runs reads, one after another, while the work runs. */
async function readsDuring<T>(work: Promise<T>): Promise<{ done: T; codes: string[]; statements: string[] }> {
  let isDone = false;
  const codes: string[] = [];
  const statements: string[] = [];
  const lanes = Array.from({ length: 4 }, async (_, lane) => {
    for (let i = 0; !isDone; i++) {
      const sql = `SELECT count(*), ${lane}, ${i} FROM range(1000000) a WHERE hash(range) % 7 = 3 AND EXISTS (FROM t)`;
      statements.push(sql);
      codes.push((await server.query('d', sql)).code);
    }
  });
  const outcome = await work.finally(() => {
    isDone = true;
  });
  await Promise.all(lanes);
  return { done: outcome, codes, statements };
}

test('a statement that crashes the engine is refused; statements beside it are answered and never refused', {
  timeout: deadlineMs(120_000),
}, async () => {
  const { done, codes, statements } = await readsDuring((await begunKiller(killer)).answer);
  done.is(400, 'STATEMENT_TIMEOUT');
  assert.deepEqual([...new Set(codes)], ['0']);
  for (const sql of statements) (await server.query('d', sql)).is(200, '0');
  (await server.query('d', killer)).is(400, 'STATEMENT_QUARANTINED');
  (await server.post('/api/v2/databases/d/explain', { sql: killer })).is(400, 'STATEMENT_QUARANTINED');
  (await server.query('d', `${killer} LIMIT 0`)).is(200, '0');
});

test('expensive parameter values affect their own statement only; reads beside it are answered', {
  timeout: deadlineMs(120_000),
}, async () => {
  const multiplied = ['a'.repeat(1_000_000), 'b'.repeat(100_000)];
  const refused = await readsDuring(server.query('d', `SELECT replace($1, 'a', $2)`, { parameters: multiplied }));
  refused.done.is(400, 'SQL_INVALID');
  // No limit of a single call prevents this: each step doubles the text.
  const doubled = `SELECT length(list_reduce(range($1)::VARCHAR[], lambda a, b: a || a || b))`;
  const { done, codes } = await readsDuring((await begunKiller(doubled, { parameters: [100] })).answer);
  // WAREHOUSE_FAILED: engines ended for their memory while reads ran beside it, so that it is not certain which statement took the memory.
  assert.match(
    done.code,
    /^(?:SQL_INVALID|MEMORY_LIMIT_EXCEEDED|STATEMENT_TIMEOUT|STATEMENT_QUARANTINED|WAREHOUSE_FAILED)$/,
    done.text.slice(0, 300),
  );
  assert.deepEqual([...new Set([...refused.codes, ...codes])], ['0']);
  (await server.post(`${warehouse}/release_quarantine`)).is(200, '0');
  (await (await begunKiller(killer)).answer).is(400, 'STATEMENT_TIMEOUT');
});

test('a refused statement is released by an operator of the warehouse', { timeout: deadlineMs(120_000) }, async () => {
  (await server.query('d', killer)).is(400, 'STATEMENT_QUARANTINED');
  (await server.get(warehouse)).is(200, '0', { quarantinedStatements: 1 });
  (await server.post(`${warehouse}/release_quarantine`)).is(200, '0', { released: 1 });
  (await server.get(warehouse)).is(200, '0', { quarantinedStatements: 0 });
  (await server.post(`${warehouse}/release_quarantine`)).is(200, '0', { released: 0 });
  (await (await begunKiller(killer)).answer).is(400, 'STATEMENT_TIMEOUT');
  (await server.post(uri`/warehouses/${'none'}/release_quarantine`)).is(404, 'OBJECT_NOT_FOUND');
});

/** A server whose engine process can be signalled. */
async function withEnginePid() {
  const crashing = await startProcess(['--log-level=info', '--spare-engine=false']);
  let output = '';
  crashing.child.stderr?.on('data', (chunk: Buffer) => {
    output += chunk;
  });
  (await crashing.put('/api/v2/databases/d')).is(201);
  (await crashing.query('d', 'SELECT 1')).is(200);
  const pid = () => Number([...output.matchAll(/"pid":(\d+),"msg":"engineStarted"/g)].at(-1)?.[1]);
  /** Ends the current engine process, which differs from the previous one, while a statement runs in it. */
  const crash = async (before?: number) => {
    await eventually('another process', () => pid() !== before);
    await statementRuns(crashing);
    const crashed = pid();
    process.kill(crashed, 'SIGSEGV');
    return crashed;
  };
  return { crashing, crash };
}

test('a read whose process crashes runs once more; one that crashes the next process too is refused', async () => {
  const { crashing, crash } = await withEnginePid();
  try {
    const finite = `SELECT count(*) FROM range(600000000) WHERE hash(range) % 7 = 3`;
    const firstRun = crashing.query('d', finite, { waitSeconds: 60 });
    const first = await crash();
    const answer = await firstRun;
    // On a slow machine it becomes a task before it ends.
    if (answer.status === 202) (await crashing.ended(answer)).is(200, '0', { state: 'succeeded' });
    else answer.is(200);
    (await crashing.query('d', 'SELECT 1')).is(200);
    const endless = 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7';
    const secondRun = crashing.query('d', endless, { waitSeconds: 60 });
    const second = await crash(first);
    await crash(second);
    (await secondRun).is(400, 'STATEMENT_QUARANTINED');
    (await crashing.query('d', endless)).is(400, 'STATEMENT_QUARANTINED');
    (await crashing.post('/api/v2/databases/d/explain', { sql: finite })).is(200);
  } finally {
    await crashing.close();
  }
});

/** Evaluated during binding; `n`: makes the text of each test different. Bound and then refused: it never runs. */
const bind = (n: number) =>
  server.post('/api/v2/databases/d/profile', {
    sql: `INSERT INTO t SELECT length(regexp_replace(repeat('ab', ${n}), 'b', 'c', 'g'))`,
  });
const releasedStatements = async () =>
  (await server.post(`${warehouse}/release_quarantine`)).is(200, '0').at('released');

test('a statement that crashes the analysis process never reaches the engine, and is refused at once', {
  timeout: deadlineMs(120_000),
}, async () => {
  await releasedStatements();
  (await bind(2_000_004)).is(400, 'SQL_NOT_SUPPORTED');
  await idleChildren();
  const answer = bind(90_000_000);
  process.kill(await busyChild(), 'SIGSEGV');
  (await answer).is(400, 'STATEMENT_QUARANTINED');
  (await bind(90_000_000)).is(400, 'STATEMENT_QUARANTINED');
  (await server.query('d', 'SELECT count(*) AS beside FROM t')).is(200, '0');
  assert.equal(await releasedStatements(), 1);
});

test('a statement whose analysis process is killed from outside is analyzed again; a second death is blamed on it', {
  timeout: deadlineMs(120_000),
}, async () => {
  // Two processes are ready, and each attempt uses one of them.
  for (const reply of await Promise.all([bind(2_000_000), bind(2_000_001)])) reply.is(400, 'SQL_NOT_SUPPORTED');
  await idleChildren();
  const finiteQuery = bind(6_000_000);
  process.kill(await busyChild(), 'SIGKILL');
  (await finiteQuery).is(400, 'SQL_NOT_SUPPORTED');
  assert.equal(await releasedStatements(), 0);
  for (const reply of await Promise.all([bind(2_000_002), bind(2_000_003)])) reply.is(400, 'SQL_NOT_SUPPORTED');
  await idleChildren();
  const oversized = bind(90_000_001);
  const first = await busyChild();
  process.kill(first, 'SIGKILL');
  process.kill(await busyChild(first), 'SIGKILL');
  (await oversized).is(400, 'STATEMENT_QUARANTINED');
  assert.equal(await releasedStatements(), 1);
});

test('a statement whose analysis exceeds `analysisTimeoutMs` is refused, and then quarantined', async () => {
  const strictServer = await start({ analysisTimeoutMs: 1_000, logLevel: 'silent' });
  try {
    const sql = `SELECT length(regexp_replace(repeat('ab', 90000000), 'b', 'c', 'g'))`;
    const refused = (await strictServer.post('/api/v2/catalogs/default/query', { sql })).is(400, 'STATEMENT_TIMEOUT');
    assert.match(refused.message, /longer than 1 s/);
    (await strictServer.post('/api/v2/catalogs/default/query', { sql })).is(400, 'STATEMENT_QUARANTINED');
  } finally {
    await strictServer.close();
  }
});
