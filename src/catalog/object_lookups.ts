// What the records of objects need of other rows, and objects by id: one statement for all records of a page.
import { BatchedLookups } from '../store/batched_lookups.ts';
import { visible } from '../store/index_conditions.ts';
import type { Store } from '../store/store.ts';
import { sourcesOf } from './changes/view_dependencies.ts';
import type { Category } from './object.ts';
import { objectColumns } from './object_rows.ts';
import { type CatalogStatements, idsPerQueryMax } from './statements.ts';

export type ObjectLookups = ReturnType<typeof objectLookups>;

export function objectLookups({ db }: Store, statements: CatalogStatements) {
  const counts = new Map<Category, BatchedLookups<number>>();
  return {
    rows: new BatchedLookups({
      idsPerReadMax: idsPerQueryMax,
      one: (id) => statements.byId.first(db, { id }),
      many: async (ids) =>
        byKey(await db.selectFrom('objects').select(objectColumns).where('id', 'in', ids).execute(), 'id'),
    }),
    statistics: new BatchedLookups({
      idsPerReadMax: idsPerQueryMax,
      one: (id) => statements.statistics.first(db, { id }),
      many: async (ids) =>
        byKey(await db.selectFrom('table_statistics').selectAll().where('object_id', 'in', ids).execute(), 'object_id'),
    }),
    /** The ids of the sources of a view. */
    sources: new BatchedLookups({
      idsPerReadMax: idsPerQueryMax,
      one: async (id) => (await sourcesOf(db, id)).map((row) => row.source_id),
      many: async (ids) => {
        const query = db.selectFrom('view_sources').select(['view_id', 'source_id']).where('view_id', 'in', ids);
        const ofViews = Map.groupBy(await query.execute(), ({ view_id }) => view_id);
        return new Map([...ofViews].map(([id, rows]) => [id, rows.map(({ source_id }) => source_id)]));
      },
    }),
    /** The number of visible children of a category. */
    count(parentId: string, category: Category): Promise<number | undefined> {
      let lookups = counts.get(category);
      if (!lookups) {
        lookups = countsOf(category, db, statements);
        counts.set(category, lookups);
      }
      return lookups.get(parentId);
    },
  };
}

function countsOf(category: Category, db: Store['db'], statements: CatalogStatements): BatchedLookups<number> {
  return new BatchedLookups({
    idsPerReadMax: idsPerQueryMax,
    one: async (parentId) => Number((await statements.countChild.first(db, { parentId, category }))?.count ?? 0),
    many: async (ids) => {
      const rows = await db
        .selectFrom('objects')
        .select((e) => ['parent_id', e.fn.countAll<number>().as('count')])
        .where('parent_id', 'in', ids)
        .where('category', '=', category)
        .where(visible)
        .groupBy('parent_id')
        .execute();
      return new Map(rows.map(({ parent_id, count }) => [String(parent_id), Number(count)]));
    },
  });
}

const byKey = <K extends string, R extends Readonly<Record<K, string>>>(rows: readonly R[], key: K) =>
  new Map(rows.map((row) => [row[key] as string, row]));
