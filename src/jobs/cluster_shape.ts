// The numbers of shards and replicas that are stored with the backends of a cluster follow the definition that its servers have now.
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
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
  await catalog.retrying(async () => {
    const backends = await catalog.list(warehouse.id, 'backends', { limit: backendsMax });
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
