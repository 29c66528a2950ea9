// Where the rows of tables are: the shards of the cluster, and the servers that have each of them.
import type { Topology } from '../../port/backends.ts';
import type { WarehouseContext } from '../context.ts';

export const topologyOf = (context: WarehouseContext): Topology => ({
  async tablets() {
    const placed = await context.cluster.placement();
    return placed.map((replicas, index) => ({ id: String(index + 1), replicas }));
  },
  async tabletCount(backend, tableCount) {
    const known = context.cluster.member(backend)?.facts?.tabletCount;
    if (known !== undefined) return known;
    const placed = await context.cluster.placement();
    const own = placed.filter((replicas) => replicas.some((replica) => replica.backend === backend)).length;
    return own * (await tableCount());
  },
});
