// Runs statements of callers.
import type { EngineWarehouse } from '../../engine.ts';
import type { WarehouseContext } from '../context.ts';
import { unsupported } from '../unsupported.ts';

export type StatementMethods = Pick<EngineWarehouse, 'execute' | 'recordStep' | 'explain'>;

export const statementsOf = (_context: WarehouseContext): StatementMethods => ({
  execute: () => unsupported('statements'),
  recordStep: async () => false,
  explain: () => unsupported('plans'),
});
