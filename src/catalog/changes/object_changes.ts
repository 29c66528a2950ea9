// Appends the changes of objects to the feed, in the transactions that make them.
import { isVisible, type ObjectRow } from '../object_rows.ts';
import type { CatalogContext, Tx } from './change_context.ts';

interface Extent {
  /** Whether the paths or the owners of descendants change too. */
  readonly deep: boolean;
}

/** `row`: after the change. */
export function appendChange(context: CatalogContext, tx: Tx, row: ObjectRow, { deep }: Extent): void {
  const { id: objectId, parent_id: parentId, category, name, spec, state } = row;
  const object = { name, spec, isVisible: isVisible(row), isBlocked: state === 'blocked' };
  context.changes.append(tx, { kind: 'object', objectId, parentId, category, deep, object });
}

type RemovedRow = Pick<ObjectRow, 'id' | 'parent_id' | 'category'>;

export function appendRemoval(context: CatalogContext, tx: Tx, row: RemovedRow, { deep }: Extent): void {
  const { id: objectId, parent_id: parentId, category } = row;
  context.changes.append(tx, { kind: 'object', objectId, parentId, category, deep, object: undefined });
}

/** After an object with tables got another path. The engine itself reports tables that are restored or renamed. */
export function noteRelocated({ relocated }: CatalogContext, { id, category }: ObjectRow): void {
  if (category === 'catalogs' || category === 'databases') relocated.add(id);
}
