// Inserts the rows of the contents of an object that a task has created, in the transaction that makes the object visible.
import { newId } from '../../model/ids.ts';
import { foldName } from '../../model/names.ts';
import type { NewChild, NewChildren } from '../object.ts';
import { foldedComment, type ObjectRow } from '../object_rows.ts';
import type { CatalogContext, Tx } from './change_context.ts';
import { recordSourcesByName } from './view_dependencies.ts';

/** The owner of the object owns all its contents. */
export async function insertChildren(
  context: CatalogContext,
  tx: Tx,
  objectId: string,
  { spec, children }: NewChildren,
): Promise<void> {
  if (spec !== undefined)
    await tx
      .updateTable('objects')
      .set({ spec: JSON.stringify(spec), folded_comment: foldedComment(spec) })
      .where('id', '=', objectId)
      .execute();
  const row = await context.statements.byId.first(tx, { id: objectId });
  if (!row) throw new Error('children were inserted without their parent');
  const views: NewView[] = [];
  for (const child of children) await insertChild(context, tx, row, child, views);
  // Inserted last, because the sources may be among the new objects.
  for (const { id, sources } of views) await recordSourcesByName(context, tx, id, sources);
}

interface NewView {
  readonly id: string;
  readonly sources: NewChild['sources'];
}

async function insertChild(
  context: CatalogContext,
  tx: Tx,
  parent: ObjectRow,
  child: NewChild,
  views: NewView[],
): Promise<void> {
  const { category, name, spec, children = [], statistics } = child;
  const now = context.clock();
  const { owner, updated_by } = parent;
  const row: ObjectRow = {
    id: newId(now),
    category,
    parent_id: parent.id,
    name,
    state: 'ready',
    state_reason: null,
    owner,
    version: 1,
    created_at: now,
    created_by: updated_by,
    updated_at: now,
    updated_by,
    spec: JSON.stringify(spec),
  };
  const folded = { folded_name: foldName(name), folded_comment: foldedComment(spec) };
  const inserted = await context.statements.insertObject.run(tx, { ...row, ...folded });
  if (inserted === 0) throw new Error('two children of an object have the same name');
  if (statistics) {
    const { rowCount: row_count, dataBytes: data_bytes } = statistics;
    await tx.insertInto('table_statistics').values({ object_id: row.id, row_count, data_bytes, as_of: now }).execute();
  }
  if (child.sources) views.push({ id: row.id, sources: child.sources });
  for (const grandchild of children) await insertChild(context, tx, row, grandchild, views);
}
