// A warehouse on the nodes of a ring, created through the REST API as an operator does.
import type { Client } from '../../../src/client/index.ts';
import { eventually } from '../../deadline.ts';
import { deployedUser } from './ring/deployed_user.ts';
import type { Ring } from './ring/ring.ts';

/** The setting with which a server reaches the nodes. */
export const clusterHosts = '127.0.0.1';

/** Creates a warehouse on a cluster, by its name on the nodes, and a catalog of the same name on it. Resolves when all nodes take statements. */
export async function createClusterWarehouse(
  client: Client,
  { nodes }: Pick<Ring, 'nodes'>,
  { name, cluster }: { readonly name: string; readonly cluster: string },
): Promise<void> {
  await client.warehouses.create({
    name,
    engine: 'clickhouse',
    cluster,
    ...deployedUser,
  });
  const { backends } = client.warehouses(name);
  for (const [i, { url }] of nodes.entries()) await backends.create({ name: `node-${i + 1}`, location: url });
  await eventually(`all backends of ${name} are available`, async () => {
    const { availableBackendCount } = await client.warehouses(name).get();
    return availableBackendCount === nodes.length;
  });
  await client.catalogs.create({ name, warehouse: name });
}
