// TLS to ClickHouse with a private authority: it is trusted with NODE_EXTRA_CA_CERTS, for the host in the location of the backend. The nodes
// of chdb have no TLS of their own: a proxy that terminates it is in front of one.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createServer, type TLSSocket } from 'node:tls';
import { createClient } from '../../../src/client/index.ts';
import { eventually } from '../../deadline.ts';
import { makePair, type PairFiles, signPair } from '../../http/connection/certificates.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import { createClusterWarehouse } from './cluster_warehouse.ts';
import { clusters, missingRing, type Ring, startRing } from './ring/ring.ts';

interface TlsProxy {
  readonly port: number;
  /** Ends the connections; later ones get this certificate. */
  change(pair: PairFiles): void;
}

const contextOf = (pair: PairFiles) => ({
  key: readFileSync(pair.tlsKeyFile),
  cert: readFileSync(pair.tlsCertFile),
});

async function startTlsProxy(target: URL, pair: PairFiles): Promise<TlsProxy> {
  const open = new Set<TLSSocket>();
  const server = createServer(contextOf(pair), (near) => {
    open.add(near);
    near.on('close', () => open.delete(near));
    const far = connect(Number(target.port), target.hostname);
    near.pipe(far).pipe(near);
    near.on('error', () => far.destroy());
    far.on('error', () => near.destroy());
    near.unref();
    far.unref();
  });
  server.on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  server.unref();
  return {
    port: (server.address() as AddressInfo).port,
    change(other) {
      server.setSecureContext(contextOf(other));
      for (const socket of open) socket.destroy();
    },
  };
}

describe('TLS to ClickHouse', { skip: missingRing }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-clickhouse-tls-'));
  let ring: Ring;
  let proxy: TlsProxy;
  let port: number;
  let authority: PairFiles;
  const servers: ServerProcess[] = [];
  before(async () => {
    authority = makePair(directory, 'authority');
    ring = await startRing(1);
    const [node] = ring.nodes;
    assert.ok(node);
    proxy = await startTlsProxy(new URL(node.url), signPair(directory, 'node', authority, 'DNS:localhost'));
    port = proxy.port;
  });
  after(async () => {
    for (const server of servers) await server.close();
    await ring?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  const startTrusting = async (file: string | undefined): Promise<ServerProcess> => {
    const environment = { NODE_EXTRA_CA_CERTS: file };
    const server = await startProcess(['--cluster-hosts=localhost,127.0.0.1'], undefined, { environment });
    servers.push(server);
    return server;
  };
  const refuses = async (server: ServerProcess, location: string, message: RegExp): Promise<void> => {
    const body = { engine: 'clickhouse', cluster: clusters.copies, user: 'default', password: '' };
    (await server.put('/api/v2/warehouses/refused', body)).is(201);
    const reply = await server.post('/api/v2/warehouses/refused/backends', { name: 'node-1', location });
    reply.is(503, 'REMOTE_UNAVAILABLE');
    assert.match(reply.message, message);
  };

  test('is accepted from the authority in NODE_EXTRA_CA_CERTS, for the host of the location', async () => {
    const server = await startTrusting(authority.tlsCertFile);
    await refuses(server, `https://127.0.0.1:${port}`, /its certificate is for another host/);
    const nodes = [{ ...(ring.nodes[0] as Ring['nodes'][0]), url: `https://localhost:${port}` }];
    await createClusterWarehouse(createClient(server), { nodes }, { name: 'secure', cluster: clusters.copies });
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await server.put('/api/v2/catalogs/secure/databases/d')).is(201);
    (await server.put('/api/v2/catalogs/secure/databases/d/tables/t', { columns })).is(201);
    const rows = Array.from({ length: 1000 }, (_, i) => [i]);
    (await server.post('/api/v2/catalogs/secure/databases/d/tables/t/rows', { rows })).is(201);
    const sql = 'SELECT count(*), sum(id) FROM t';
    const read = await server.post('/api/v2/catalogs/secure/databases/d/query', { sql });
    assert.deepEqual(read.is(200).at('rows'), [[1000, 499_500]]);
    // One that is not trusted any more.
    proxy.change(makePair(directory, 'later'));
    const reason = async () =>
      (await server.get('/api/v2/warehouses/secure/backends/node-1')).is(200).at<string | null>('errorMessage');
    await eventually('the backend has the reason', async () =>
      /certificate is not trusted/.test((await reason()) ?? ''),
    );
  });

  test('is refused from an authority that is not trusted, with the reason', async () => {
    const other = makePair(directory, 'other');
    for (const file of [undefined, other.tlsCertFile])
      await refuses(await startTrusting(file), `https://localhost:${port}`, /its certificate is not trusted/);
  });
});
