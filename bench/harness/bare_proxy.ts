// A proxy of a few lines in Node.js, in a process of its own: passes requests and responses on without reading them. What it adds to the time of a
// server is the least that a server in Node.js between it and the client can add. Asked by clickhouse.ts.
import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ProxyJob {
  readonly target: string;
}

export interface ProxyAnswer {
  readonly url: string;
}

process.once('message', ({ target }: ProxyJob) => {
  const agent = new Agent({ keepAlive: true });
  const server = createServer((incoming, outgoing) => {
    const { method = 'GET', url = '/', headers } = incoming;
    const onward = request(new URL(url, target), { method, headers, agent }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(outgoing);
    });
    onward.once('error', () => outgoing.destroy());
    incoming.pipe(onward);
  });
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo;
    process.send?.({ url: `http://127.0.0.1:${port}` } satisfies ProxyAnswer);
  });
});
