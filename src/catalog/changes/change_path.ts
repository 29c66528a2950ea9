// The path that a change uses, and whether it is still the current one: the names and states of the object and its ancestors.
import type { Change } from '../../engines/port/changes.ts';
import { ObjectChanged } from '../../standard/expected_version.ts';
import type { CatalogObject } from '../object.ts';
import { isVisible } from '../object_rows.ts';
import type { AncestorRow } from '../statements.ts';
import { Blocked, type CatalogContext, type Tx } from './change_context.ts';
import { notFound } from './object_names.ts';

/**
 * The current rows of the object and its ancestors, nearest first. Throws OBJECT_NOT_FOUND if one of them is not visible, ObjectChanged
 * if the object was renamed since the caller read it, Blocked if one of them is being changed.
 */
export async function requireReadyChain(
  context: CatalogContext,
  tx: Tx,
  object: CatalogObject,
): Promise<AncestorRow[]> {
  const chain = await context.statements.ancestors.all(tx, { id: object.id });
  if (chain.length === 0) throw notFound(object.category, object.name);
  for (const row of chain) if (!isVisible(row)) throw notFound(row.category, row.name);
  if (chain[0]?.name !== object.name) throw new ObjectChanged(object.id);
  const changing = chain.filter((row) => row.state !== 'ready').map((row) => row.id);
  if (changing.length > 0) throw new Blocked(changing);
  return chain;
}

/** Throws ObjectChanged unless the change uses the current names of the object and its ancestors. `names`: root first. */
export function checkChangePath(change: Change, names: readonly string[]): void {
  if (changePath(change).some((name, n) => n < names.length && name !== names[n])) throw new ObjectChanged();
}

export function namesOf(chain: readonly AncestorRow[]): string[] {
  return chain.map((row) => row.name).reverse();
}

/** Names, root first. */
export function changePath(change: Change): readonly string[] {
  if ('catalog' in change) return [change.catalog.name];
  if ('database' in change) return [change.database.catalog.name, change.database.database];
  if ('view' in change) return [change.view.catalog.name, change.view.database, change.view.view];
  return [change.table.catalog.name, change.table.database, change.table.table];
}
