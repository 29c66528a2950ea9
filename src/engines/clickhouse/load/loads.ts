// Loads of files into tables.
import type { EngineWarehouse } from '../../engine.ts';
import type { WarehouseContext } from '../context.ts';
import { unsupported } from '../unsupported.ts';

export type LoadMethods = Pick<EngineWarehouse, 'inferTable' | 'load' | 'rowsLoadedByStep'>;

export const loadsOf = (_context: WarehouseContext): LoadMethods => ({
  inferTable: () => unsupported('inferring the columns of a file'),
  load: () => unsupported('loads of files'),
  rowsLoadedByStep: async () => undefined,
});
