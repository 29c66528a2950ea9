// Requests that are forwarded to another server: a response whose server is lost after it has begun is not awaited for ever, slow requests
// of one principal leave connections for those of others, and requests of clients that have disconnected take none.
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { Forwarder } from '../../src/http/forwarding/forwarder.ts';
import { eventually } from '../deadline.ts';

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('a response of another server that does not come to its end', () => {
  let isDown = false;
  // It stands still when it has sent the first bytes.
  const other = createServer((incoming, outgoing) => {
    incoming.resume();
    outgoing.writeHead(200, { 'content-type': 'text/plain' }).write('begun');
  });
  let front: Server;
  let url: string;
  let forwarder: Forwarder;
  before(async () => {
    const otherUrl = await listening(other);
    forwarder = new Forwarder({
      serverId: 'here',
      key: randomBytes(32),
      find: () => (isDown ? undefined : { url: otherUrl }),
      addressOf: () => '127.0.0.1',
      changes: { position: 0 },
    });
    front = createServer((incoming, outgoing) => {
      const common = {
        requestId: randomUUID(),
        principalId: 'ann',
        serverId: 'there',
        isChange: false,
        isCharged: false,
        isRoot: false,
      };
      forwarder.forward({ incoming, outgoing, ...common }).catch(() => outgoing.writeHead(503).end());
    });
    url = await listening(front);
  });
  after(() => {
    forwarder.close();
    for (const server of [front, other]) {
      server.closeAllConnections();
      server.close();
    }
  });

  /** @returns the status of the response and whether it was whole. `begun`: called with its first bytes. */
  const send = (method: string, begun: () => void) =>
    new Promise<{ readonly status: number | undefined; readonly isWhole: boolean }>((resolve, reject) => {
      const sent = request(url, { method, headers: method === 'POST' ? { 'transfer-encoding': 'chunked' } : {} });
      sent.once('error', reject).once('response', (response) => {
        response.once('data', begun).on('error', () => undefined);
        response.once('close', () => resolve({ status: response.statusCode, isWhole: response.complete }));
      });
      // The body of a POST is not sent to its end.
      if (method === 'POST') sent.write('a');
      else sent.end();
    });
  const goesDown = () => {
    isDown = true;
  };

  for (const method of ['GET', 'POST'])
    test(`to a ${method}, ends when the server is known to be down`, async () => {
      isDown = false;
      const { status, isWhole } = await send(method, goesDown);
      assert.deepEqual({ status, isWhole }, { status: 200, isWhole: false });
    });
});

describe('the connections to another server', () => {
  const waiting = new Map<string, () => void>();
  const arrivals = new Map<string, () => void>();
  const other = createServer((incoming, outgoing) => {
    // More than the buffers on the way take.
    if (incoming.url?.endsWith('/late')) return void outgoing.end(Buffer.alloc(16 * 1024 * 1024));
    waiting.set(String(incoming.url), () => outgoing.writeHead(204).end());
    arrivals.get(String(incoming.url))?.();
  });
  let front: Server;
  let url: string;
  let forwarder: Forwarder;
  const codes: string[] = [];
  /** Called when a request was forwarded whose client had disconnected before. */
  let late: (() => void) | undefined;
  before(async () => {
    const otherUrl = await listening(other);
    forwarder = new Forwarder({
      serverId: 'here',
      key: randomBytes(32),
      find: () => ({ url: otherUrl }),
      addressOf: () => '127.0.0.1',
      changes: { position: 0 },
      socketsMax: 4,
    });
    const forward = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
      const principalId = String(incoming.url).split('/')[1] ?? '';
      const endsWork = String(incoming.url).endsWith('/cancel');
      const common = { requestId: randomUUID(), principalId, serverId: 'there', isChange: false, endsWork };
      const result = await forwarder.forward({ incoming, outgoing, ...common, isCharged: false, isRoot: false });
      if (result.kind !== 'notSent') return;
      codes.push(result.failure.code);
      outgoing.writeHead(503).end();
    };
    front = createServer((incoming, outgoing) => {
      // Those that still wait at the end of the test are lost.
      const send = () => forward(incoming, outgoing).catch(() => outgoing.destroy());
      if (incoming.url?.endsWith('/late')) outgoing.once('close', () => send().then(() => late?.()));
      else void send();
    });
    url = await listening(front);
  });
  after(() => {
    forwarder.close();
    for (const server of [front, other]) {
      server.closeAllConnections();
      server.close();
    }
  });

  /** `path`: begins with the principal. Resolves with whether the request waits at the other server. */
  const isForwarded = (path: string) =>
    new Promise<boolean>((resolve, reject) => {
      arrivals.set(path, () => resolve(true));
      const sent = request(`${url}${path}`, { agent: false }, (response) => {
        response.resume();
        resolve(false);
      });
      sent.on('error', reject).end();
    });

  test('are not all for one principal; it gets some again when its requests have ended', async () => {
    assert.deepEqual([await isForwarded('/ann/1'), await isForwarded('/ann/2')], [true, true]);
    assert.equal(await isForwarded('/ann/3'), false);
    assert.equal(await isForwarded('/ben/1'), true);
    assert.equal(await isForwarded('/ben/2'), false);
    assert.equal(await isForwarded('/eve/1'), true);
    assert.deepEqual(codes, ['SERVER_BUSY', 'SERVER_BUSY']);
    const answer = (path: string) => {
      waiting.get(path)?.();
      waiting.delete(path);
    };
    for (const path of ['/ann/1', '/ann/2', '/ben/1']) answer(path);
    await eventually('a free connection', () => isForwarded('/ann/4'));
    for (const path of waiting.keys()) answer(path);
  });

  test('are left for the cancellation of what the other requests of a principal wait for', async () => {
    assert.deepEqual([await isForwarded('/kim/1'), await isForwarded('/kim/2')], [true, true]);
    assert.equal(await isForwarded('/kim/3'), false);
    assert.equal(await isForwarded('/kim/cancel'), true);
    assert.equal(await isForwarded('/kim/again/cancel'), false);
    for (const path of ['/kim/1', '/kim/2', '/kim/cancel']) waiting.get(path)?.();
  });

  test('are not kept by requests whose clients had disconnected before', async () => {
    for (let n = 0; n < 2; n++) {
      const { promise: forwarded, resolve } = Promise.withResolvers<void>();
      late = resolve;
      const sent = request(`${url}/zoe/late`, { agent: false }).on('error', () => undefined);
      sent.once('finish', () => setImmediate(() => sent.destroy())).end();
      await forwarded;
    }
    assert.equal(await isForwarded('/zoe/1'), true);
    waiting.get('/zoe/1')?.();
  });
});
