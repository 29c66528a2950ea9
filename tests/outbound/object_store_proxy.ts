// A TCP proxy in front of an S3 server, which tests cut, make silent, or watch.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface ObjectStoreProxy {
  readonly endpoint: string;
  /** `cut`: connections are closed; `silent`: nothing is passed on. */
  mode: 'open' | 'cut' | 'silent';
  /** Called once, when the server begins to answer a request with this method. */
  onAnswered: { readonly method: string; readonly act: () => void } | undefined;
  close(): Promise<void>;
}

export async function startObjectStoreProxy(endpoint: string): Promise<ObjectStoreProxy> {
  const { hostname, port } = new URL(endpoint);
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    if (proxy.mode === 'cut') {
      client.destroy();
      return;
    }
    const upstream = connect(Number(port), hostname);
    let method = '';
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    client.on('data', (bytes) => {
      method = /^([A-Z]+) \//.exec(bytes.toString('latin1', 0, 10))?.[1] ?? method;
      if (proxy.mode === 'cut') client.destroy();
      else if (proxy.mode === 'open') upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      const { onAnswered } = proxy;
      if (onAnswered && onAnswered.method === method) {
        proxy.onAnswered = undefined;
        onAnswered.act();
      }
      if (proxy.mode !== 'silent') client.write(bytes);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy: ObjectStoreProxy = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mode: 'open',
    onAnswered: undefined,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}
