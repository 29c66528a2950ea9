// A warehouse on a cluster, composed of its parts: each implements some methods of the port.
import { engineWith } from '../derived_engine.ts';
import type { EngineWarehouse, EngineWarehouseOptions } from '../engine.ts';
import { analysisOf } from './analysis/analysis.ts';
import { WarehouseContext } from './context.ts';
import { changesOf } from './ddl/changes.ts';
import { lifecycleOf } from './lifecycle.ts';
import { loadsOf } from './load/loads.ts';
import { statementsOf } from './query/statements.ts';
import { insertsOf } from './rows/inserts.ts';
import { tablesOf } from './statistics/tables.ts';
import { unsupportedMethods } from './unsupported.ts';

export function openWarehouse(options: EngineWarehouseOptions): EngineWarehouse {
  const context = new WarehouseContext(options);
  const methods = {
    ...changesOf(context),
    ...analysisOf(context),
    ...statementsOf(context),
    ...insertsOf(context),
    ...loadsOf(context),
    ...tablesOf(context),
    ...unsupportedMethods,
  };
  return engineWith(lifecycleOf(context), methods);
}
