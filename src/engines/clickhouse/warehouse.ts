// A warehouse on a cluster, composed of its parts: each implements some methods of the port.
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import { engineWith } from '../derived_engine.ts';
import type { EngineWarehouse, EngineWarehouseOptions } from '../port/engine.ts';
import { analysisOf } from './analysis/analysis.ts';
import { WarehouseContext } from './context.ts';
import { changesOf } from './ddl/changes.ts';
import { lifecycleOf } from './lifecycle.ts';
import { loadsOf } from './load/loads.ts';
import { statementsOf } from './query/statements.ts';
import { insertsOf } from './rows/inserts.ts';
import { snapshotsOf } from './snapshot/snapshots.ts';
import { tablesOf } from './statistics/tables.ts';
import { completeAbandoned, completeLeft, removeAbandoned } from './steps/left_writes.ts';
import { unsupportedMethods } from './unsupported.ts';

/** `hosts`: to which servers may be connected; undefined: any. */
export function openWarehouse(options: EngineWarehouseOptions, hosts: HostAllowlist | undefined): EngineWarehouse {
  const context = new WarehouseContext(options, hosts, { completeLeft, completeAbandoned, removeAbandoned });
  const methods = {
    ...changesOf(context),
    ...analysisOf(context),
    ...statementsOf(context),
    ...insertsOf(context),
    ...loadsOf(context),
    ...tablesOf(context),
    ...snapshotsOf(context),
    ...unsupportedMethods,
  };
  return engineWith(lifecycleOf(context), methods);
}
