// An engine of a real warehouse in the place of the engine in memory, with the same faults.
import type { CatalogEngine } from '../../src/catalog/changes/change_context.ts';
import type { Change } from '../../src/engines/port/changes.ts';
import type { EngineWarehouse } from '../../src/engines/port/engine.ts';
import { EngineInMemory } from './engine_in_memory.ts';

export class EngineOfWarehouse extends EngineInMemory {
  readonly #warehouse: Pick<EngineWarehouse, 'apply' | 'forget'>;

  constructor(warehouse: Pick<EngineWarehouse, 'apply' | 'forget'>) {
    super();
    this.#warehouse = warehouse;
  }

  override async apply(change: Change, options: Parameters<CatalogEngine['apply']>[1]): Promise<undefined> {
    const call = ++this.calls;
    this.fault({ when: 'before', change, call });
    await this.gate(options.signal);
    await this.#warehouse.apply(change, options);
    this.fault({ when: 'after', change, call });
  }

  override async forget(catalog: Parameters<CatalogEngine['forget']>[0], steps: readonly string[]): Promise<void> {
    await this.#warehouse.forget(catalog, steps);
  }
}
