// A forwarded response whose server is lost after it has begun: the client is not left to wait for the rest.
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { Forwarder } from '../../src/http/forwarding/forwarder.ts';

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
      const common = { requestId: randomUUID(), serverId: 'there', isChange: false, isCharged: false, isRoot: false };
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
