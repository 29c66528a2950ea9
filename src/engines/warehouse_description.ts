// A warehouse as the store describes it: its desired state, and the backends that are registered for it.
import type { WarehouseSpec } from '../model/records.ts';
import type { DescribedBackend } from './cluster/registered_servers.ts';

export interface WarehouseDescription {
  readonly id: string;
  readonly name: string;
  readonly spec: WarehouseSpec;
  readonly backends: readonly DescribedBackend[];
}
