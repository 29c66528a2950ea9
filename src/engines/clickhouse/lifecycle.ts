// Start, stop and limits of a warehouse, and what is known about its servers.
import type { BackendStatus } from '../port/backends.ts';
import type { EngineWarehouse } from '../port/engine.ts';
import type { WarehouseContext } from './context.ts';
import { topologyOf } from './statistics/topology.ts';

type Lifecycle = Pick<
  EngineWarehouse,
  'start' | 'stop' | 'running' | 'configure' | 'status' | 'topology' | 'servers' | 'attach' | 'takeChangedTables'
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
    servers: context.registered,
    attach,
    takeChangedTables: () => context.changed.take(),
  };
}

function statusOf({ cluster }: WarehouseContext, backend: string): BackendStatus {
  const member = cluster.member(backend);
  const facts = member?.facts;
  const started = member?.startedAtSeconds;
  return {
    alive: member !== undefined && member.availability !== 'unavailable' && !member.isDisabled,
    availability: member && !member.isDisabled ? member.availability : 'unavailable',
    version: member?.server.version || null,
    cpuCores: facts?.cpuCores ?? 0,
    memoryUsedBytes: facts?.memoryUsedBytes ?? 0,
    memoryLimitBytes: facts?.memoryLimitBytes ?? 0,
    dataUsedBytes: facts?.dataUsedBytes ?? 0,
    diskAvailableBytes: facts?.diskAvailableBytes ?? 0,
    diskTotalBytes: facts?.diskTotalBytes ?? 0,
    // Servers do not report it.
    spilledBytes: 0,
    runningQueries: facts?.runningQueries ?? 0,
    lastStartAt: started === undefined ? null : new Date(started * 1000).toISOString(),
    lastHeartbeatAt: member?.lastHeartbeatAt ?? null,
    confinement: [],
    errorMessage: member?.errorMessage ?? null,
  };
}
