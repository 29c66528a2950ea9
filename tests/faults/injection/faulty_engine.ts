// An engine with a FaultPlan around each call that changes or reads something; reports its process id.
import type { RegisteredServers } from '../../../src/engines/cluster/registered_servers.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import type { FaultPlan } from './fault_plan.ts';

/** The others are answered from memory, or run in the background at any time. */
const counted: ReadonlySet<string> = new Set([
  'cost',
  'apply',
  'forget',
  'analyze',
  'execute',
  'insertRows',
  'describe',
  'readView',
  'inferTable',
  'load',
  'rowsLoadedByStep',
  'optimize',
  'compareTables',
  'readWholeTable',
  'checkFile',
  'attach',
  'snapshot',
  'restorePart',
  'buildStatement',
  'parseCreateTable',
  'checkDefault',
  'checksumTable',
  'recordedSteps',
  'recordSteps',
] satisfies (keyof EngineWarehouse)[]);

/** Of the servers of a cluster. */
const countedOfServers: ReadonlySet<string> = new Set([
  'refresh',
  'drainState',
  'cancelStatements',
  'dropTables',
  'endDrops',
  'tableCount',
] satisfies (keyof RegisteredServers)[]);

export interface FaultyEngineOptions {
  readonly plan: FaultPlan;
  /** Gets the warehouse `default` itself, without faults. */
  readonly opened?: (warehouse: EngineWarehouse) => void;
  /** Gets the id of every process that the engine starts. */
  readonly started?: (pid: number) => void;
}

export function faultyEngine(engine: Engine, { plan, opened, started }: FaultyEngineOptions): Engine {
  return {
    ...engine,
    open(options) {
      const warehouse = engine.open({
        ...options,
        observe: (event) => {
          if (event.kind === 'engineStarted') started?.(event.pid);
          options.observe(event);
        },
      });
      if (options.name === 'default') opened?.(warehouse);
      return faulty(warehouse, plan);
    },
  };
}

function faulty(warehouse: EngineWarehouse, plan: FaultPlan): EngineWarehouse {
  const servers = warehouse.servers && withFaults(warehouse.servers, countedOfServers, plan);
  return new Proxy(withFaults(warehouse, counted, plan), {
    get: (target, key) => (key === 'servers' ? servers : Reflect.get(target, key, target)),
  });
}

function withFaults<Target extends object>(all: Target, names: ReadonlySet<string>, plan: FaultPlan): Target {
  return new Proxy(all, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      const call = value.bind(target) as (...parameters: unknown[]) => unknown;
      if (typeof key !== 'string' || !names.has(key)) return call;
      return async (...parameters: unknown[]) => {
        const callName = key === 'apply' ? `apply ${(parameters[0] as { kind: string }).kind}` : key;
        plan.reach('before', callName);
        const answer = await call(...parameters);
        plan.reach('after', callName);
        return answer;
      };
    },
  });
}
