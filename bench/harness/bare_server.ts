// The baseline: node:http only, sending the configured bytes and headers in response to every request.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { CapturedAnswer } from './load.ts';

/** Node.js joins a text with its head in one write, which is faster for small ones; large ones are not copied again as bytes. */
const textBytesMax = 65_536;

process.once('message', ({ status, headers, body }: CapturedAnswer) => {
  const sent = body.length <= textBytesMax ? body : Buffer.from(body);
  const server = createServer((_incoming, outgoing) => {
    outgoing.writeHead(status, headers);
    outgoing.end(sent);
  });
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
});
