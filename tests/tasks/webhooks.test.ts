// Webhooks for the ends of tasks, with a real server and a real receiver: signed, retried, delivered at least once despite failures and
// kills, only to listed hosts, and without their secrets in plain text.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { HostPatternError } from '../../src/outbound/host_allowlist.ts';
import { eventually } from '../deadline.ts';
import { start, startProcess, type TestServer } from '../server.ts';
import { Receiver } from './receiver.ts';

const secret = 'a secret of the receiver';
let server: TestServer;
let receiver: Receiver;
let onStatement: ((sql: string) => void) | undefined;

before(async () => {
  receiver = await new Receiver().listen();
  const settings = { logLevel: 'silent', warehouseThreads: 1, webhookHosts: '127.0.0.1, *.example.com' } as const;
  server = await start(settings, {
    injectStore: ({ sql }) => onStatement?.(sql),
    taskRetryPauseMs: 10,
  });
});
after(async () => {
  await server.close();
  receiver.close();
});

const query = (sql: string, more: object = {}) =>
  server.post('/api/v2/catalogs/default/query', { sql, waitSeconds: 0, ...more });
const submit = async (sql: string, more: object = {}) =>
  (await query(sql, { notify: { url: receiver.url, secret }, ...more })).is(202).at<string>('taskId');
const stateOf = async (taskId: string) =>
  (await server.get(`/api/v2/tasks/${taskId}`)).is(200).at<Record<string, unknown>>('notify');
const untilSent = (taskId: string) => eventually('sent', async () => (await stateOf(taskId)).state === 'sent');

test('the end of a task is notified, signed, without its result', async () => {
  const taskId = await submit("SELECT 'private' AS x");
  await untilSent(taskId);
  const [notice, ...more] = receiver.noticesOf(taskId);
  assert.equal(more.length, 0);
  assert(notice);
  const { headers, body, task } = notice;
  const timestamp = headers['x-service-timestamp'] as string;
  assert(Math.abs(Date.now() / 1000 - Number(timestamp)) < 60);
  const signature = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex');
  assert.equal(headers['x-service-signature'], `sha256=${signature}`);
  assert.equal(headers['x-service-notice-id'], taskId);
  assert.partialDeepStrictEqual(task, { state: 'succeeded', type: 'run_query', uri: `/api/v2/tasks/${taskId}` });
  assert.deepEqual(
    ['request', 'result', 'principal', 'notify'].filter((field) => field in task),
    [],
  );
  assert.deepEqual(await stateOf(taskId), {
    host: `127.0.0.1:${receiver.port}`,
    signed: true,
    state: 'sent',
    attempts: 1,
    error: null,
  });
});

test('failures and cancellations are notified too, also of dependent tasks; without a secret there is no signature', async () => {
  const failed = await submit('SELECT nothing');
  const after = await submit('SELECT 1', { after: [failed], notify: { url: receiver.url } });
  const before = await submit('SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b');
  const waiting = await submit('SELECT 1', { after: [before] });
  for (const taskId of [waiting, before]) (await server.post(`/api/v2/tasks/${taskId}/cancel`)).is(200);
  for (const taskId of [failed, after, before, waiting]) await untilSent(taskId);
  const states = [failed, after, waiting].map((taskId) => receiver.noticesOf(taskId)[0]?.task.state);
  assert.deepEqual(states, ['failed', 'failed', 'cancelled']);
  assert.partialDeepStrictEqual(receiver.noticesOf(failed)[0]?.task.error, { code: 'SQL_INVALID' });
  assert.equal(receiver.noticesOf(after)[0]?.headers['x-service-signature'], undefined);
});

test('a refused notification is sent again; redirects are not followed; 410 ends the attempts', async () => {
  receiver.statuses = [500, 0, 302, 503, 200];
  const taskId = await submit('SELECT 2');
  await untilSent(taskId);
  assert.equal(receiver.noticesOf(taskId).length, 5);
  assert.equal((await stateOf(taskId)).attempts, 5);
  receiver.statuses = [410, 204];
  const unreachable = await submit('SELECT 3');
  await eventually('given up', async () => (await stateOf(unreachable)).state === 'failed');
  assert.match(String((await stateOf(unreachable)).error), /410/);
  assert.equal(receiver.noticesOf(unreachable).length, 1);
});

