// SIGTERM: no more connections are accepted, running requests are finished, endless ones are cancelled, and the process ends within
// ten seconds in any case.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { deadlineMs, eventually, spentMs, statementWaitSeconds } from '../../deadline.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import { requestHead, Wire } from './wire.ts';

/** Long enough that nothing is cancelled, however busy the machine is. */
const patient = ['--shutdown-timeout-ms=600000'];
const second = 'SELECT count(*) FROM range(50000000) WHERE hash(range) % 7 = 0';

async function untilRunning(server: ServerProcess): Promise<void> {
  const runningQueries = async () => (await server.get('/api/v2/warehouses/default')).at<number>('runningQueries');
  await eventually('the statement runs', async () => (await runningQueries()) > 0);
}

/** The signal has arrived. */
async function untilStopping({ port }: ServerProcess): Promise<void> {
  const isRefused = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(false));
      socket.once('error', () => resolve(true));
      socket.once('connect', () => socket.destroy());
    });
  await eventually('it takes no more connections', isRefused);
}

/** Sends a statement on a connection of its own. */
function sendQuery(server: ServerProcess, sql: string): Wire {
  const wire = new Wire(server.port);
  // A statement that takes longer would become a task.
  const body = JSON.stringify({ sql, waitSeconds: statementWaitSeconds() });
  const lines = ['Content-Type: application/json', `Content-Length: ${body.length}`];
  wire.write(requestHead(server.token, 'POST /api/v2/catalogs/default/query', ...lines) + body);
  return wire;
}

async function exitMs(server: ServerProcess): Promise<number> {
  const started = Date.now();
  assert.equal(await server.exited, 0, 'it ends by itself, and well');
  return Date.now() - started;
}

test('an idle server stops at once, even with idle connections', async (t) => {
  const server = await startProcess();
  t.after(() => server.close());
  const wires = Array.from({ length: 20 }, () => new Wire(server.port));
  for (const wire of wires) {
    wire.write(requestHead(server.token, 'GET /api/v2/catalogs'));
    assert.equal((await wire.answer()).status, 200);
  }
  const half = new Wire(server.port);
  half.write('GET /api');
  server.child.kill('SIGTERM');
  const ms = await exitMs(server);
  assert.ok(ms < deadlineMs(3000), `${ms} ms`);
  for (const wire of wires) assert.equal(await wire.rest(), '');
});

test('running requests are finished and answered; new connections are refused', async (t) => {
  const server = await startProcess(patient);
  t.after(() => server.close());
  const wire = sendQuery(server, second);
  await untilRunning(server);
  server.child.kill('SIGTERM');
  await untilStopping(server);
  const lateWire = new Wire(server.port);
  lateWire.write(requestHead(server.token, 'GET /api/v2/catalogs'));
  assert.ok(!(await lateWire.rest()).includes(' 200 '));
  const answer = await wire.answer();
  assert.equal(answer.status, 200, answer.body);
  assert.equal(answer.headers.connection, 'close');
  await exitMs(server);
});

test('an endless statement is cancelled, its caller is notified, and the process ends in time', async (t) => {
  // Of which 40 percent pass before the statement is cancelled.
  const timeoutMs = spentMs(10_000);
  const server = await startProcess([`--shutdown-timeout-ms=${timeoutMs}`]);
  t.after(() => server.close());
  const wire = sendQuery(server, 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b');
  await untilRunning(server);
  server.child.kill('SIGTERM');
  const answer = await wire.answer();
  assert.deepEqual([answer.status, JSON.parse(answer.body).code], [400, 'STATEMENT_CANCELLED']);
  const ms = await exitMs(server);
  assert.ok(ms < timeoutMs, `${ms} ms`);
});

test('a request on an open connection gets 503 SHUTTING_DOWN, with Retry-After', async (t) => {
  const server = await startProcess(patient);
  t.after(() => server.close());
  const slow = sendQuery(server, second);
  const wire = new Wire(server.port);
  wire.write(requestHead(server.token, 'GET /api/v2/catalogs').slice(0, -2)); // all but the empty line
  await untilRunning(server);
  server.child.kill('SIGTERM');
  await untilStopping(server);
  wire.write('\r\n');
  const answer = await wire.answer();
  assert.deepEqual([answer.status, JSON.parse(answer.body).code], [503, 'SHUTTING_DOWN']);
  assert.ok(Number(answer.headers['retry-after']) > 0);
  assert.equal((await slow.answer()).status, 200);
  await exitMs(server);
});

test('a second SIGTERM or SIGINT has no effect', async (t) => {
  const server = await startProcess();
  t.after(() => server.close());
  server.child.kill('SIGINT');
  server.child.kill('SIGTERM');
  await exitMs(server);
});
