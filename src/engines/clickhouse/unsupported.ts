// What the engine lacks. The server refuses requests that need a missing capability before they are here (engines/required_capability.ts).
import { Failure } from '../../standard/failure.ts';
import type { EngineWarehouse } from '../port/engine.ts';

export const unsupported = async (feature: string): Promise<never> => {
  throw new Failure('NOT_SUPPORTED_BY_ENGINE', `the engine does not support ${feature}`);
};

/** A cluster cannot show all tables of a catalog as of one instant, and its rows have no positions. */
export const unsupportedMethods: Pick<EngineWarehouse, 'snapshot' | 'restorePart' | 'rowNumbering'> = {
  snapshot: () => unsupported('snapshots of a catalog'),
  restorePart: () => unsupported('snapshots of a catalog'),
  rowNumbering: () => unsupported('positions of rows'),
};
