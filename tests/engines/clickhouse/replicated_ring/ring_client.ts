// Servers of the ring as the replication layer sees them: over the adapter's own connections.
import { HttpServer } from '../../../../src/engines/clickhouse/connection/http_server.ts';
import { deadlineMs } from '../../../deadline.ts';
import type { RingServer } from './replicated_ring.ts';

/** It has asked the server for its version. */
export async function clientOf({ name, url }: RingServer): Promise<HttpServer> {
  const server = new HttpServer({ name, url, credentials: async () => ({ user: 'default', password: '' }) });
  await server.probe({ timeoutMs: deadlineMs(5000) });
  return server;
}
