// Remains of tasks after their beginning or end: the name of a table that was to be created with its rows stayed reserved for a minute
// after the task had run out of attempts; an `optimize` task had no audit event; a complete load failed
// because its source was gone when a crash made it run again; half of a result remained that no task returns.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { eventually } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';

let directory: string;
let sources: string;
let server: TestServer;
let onStatement: ((sql: string) => void) | undefined;
/** The names of the engine's calls, after they were made. */
let afterCall: ((name: string) => Promise<void> | void) | undefined;

const table = '/api/v2/databases/d/tables/t';

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tabularium-ends-'));
  sources = join(directory, 'sources');
  await mkdir(sources);
  const settings = { logLevel: 'silent', pageBytesMax: 65_536, loadDirectories: sources } as const;
  server = await start(settings, {
    injectStore: ({ sql }) => onStatement?.(sql),
    wrapEngine: (engine) => ({
      ...engine,
      open: (options) => watched(engine.open(options)),
    }),
    taskRetryPauseMs: 2,
  });
  await server.client.databases.create({ name: 'd' });
  const columns = [{ name: 'id', type: 'BIGINT' }];
  await server.client.databases('d').tables.create({ name: 't', columns }).done();
});
after(async () => {
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

function watched(warehouse: EngineWarehouse): EngineWarehouse {
  return new Proxy(warehouse, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      const call = value.bind(target) as (...parameters: unknown[]) => unknown;
      if (!['execute', 'load'].includes(String(key))) return call;
      return async (...parameters: unknown[]) => {
        const answer = await call(...parameters);
        await afterCall?.(String(key));
        return answer;
      };
    },
  });
}

test('the name of a table whose creation has run out of attempts is free', async () => {
  afterCall = () => {
    throw new Failure('WAREHOUSE_FAILED', 'injected');
  };
  const body = { name: 'made', asSelect: { sql: 'SELECT 1 AS a', waitSeconds: 0 } };
  const task = await server.ended(await server.post('/api/v2/databases/d/tables', body));
  afterCall = undefined;
  assert.equal(task.at('error', 'code'), 'TASK_ATTEMPTS_EXHAUSTED', task.text);
  const columns = [{ name: 'b', type: 'STRING' }];
  await server.client.databases('d').tables.create({ name: 'made', columns }).done();
});

test('optimize: no task without its audit event', async () => {
  onStatement = (sql) => {
    if (sql.startsWith('insert into "audit_events"')) throw new Error('injected');
  };
  const answer = await server.send('POST', `${table}/optimize`, { body: {} });
  onStatement = undefined;
  assert.equal(answer.status, 500, answer.text);
  const tasks = async () =>
    (await server.get('/api/v2/tasks')).at<{ type: string }[]>('tasks').filter(({ type }) => type === 'optimize_table');
  assert.equal((await tasks()).length, 0);
  await server.ended(await server.post(`${table}/optimize`));
  const lines = (await server.post('/api/v2/audit_events/search', { action: 'tables.optimize' })).is(200);
  assert.equal(lines.at<{ outcome: string }[]>('auditEvents').filter(({ outcome }) => outcome === '0').length, 1);
});

test('a completed load does not read its file again', async () => {
  for (const errorsMax of [0, 1]) {
    const file = join(sources, `once${errorsMax}.csv`);
    await writeFile(file, 'id\n1\n2\n');
    const before = await server.rows('d', 'SELECT count(*) FROM t');
    let loads = 0;
    afterCall = async (name) => {
      if (name !== 'load' || ++loads > 1) return;
      await rm(file);
      throw new Failure('WAREHOUSE_FAILED', 'injected');
    };
    const task = await server.ended(await server.post(`${table}/load`, { source: { path: file }, errorsMax }));
    afterCall = undefined;
    assert.equal(task.at('state'), 'succeeded', task.text);
    assert.partialDeepStrictEqual(task.at('result'), {
      rowsLoaded: 2,
      rowsRejected: errorsMax === 0 ? 0 : null,
      bytes: null,
    });
    assert.deepEqual(await server.rows('d', 'SELECT count(*) FROM t'), [[Number(before[0]?.[0]) + 2]]);
  }
});

test('a result without a task is not stored', async () => {
  onStatement = (sql) => {
    if (sql.startsWith('insert into "tasks"')) throw new Error('injected');
  };
  const sql = "SELECT range, repeat('x', 30) FROM range(10000)";
  const answer = await server.send('POST', '/api/v2/databases/d/query', { body: { sql } });
  onStatement = undefined;
  assert.equal(answer.status, 500, answer.text);
  const results = join(server.dataDirectory, 'results');
  await eventually('the result is gone', async () => (await readdir(results)).length === 0);
  (await server.query('d', sql)).is(200);
  assert.ok((await readdir(results)).length > 0);
});

test('a statement of a task outlives an outage of several attempts', async () => {
  let failures = 3;
  afterCall = () => {
    if (failures-- > 0) throw new Failure('WAREHOUSE_FAILED', 'injected', {}, { outcome: 'unknown' });
  };
  const task = await server.ended(await server.post('/api/v2/databases/d/query', { sql: 'SELECT 1', waitSeconds: 0 }));
  afterCall = undefined;
  task.is(200, '0', { state: 'succeeded', attempt: 4 });
});
