// A server with a warehouse on the nodes of a ring of this machine.

import { eventually } from '../../deadline.ts';
import { deployedUser } from '../../engines/clickhouse/ring/deployed_user.ts';
import type { RingNode } from '../../engines/clickhouse/ring/ring.ts';
import type { Reply, TestServer } from '../../server.ts';

export const clusterSettings = { clusterHosts: '127.0.0.1' } as const;

export const warehouses = '/api/v2/warehouses';
export const backendsOf = (name: string): string => `${warehouses}/${name}/backends`;

type Client = Pick<TestServer, 'get' | 'post'>;

export async function createWarehouse(server: Client, name: string, cluster: string): Promise<void> {
  (await server.post(warehouses, { name, engine: 'clickhouse', cluster, ...deployedUser })).is(201);
}

export const register = (
  server: Client,
  warehouse: string,
  name: string,
  { url }: Pick<RingNode, 'url'>,
): Promise<Reply> => server.post(backendsOf(warehouse), { name, location: url });

/** A warehouse with all nodes of a ring, each as `node1` and so on. */
export async function registerAll(
  server: Client,
  warehouse: string,
  { nodes }: { readonly nodes: readonly Pick<RingNode, 'url'>[] },
  cluster: string,
): Promise<void> {
  await createWarehouse(server, warehouse, cluster);
  for (const [index, node] of nodes.entries()) (await register(server, warehouse, `node${index + 1}`, node)).is(201);
  await availabilityIs(
    server,
    warehouse,
    nodes.map((_, index) => `node${index + 1}`),
    'available',
  );
}

/** The catalog `c` in the warehouse, with the database `d`. */
export async function createDatabase(server: Pick<TestServer, 'post' | 'put'>, warehouse: string): Promise<void> {
  (await server.post('/api/v2/catalogs', { name: 'c', warehouse })).is(201);
  (await server.put('/api/v2/catalogs/c/databases/d')).is(201);
}

export async function availabilityIs(
  server: Client,
  warehouse: string,
  backends: readonly string[],
  availability: string,
): Promise<void> {
  let last = '';
  for (const backend of backends)
    await eventually(
      `${backend} is ${availability}`,
      async () => {
        const reply = await server.get(`${backendsOf(warehouse)}/${backend}`);
        last = reply.text;
        return reply.is(200).at('availability') === availability;
      },
      30_000,
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}; it was ${last}`);
    });
}
