// Many connections, and disconnects: an idle connection costs little, the statement of a client that disconnects is cancelled, and
// connections over the limit are closed at once.
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { deadlineMs, eventually } from '../../deadline.ts';
import { start, startProcess, type TestServer } from '../../server.ts';
import { requestHead, Wire } from './wire.ts';

const wantedConnections = 10_000;
const endlessSql = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';

function open(port: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('connect', () => resolve(socket));
    socket.once('error', () => resolve(undefined));
  });
}

test('with 10,000 idle connections a request is answered as usual', async (t) => {
  const server = await startProcess([
    '--headers-timeout-ms=60000',
    '--connections-max=20000',
    '--connections-per-address-max=0',
  ]);
  const sockets: Socket[] = [];
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await server.close();
  });
  while (sockets.length < wantedConnections) {
    const some = await Promise.all(Array.from({ length: 500 }, () => open(server.port)));
    const openSockets = some.filter((socket) => socket !== undefined);
    sockets.push(...openSockets);
    if (openSockets.length < some.length) break; // as many as this machine allows for one process
  }
  if (sockets.length < wantedConnections)
    t.diagnostic(`only ${sockets.length} connections: this machine allows no more`);
  // The kernel connects before the server accepts.
  const openFiles = async () => (await readdir(`/proc/${server.child.pid}/fd`)).length;
  await eventually(`the server holds ${sockets.length} connections`, async () => (await openFiles()) >= sockets.length);
  sockets.at(-1)?.destroy(); // room for the test's own
  const started = performance.now();
  (await server.get('/api/v2/catalogs')).is(200);
  assert.deepEqual(await server.rows('none', 'SELECT 1').catch(() => 'no such database'), 'no such database');
  assert.ok(performance.now() - started < deadlineMs(3000), `${performance.now() - started} ms`);
  const answered = new Promise<string>((resolve) => sockets[0]?.once('data', (bytes) => resolve(String(bytes))));
  sockets[0]?.write(requestHead(server.token, 'GET /api/v2/catalogs'));
  assert.match(await answered, /^HTTP\/1\.1 200 /, 'an idle one is no worse for the wait');
});

test('connections over the limit are closed at once; when others are closed there is room', async (t) => {
  const server = await start({ connectionsMax: 10 });
  t.after(() => server.close());
  const wires = Array.from({ length: 10 }, () => new Wire(server.port));
  for (const wire of wires) {
    wire.write(requestHead(server.token, 'GET /api/v2/catalogs'));
    assert.equal((await wire.answer()).status, 200);
  }
  assert.equal(await new Wire(server.port).rest(), '');
  for (const wire of wires) wire.close();
  await eventually('room', async () => (await server.get('/api/v2/catalogs').catch(() => undefined))?.status === 200);
});

const running = async (server: TestServer) =>
  (await server.get('/api/v2/warehouses/default')).at<number>('runningQueries');

test('the statement of a client that disconnects is cancelled, even one that waits in the queue', async (t) => {
  const server = await start({ warehouseQueriesMax: 1, warehouseThreads: 1 });
  t.after(() => server.close());
  const body = JSON.stringify({ sql: endlessSql });
  const queryInThread = () => {
    const wire = new Wire(server.port);
    const lines = ['Content-Type: application/json', `Content-Length: ${body.length}`];
    wire.write(requestHead(server.token, 'POST /api/v2/catalogs/default/query', ...lines) + body);
    return wire;
  };
  const [first, second] = [queryInThread(), queryInThread()];
  await eventually('one runs, one waits', async () => {
    const { result } = await server.get('/api/v2/warehouses/default');
    return result.runningQueries === 1 && result.queuedQueries === 1;
  });
  second.close();
  await eventually(
    'left the queue',
    async () => (await server.get('/api/v2/warehouses/default')).at('queuedQueries') === 0,
  );
  assert.equal(await running(server), 1);
  first.close();
  await eventually('stopped', async () => (await running(server)) === 0);
  const states = (await server.get('/api/v2/queries')).at<{ state: string; error: { code: string } }[]>('queries');
  assert.deepEqual(
    states.map((state) => [state.state, state.error.code]),
    Array(2).fill(['cancelled', 'STATEMENT_CANCELLED']),
  );
});

test('a client that disconnects while it sends a body leaves nothing behind', async (t) => {
  const largeBytes = 700_000;
  // Room for the 51 clients and the agent's own connection, and for one large body at a time.
  const server = await start({ connectionsMax: 52, connectionsPerAddressMax: 1000, largeBodiesBytesMax: 1_000_000 });
  t.after(() => server.close());
  const large = { comment: 'x', ignored: ' '.repeat(largeBytes) };
  const wires = Array.from({ length: 51 }, () => new Wire(server.port));
  for (const [i, wire] of wires.entries()) {
    const [bytes, sent] = i === 0 ? [largeBytes, largeBytes - 1000] : [100, 0];
    const lines = ['Content-Type: application/json', `Content-Length: ${bytes}`];
    wire.write(`${requestHead(server.token, 'PUT /api/v2/databases/half', ...lines)}{"comment":${' '.repeat(sent)}`);
  }
  const refusedLarge = async () => (await server.put('/api/v2/databases/half', large)).code === 'SERVER_BUSY';
  await eventually('the memory of the large body is reserved', refusedLarge);
  for (const wire of wires) wire.close();
  await eventually('the memory is released', async () => !(await refusedLarge()));
  await eventually('the connections are released', async () => {
    const secondWires = Array.from({ length: 51 }, () => new Wire(server.port));
    for (const wire of secondWires) wire.write(requestHead(server.token, 'GET /api/v2/catalogs'));
    const answers = await Promise.all(secondWires.map((wire) => wire.answer().catch(() => undefined)));
    for (const wire of secondWires) wire.close();
    return answers.every((answer) => answer?.status === 200);
  });
  (await server.get('/api/v2/databases/half')).is(404, 'OBJECT_NOT_FOUND');
});
