// Statements and fragments of callers before they run: what they read and write, their columns, and the objects that they define.
import type { EngineWarehouse } from '../../engine.ts';
import type { WarehouseContext } from '../context.ts';
import type { BindStatement } from '../query/bound_statement.ts';
import { unsupported } from '../unsupported.ts';

export type AnalysisMethods = Pick<
  EngineWarehouse,
  | 'analyze'
  | 'tableNamesIn'
  | 'describe'
  | 'readView'
  | 'parseCreateView'
  | 'parseCreateTable'
  | 'checkDefault'
  | 'buildStatement'
>;

export const bindStatement: BindStatement = () => unsupported('statements');

export const analysisOf = (_context: WarehouseContext): AnalysisMethods => ({
  analyze: () => unsupported('statements'),
  tableNamesIn: () => unsupported('statements'),
  describe: () => unsupported('statements'),
  readView: () => unsupported('views'),
  parseCreateView: () => unsupported('views'),
  parseCreateTable: () => unsupported('statements'),
  checkDefault: () => unsupported('defaults'),
  buildStatement: () => unsupported('statements'),
});
