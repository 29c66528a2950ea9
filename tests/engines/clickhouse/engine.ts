// The ClickHouse engine on a cluster of this machine (ring/), for the suites of the port: warehouses reach its nodes as registered backends.

import { clickhouseWith } from '../../../src/engines/clickhouse/clickhouse.ts';
import type { ClusterAccess, Engine } from '../../../src/engines/port/engine.ts';
import { deployedUser } from './ring/deployed_user.ts';
import { clusters, type Ring, type RingNode, startRing } from './ring/ring.ts';

const clickhouse = clickhouseWith();

/** How the nodes of a ring are reached as a cluster: as the user of the deployment. */
export const accessTo = (
  nodes: readonly Pick<RingNode, 'url'>[],
  name: string = clusters.shards,
  isDisabled: (backend: string) => boolean = () => false,
): ClusterAccess => ({
  warehouseId: name,
  name,
  backends: async () =>
    nodes.map(({ url }, index) => {
      const backend = `node${index + 1}`;
      return { name: backend, location: url, disabled: isDisabled(backend) };
    }),
  credentials: async () => deployedUser,
});

/** The engine with warehouses on these nodes, whatever their options say. */
export const engineOn = (access: ClusterAccess, nodes: readonly Pick<RingNode, 'url'>[]): Engine => ({
  ...clickhouse,
  // The backends that the suites expect in tablets and statuses.
  backends: nodes.map(({ url }, index) => ({ name: `node${index + 1}`, location: url })),
  open: (options) => clickhouse.open({ ...options, cluster: access }),
});

/** The engine on a ring of its own, which starts when it is first needed. `cluster`: each node has a part of the rows, or all of them. */
export function newClusterEngine(count: number, cluster: keyof typeof clusters): Engine {
  const nodes = Array.from({ length: count }, () => ({ url: 'http://127.0.0.1' }));
  let ring: Promise<Ring> | undefined;
  const started = async () => {
    ring ??= startRing(count);
    return (await ring).nodes;
  };
  const access = accessTo(nodes, clusters[cluster]);
  return engineOn({ ...access, backends: async () => accessTo(await started()).backends() }, nodes);
}
