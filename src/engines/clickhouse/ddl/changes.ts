// Changes of catalogs, databases, tables and views.
import type { EngineWarehouse } from '../../engine.ts';
import type { WarehouseContext } from '../context.ts';
import { unsupported } from '../unsupported.ts';

export type ChangeMethods = Pick<EngineWarehouse, 'cost' | 'apply' | 'forget'>;

export const changesOf = (_context: WarehouseContext): ChangeMethods => ({
  cost: async () => 'instant',
  apply: () => unsupported('changes'),
  forget: async () => undefined,
});
