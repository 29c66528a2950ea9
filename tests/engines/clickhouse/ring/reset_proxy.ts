// A port in front of the native port of a node: a connection that is reset becomes one that ends in order. A node made of the library
// has no handler for a reset and dies of it, which a real server does not.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';

export interface ResetProxy {
  readonly port: number;
  close(): void;
}

/** @param target the native port of the node, which may be down or not yet listening. */
export async function startResetProxy(
  target: number,
  { address = '127.0.0.1', port = 0 }: { readonly address?: string; readonly port?: number } = {},
): Promise<ResetProxy> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    const far = connect({ port: target, host: address, allowHalfOpen: true, noDelay: true });
    near.pipe(far);
    far.pipe(near);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.unref();
      from.on('error', () => to.end());
      from.on('close', () => to.end());
    }
  });
  server.listen(port, address);
  await once(server, 'listening');
  server.unref();
  return { port: (server.address() as AddressInfo).port, close: () => server.close() };
}
