// What the engine lacks. The server refuses requests that need a missing capability before they are here (engines/required_capability.ts).
import { Failure } from '../../standard/failure.ts';
import type { EngineWarehouse } from '../port/engine.ts';

export const unsupported = async (feature: string): Promise<never> => {
  throw new Failure('NOT_SUPPORTED_BY_ENGINE', `the engine does not support ${feature}`);
};

/** Rows of a cluster have no positions. */
export const unsupportedMethods: Pick<EngineWarehouse, 'rowNumbering'> = {
  rowNumbering: () => unsupported('positions of rows'),
};