test('a statement that outlives its caller’s wait is notified too; one that does not is answered', async () => {
  const slow = 'SELECT sum(a.range * b.range) FROM range(60000) a, range(20000) b';
  const answer = await query(slow, { waitSeconds: 0.05, notify: { url: receiver.url } });
  const taskId = answer.is(202).at<string>('taskId');
  await server.post(`/api/v2/tasks/${taskId}/cancel`);
  await untilSent(taskId);
  const before = receiver.notices.length;
  (await query('SELECT 4', { waitSeconds: 30, notify: { url: receiver.url } })).is(200);
  assert.equal(receiver.notices.length, before);
});

test('only to listed hosts, and to no address that only resembles one', async () => {
  const requireUrlRefused = async (url: string, code = 'HOST_NOT_ALLOWED') =>
    (await query('SELECT 1', { notify: { url } })).is(400, code);
  await requireUrlRefused('http://localhost:1/');
  await requireUrlRefused('http://example.com/');
  await requireUrlRefused('http://10.0.0.1/');
  await requireUrlRefused('http://2130706434/');
  await requireUrlRefused('ftp://127.0.0.1/', 'INVALID_PARAMETER');
  await requireUrlRefused('http://me:mine@127.0.0.1/', 'INVALID_PARAMETER');
  await requireUrlRefused('nowhere', 'INVALID_PARAMETER');
  (await query('SELECT 1', { notify: { url: receiver.url, secret: 'short' } })).is(400, 'INVALID_PARAMETER');
});

test('an invalid pattern prevents the start', async () => {
  const dataDir = join(server.dataDirectory, 'never');
  await assert.rejects(start({ dataDir, webhookHosts: 'a*b' }), HostPatternError);
});

test('secret and URL are in no response and in no file in plain text, and are deleted after the delivery', async () => {
  receiver.statuses = [500, 500, 204];
  const taskId = await submit('SELECT 5');
  const texts = [(await server.get(`/api/v2/tasks/${taskId}`)).text, (await server.get('/api/v2/tasks')).text];
  await untilSent(taskId);
  for (const entry of await readdir(server.dataDirectory, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) texts.push((await readFile(join(entry.parentPath, entry.name))).toString('latin1'));
  for (const text of texts) assert(!text.includes(secret) && !text.includes('in+the+address'));
});

test('whichever statement of the store fails, each end is notified at least once', async () => {
  receiver.statuses = [204];
  const failures = new Set<string>();
  for (let n = 1; n <= 45; n++) {
    let count = 0;
    onStatement = (sql) => {
      if (++count !== n) return;
      failures.add(sql);
      throw new Error('the disk is gone');
    };
    const answer = await server.send('POST', '/api/v2/catalogs/default/query', {
      body: { sql: 'SELECT 6', waitSeconds: 0, notify: { url: receiver.url, secret } },
    });
    const { result } = JSON.parse(answer.text) as { result: { taskId?: string } };
    if (result.taskId !== undefined) await eventually(`sent, ${n}`, () => receiver.noticesOf(result.taskId).length > 0);
    onStatement = undefined;
    if (result.taskId !== undefined) await untilSent(result.taskId);
  }
  assert(
    [...failures].some((sql) => sql.includes('set "notify"')),
    'that it was sent was not among what failed',
  );
});

test('a server that is killed before the end, or before the notification, sends it after the restart', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-notices-kill-'));
  const flags = ['--webhook-hosts=127.0.0.1', '--log-level=fatal'];
  let process = await startProcess(flags, directory);
  const queryWithNotify = async (sql: string, more: object = {}) => {
    const body = { sql, waitSeconds: 0, notify: { url: receiver.url, secret }, ...more };
    return (await process.post('/api/v2/catalogs/default/query', body)).is(202).at<string>('taskId');
  };
  const kill = async () => {
    process.child.kill('SIGKILL');
    await process.exited;
  };
  try {
    const running = await queryWithNotify('SELECT sum(a.range * b.range) FROM range(20000) a, range(10000) b');
    const waiting = await queryWithNotify('SELECT 7', { after: [running] });
    await kill();
    process = await startProcess(flags, directory);
    for (const taskId of [running, waiting])
      await eventually('notified after a kill', () => receiver.noticesOf(taskId).length > 0);
    receiver.statuses = [0];
    const untold = await queryWithNotify('SELECT 8');
    await eventually('tried', () => receiver.noticesOf(untold).length > 0);
    await kill();
    const before = receiver.noticesOf(untold).length;
    receiver.statuses = [204];
    process = await startProcess(flags, directory);
    await eventually('notified in the end', () => receiver.noticesOf(untold).length > before, 12_000);
  } finally {
    await process.close();
    await rm(directory, { recursive: true, force: true });
  }
});
