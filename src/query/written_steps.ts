// Whether the write of an interrupted task counts: what an engine has recorded of it is completed, although nobody waits for it.
import type { CatalogRef } from '../engines/port/refs.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import { codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';

/** True: all of its rows are written now. Throws while that cannot be found out. */
export async function isWritten(
  warehouses: Pick<Warehouses, 'use'>,
  { warehouse, catalog }: { readonly warehouse: string; readonly catalog: CatalogRef },
  step: string,
): Promise<boolean> {
  try {
    return (await (await warehouses.use(warehouse)).rowsLoadedByStep(catalog, step)) !== undefined;
  } catch (error) {
    // It has failed for good, perhaps done in part, or only an operator can help.
    if (error instanceof Failure && (codes[error.code].status < 500 || error.code === 'CATALOG_DAMAGED')) return false;
    throw error;
  }
}
