// Start, stop and limits of a warehouse, and what is known about its servers.
import type { BackendStatus, EngineWarehouse } from '../engine.ts';
import type { WarehouseContext } from './context.ts';
import { topologyOf } from './statistics/topology.ts';

type Lifecycle = Pick<
  EngineWarehouse,
  'start' | 'stop' | 'running' | 'configure' | 'status' | 'topology' | 'attach' | 'takeChangedTables'
>;

export function lifecycleOf(context: WarehouseContext): Lifecycle {
  const { options } = context;
  const attach: EngineWarehouse['attach'] = async ({ id, name }) =>
    options.attached?.({ kind: 'attached', catalog: { id, name }, identity: id });
  return {
    async start() {
      if (context.isRunning) return;
      await context.start();
      for (const catalog of (await options.toAttach?.()) ?? (await options.catalogs())) await attach(catalog);
    },
    stop: () => context.stop(),
    get running() {
      return context.isRunning;
    },
    configure: async (spec) => context.configure(spec),
    status: (backend) => statusOf(context, backend),
    topology: () => topologyOf(context),
    attach,
    takeChangedTables: () => context.changed.take(),
  };
}

const statusOf = (context: WarehouseContext, backend: string): BackendStatus => ({
  alive: context.isRunning && context.cluster.isAvailable(backend),
  version: context.cluster.versionOf(backend),
  cpuCores: 0,
  memoryUsedBytes: 0,
  memoryLimitBytes: context.spec.memoryLimitBytes,
  dataUsedBytes: 0,
  diskAvailableBytes: 0,
  diskTotalBytes: 0,
  spilledBytes: 0,
  runningQueries: context.runningStatements,
  lastStartAt: null,
  lastHeartbeatAt: null,
  confinement: [],
  errorMessage: null,
});
