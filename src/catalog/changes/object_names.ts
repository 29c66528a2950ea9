// The names of objects: which are valid and free, the row that has one, and the placeholder for the name of a dropped object.
import { foldName, nameFault } from '../../model/names.ts';
import { Failure, objectNotFound } from '../../standard/failure.ts';
import type { Store } from '../../store/store.ts';
import type { Category } from '../object.ts';
import { isVisible, type ObjectRow } from '../object_rows.ts';
import type { CatalogStatements } from '../statements.ts';
import { Blocked, type CatalogContext } from './change_context.ts';

export function notFound(category: Category, name: string): Failure {
  return objectNotFound(category, name, `there is no "${name}" in ${category}`);
}

export function alreadyExists(category: Category, requested: string, existing: string): Failure {
  const message =
    requested === existing
      ? `"${requested}" already exists in ${category}`
      : `"${requested}" differs from the existing "${existing}" in ${category} only by case; names are case-insensitive`;
  return new Failure('OBJECT_ALREADY_EXISTS', message, { category, name: existing });
}

/** Throws INVALID_NAME. */
export function checkName(name: string): void {
  const fault = nameFault(name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', `the name is invalid: ${fault}`, { name });
}

/** The row with this name (case-insensitive), in any state. */
export function findSibling(
  statements: CatalogStatements,
  db: Store['db'],
  parentId: string | null,
  category: Category,
  name: string,
): Promise<ObjectRow | undefined> {
  const folded = foldName(name);
  return parentId === null
    ? statements.siblingRoot.first(db, { category, folded })
    : statements.siblingChild.first(db, { parentId, category, folded });
}

/** Throws OBJECT_ALREADY_EXISTS if a sibling in one of the categories has the name, Blocked if one is gaining or losing it. */
export async function checkSharedNames(
  context: CatalogContext,
  db: Store['db'],
  parentId: string | null,
  name: string,
  categories: readonly Category[] = [],
): Promise<void> {
  for (const category of categories) {
    const sibling = await findSibling(context.statements, db, parentId, category, name);
    if (sibling && isVisible(sibling)) throw alreadyExists(category, name, sibling.name);
    if (sibling) throw new Blocked([sibling.id]);
  }
}

/** The folded name of a dropped object, which frees its name for others: distinct from every valid name, because of the control character. */
export const droppedName = (id: string) => `\u007f${id}`;
