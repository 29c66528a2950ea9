// A proxy in front of an object store that delays each PUT, so that the test decides what happens during a copy.
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

export async function holdPuts(endpoint: string, hold: () => Promise<void>) {
  const server = createServer(async (incoming, outgoing) => {
    if (incoming.method === 'PUT') await hold();
    const { method, headers, url = '' } = incoming;
    const forwarded = request(new URL(url, endpoint), { method, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 500, response.headers);
      response.pipe(outgoing);
    });
    incoming.pipe(forwarded);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => server.close(),
  };
}
