// What a move leaves of a catalog in the warehouse from which it was moved, until it is purged. Until the move has hidden it there, the engine knows it
// by the name that the catalog had, which no other catalog of that warehouse can have meanwhile.
import { foldName } from '../../model/names.ts';
import { Failure } from '../../standard/failure.ts';
import type { Store } from '../../store/store.ts';

/** The category of such a copy. No path leads to it. */
export const leftCopyCategory = 'catalog_copies';

/** The name that it has once it is hidden. */
export const leftName = (catalogId: string): string => `left_${catalogId}`;

/** Its name is free for other catalogs from now on. Idempotent. */
export async function recordHidden({ db }: Pick<Store, 'db'>, catalogId: string): Promise<void> {
  await db
    .updateTable('objects')
    .set({ name: leftName(catalogId) })
    .where('id', '=', catalogId)
    .where('category', '=', leftCopyCategory)
    .execute();
}

/** In the transaction that gives a catalog of the warehouse a name. Throws CHANGE_IN_PROGRESS. */
export async function requireNoLeftCopy(
  db: Pick<Store['db'], 'selectFrom'>,
  warehouse: string,
  name: string,
): Promise<void> {
  const copies = await db
    .selectFrom('objects')
    .innerJoin('dropped_objects', 'dropped_objects.object_id', 'objects.id')
    .select('objects.name')
    .where('category', '=', leftCopyCategory)
    .where('dropped_objects.warehouse', '=', warehouse)
    .execute();
  if (!copies.some((copy) => foldName(copy.name) === foldName(name))) return;
  const message = `the warehouse ${JSON.stringify(warehouse)} still has the copy of a moved catalog by the name ${JSON.stringify(name)}; retry when its move has ended, or use another name`;
  throw new Failure('CHANGE_IN_PROGRESS', message);
}
