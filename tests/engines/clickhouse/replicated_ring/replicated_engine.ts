// The engine with warehouses on three replicas of 24.8, which all suites of a process share. They start when they are first needed.
import type { TestedEngine } from '../../../conformance/engine/engine_world.ts';
import { accessTo, engineOn } from '../engine.ts';
import { newCatalogName } from '../given_cluster/given_cluster.ts';
import { clusterName, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const nodes = Array.from({ length: 3 }, () => ({ url: 'http://127.0.0.1' }));
/** The longest that this ZooKeeper grants: no server is killed here, and on a busy machine none must lose its session. */
const sessionMs = 10_000;
let ring: Promise<ReplicatedRing> | undefined;

/** What other suites have left there has another name. */
export function replicatedEngine(): TestedEngine {
  const started = async () => {
    ring ??= startReplicatedRing({ version: '24.8', sessionMs });
    return (await ring).servers;
  };
  const access = {
    ...accessTo(nodes, clusterName),
    backends: async () => accessTo(await started(), clusterName).backends(),
  };
  return { ...engineOn(access, nodes), catalogName: newCatalogName };
}

export async function closeReplicatedEngine(): Promise<void> {
  await (await ring)?.close();
}
