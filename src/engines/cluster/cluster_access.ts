// How the adapter of an engine reaches the servers of a warehouse: as they are described now, in the store.
import type { ClusterAccess } from '../port/engine.ts';
import type { WarehouseDescription } from '../warehouse_description.ts';
import type { ReplicaNotices } from './replica_notices.ts';

/** Undefined if the engine has no cluster. */
export function clusterAccess(
  { id, spec: { cluster } }: WarehouseDescription,
  sources: {
    readonly current: () => Promise<WarehouseDescription>;
    readonly passwordOf: (warehouseId: string) => Promise<string | undefined>;
    /** Absent: no other server shares the store. */
    readonly noticesOf?: ((warehouseId: string) => ReplicaNotices) | undefined;
  },
): ClusterAccess | undefined {
  if (!cluster) return undefined;
  return {
    warehouseId: id,
    name: cluster.name,
    backends: async () => (await sources.current()).backends,
    credentials: async () => {
      const { spec } = await sources.current();
      return { user: spec.cluster?.user ?? cluster.user, password: (await sources.passwordOf(id)) ?? '' };
    },
    notices: sources.noticesOf?.(id),
  };
}
