// Tables as the servers have them: their size, their comparison with the store, and their compaction.
import type { EngineWarehouse } from '../../engine.ts';
import type { WarehouseContext } from '../context.ts';
import { unsupported } from '../unsupported.ts';

export type TableMethods = Pick<
  EngineWarehouse,
  'tableStatistics' | 'optimize' | 'compareTables' | 'readWholeTable' | 'checkFile'
>;

export const tablesOf = (_context: WarehouseContext): TableMethods => ({
  tableStatistics: () => unsupported('statistics'),
  optimize: () => unsupported('compaction'),
  compareTables: () => unsupported('comparisons'),
  readWholeTable: () => unsupported('comparisons'),
  checkFile: () => unsupported('comparisons'),
});
