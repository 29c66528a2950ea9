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
  const counts = countsByCategory((category) => countsOf(category, db, statements));
  const droppedCounts = countsByCategory((category) => droppedCountsOf(category, db));
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
    count: counts,
    /** The number of children of a category that were dropped with a dropped object. */
    countDropped: droppedCounts,
  };
}

function countsByCategory(create: (category: Category) => BatchedLookups<number>) {
  const lookups = new Map<Category, BatchedLookups<number>>();
  return (parentId: string, category: Category): Promise<number | undefined> => {
    let ofCategory = lookups.get(category);
    if (!ofCategory) {
      ofCategory = create(category);
      lookups.set(category, ofCategory);
    }
    return ofCategory.get(parentId);
  };
}

function countsOf(category: Category, db: Store['db'], statements: CatalogStatements): BatchedLookups<number> {
  return new BatchedLookups({
    idsPerReadMax: idsPerQueryMax,
    one: async (parentId) => Number((await statements.countChild.first(db, { parentId, category }))?.count ?? 0),
    many: (ids) => countsIn(childrenOf(db, category, ids).where(visible)),
  });
}

function droppedCountsOf(category: Category, db: Store['db']): BatchedLookups<number> {
  const retained = (ids: readonly string[]) =>
    childrenOf(db, category, ids)
      .where('state', '=', 'dropped')
      .where('id', 'not in', (q) => q.selectFrom('dropped_objects').select('object_id'));
  return new BatchedLookups({
    idsPerReadMax: idsPerQueryMax,
    one: async (parentId) => (await countsIn(retained([parentId]))).get(parentId),
    many: (ids) => countsIn(retained(ids)),
  });
}

const childrenOf = (db: Store['db'], category: Category, parentIds: readonly string[]) =>
  db.selectFrom('objects').where('parent_id', 'in', parentIds).where('category', '=', category);

async function countsIn(children: ReturnType<typeof childrenOf>): Promise<ReadonlyMap<string, number>> {
  const counted = children.select((e) => ['parent_id', e.fn.countAll<number>().as('count')]).groupBy('parent_id');
  return new Map((await counted.execute()).map(({ parent_id, count }) => [String(parent_id), Number(count)]));
}

const byKey = <K extends string, R extends Readonly<Record<K, string>>>(rows: readonly R[], key: K) =>
  new Map(rows.map((row) => [row[key] as string, row]));
