// Gives the objects of a catalog that another store created from a backup the ids, owners and load labels that they have here, so that
// rewound_catalog.ts can copy them.
import { sql } from 'kysely';
import { dependentTables } from '../rewound_catalog.ts';
import type { ObjectsTable, Schema } from '../schema.ts';
import type { Store } from '../store.ts';

export interface RebuiltObject {
  /** As of the backup. */
  readonly id: string;
  /** The names of the catalog, the database and the object itself. */
  readonly path: readonly string[];
}

/** Columns that contain ids of objects of a catalog. */
const idColumns = [
  ['objects', 'id'],
  ['objects', 'parent_id'],
  ['view_sources', 'source_id'],
  ['catalog_files', 'catalog_id'],
  ...dependentTables,
] as const satisfies readonly (readonly [keyof Schema, string])[];

/**
 * `objects`: parents before children, the catalog first. `instant`: of the backup, in milliseconds since 1970; load labels until then are
 * retained, because their rows are in the backup. @returns the id that the catalog had in `rebuilt`.
 */
export async function adoptObjects(
  rebuilt: Store,
  current: Store,
  objects: readonly RebuiltObject[],
  instant: number,
): Promise<string> {
  const labels = await labelsUntil(current, objects, instant);
  const was = new Map<string, Pick<ObjectsTable, 'owner' | 'created_at' | 'created_by'>>();
  for (const { id } of objects) {
    const row = await rowOf(current, id);
    if (row) was.set(id, row);
  }
  const owner = was.get((objects[0] as RebuiltObject).id)?.owner;
  return rebuilt.transaction(async (tx) => {
    await sql`pragma defer_foreign_keys = on`.execute(tx);
    const ids = new Map<string, string>();
    let catalogId = '';
    for (const { id, path } of objects) {
      const parentId = path.length === 1 ? null : ids.get(path.slice(0, -1).join('\0'));
      const found = await tx
        .selectFrom('objects')
        .select('id')
        .where('name', '=', path.at(-1) as string)
        .where('parent_id', parentId === null ? 'is' : '=', parentId as string)
        .where('category', path.length === 1 ? '=' : '<>', 'catalogs')
        .executeTakeFirst();
      // A view that could not be restored.
      if (!found) continue;
      if (parentId === null) catalogId = found.id;
      ids.set(path.join('\0'), id);
      for (const [table, column] of idColumns)
        await sql`update ${sql.table(table)} set ${sql.ref(column)} = ${id} where ${sql.ref(column)} = ${found.id}`.execute(
          tx,
        );
      await tx
        .updateTable('objects')
        .set(was.get(id) ?? { owner })
        .where('id', '=', id)
        .execute();
    }
    const restored = new Set(ids.values());
    for (const label of labels)
      if (restored.has(label.table_id)) await tx.insertInto('load_labels').values(label).execute();
    return catalogId;
  });
}

const rowOf = ({ db }: Store, id: string) =>
  db.selectFrom('objects').select(['owner', 'created_at', 'created_by']).where('id', '=', id).executeTakeFirst();

async function labelsUntil({ db }: Store, objects: readonly RebuiltObject[], instant: number) {
  const ids = new Set(objects.map(({ id }) => id));
  const labels = await db.selectFrom('load_labels').selectAll().where('created_at', '<=', instant).execute();
  return labels.filter(({ table_id }) => ids.has(table_id));
}
