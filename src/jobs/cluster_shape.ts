// The numbers of shards and replicas that are stored with the backends of a cluster follow the definition that its servers have now.
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { RegisteredServers } from '../engines/cluster/registered_servers.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import { systemActor } from '../model/principal.ts';
import type { BackendSpec } from '../model/records.ts';

interface Parts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
}

const actor = { ...systemActor, action: 'backends.update' };
const backendsMax = 1000;

/** Changes the backends whose server describes the cluster otherwise than it is stored. */
export async function storeClusterShape(
  { catalog, warehouses }: Parts,
  warehouse: { readonly id: string; readonly name: string },
): Promise<void> {
  const servers = await warehouses.serversOf(warehouse.name);
  if (!servers) return;
  await servers.refresh();
  await store(catalog, warehouse.id, servers);
}

/** The same for all warehouses, by what their servers answered to the last checks. */
export async function followClusterShapes({ catalog, warehouses }: Parts): Promise<void> {
  for (const { id, servers } of await warehouses.runningClusters()) await store(catalog, id, servers);
}

async function store(catalog: Catalog, warehouseId: string, servers: RegisteredServers): Promise<void> {
  await catalog.retrying(async () => {
    const backends = await catalog.list(warehouseId, 'backends', { limit: backendsMax });
    for (const backend of backends as CatalogObject<BackendSpec>[]) {
      const { server: stored, disabled } = backend.spec;
      const now = servers.identityOf(backend.name);
      if (disabled || !stored || !now) continue;
      const { shardCount, replicaCount } = now;
      if (stored.shardCount === shardCount && stored.replicaCount === replicaCount) continue;
      const server = { ...stored, shardCount, replicaCount };
      await catalog.update(backend, { spec: { ...backend.spec, server }, principal: actor });
    }
  });
}
