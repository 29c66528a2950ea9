// Inserts of rows.
import type { EngineWarehouse } from '../../engine.ts';
import type { WarehouseContext } from '../context.ts';
import { unsupported } from '../unsupported.ts';

export const insertsOf = (_context: WarehouseContext): Pick<EngineWarehouse, 'insertRows'> => ({
  insertRows: () => unsupported('inserts'),
});
