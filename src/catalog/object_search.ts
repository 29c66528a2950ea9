// Searches the objects of a collection by name, comment and content, and finds those that a caller may see.
import type { PathObject } from '../access/authorization/authorizer.ts';
import { compareNames } from '../model/names.ts';
import { containing, likePattern } from '../model/text_patterns.ts';
import { visible } from '../store/index_conditions.ts';
import { type Batch, bytesOf } from '../store/row_batches.ts';
import { type Candidate, searchRows } from '../store/row_search.ts';
import type { Store } from '../store/store.ts';
import type { CatalogObject, Category, SearchOptions } from './object.ts';
import { foldComment, objectColumns, type SpecCache, textColumns } from './object_rows.ts';
import { idsPerQueryMax } from './statements.ts';

interface Source {
  readonly store: Store;
  readonly specs: SpecCache;
}

interface NamedCandidate extends Candidate, PathObject {
  readonly name: string;
  readonly isNamed: boolean;
}

/** Ordered by the code points of the name. */
export async function searchObjects(
  source: Source,
  parentId: string | null,
  category: Category,
  { after: start, limit, namePattern, restrictTo, comment, fits }: SearchOptions,
): Promise<Batch<CatalogObject>> {
  const fitsName = namePattern === undefined ? () => true : likePattern(namePattern);
  const fitsComment = commentFilter(comment);
  const { filter = () => true } = restrictTo ?? {};
  const { items, hasMore, examined } = await searchRows<NamedCandidate, CatalogObject>({
    limit,
    idOf: ({ id }) => id,
    async next(after, count) {
      const found = await candidates(source, parentId, category, after?.name ?? start, count, restrictTo);
      return found.map((row) => {
        const isNamed = fitsName(row.name) && filter(row);
        return { ...row, isNamed, bytes: isNamed ? row.bytes : 0 };
      });
    },
    async examine(batch) {
      const all = batch.filter(({ isNamed }) => isNamed);
      const named = fits || fitsComment ? all : all.slice(0, limit + 1);
      const objects = await objectsOf(source, fitsComment ? await withComment(source, named, fitsComment) : named);
      return fits ? objects.filter(fits) : objects;
    },
  });
  return { items, hasMore, examined: examined?.name };
}

/** Undefined: all comments fit. */
export function commentFilter(comment: string | undefined): ((foldedComment: string) => boolean) | undefined {
  return comment === undefined || comment === '' ? undefined : containing(foldComment(comment));
}

type CandidateRow = PathObject & { readonly name: string; readonly bytes: number };

/** The next ones by name, of which the caller may see those that `restrictTo.filter` accepts too. */
async function candidates(
  { store }: Source,
  parentId: string | null,
  category: Category,
  after: string | undefined,
  limit: number,
  restrictTo: SearchOptions['restrictTo'],
): Promise<readonly CandidateRow[]> {
  let query = store.db
    .selectFrom('objects')
    .select(['id', 'name', 'owner', bytesOf(textColumns).as('bytes')])
    .where('parent_id', parentId === null ? 'is' : '=', parentId)
    .where('category', '=', category)
    .where(visible)
    .orderBy('name')
    .limit(limit);
  if (after !== undefined) query = query.where('name', '>', after);
  if (!restrictTo) return query.execute();
  const { owner, ids } = restrictTo;
  const rows = owner === undefined ? [] : await query.where('owner', '=', owner).execute();
  const known = new Set(rows.map(({ id }) => id));
  for (let start = 0; start < ids.length; start += idsPerQueryMax) {
    for (const row of await query.where('id', 'in', ids.slice(start, start + idsPerQueryMax)).execute())
      if (!known.has(row.id)) rows.push(row);
  }
  return rows.sort((a, b) => compareNames(a.name, b.name)).slice(0, limit);
}

async function withComment(
  { store }: Source,
  candidates: readonly NamedCandidate[],
  fits: (foldedComment: string) => boolean,
): Promise<readonly NamedCandidate[]> {
  if (candidates.length === 0) return [];
  const ids = candidates.map(({ id }) => id);
  const rows = await store.db.selectFrom('objects').select(['id', 'folded_comment']).where('id', 'in', ids).execute();
  const commented = new Set(rows.filter(({ folded_comment: text }) => text !== null && fits(text)).map(({ id }) => id));
  return candidates.filter(({ id }) => commented.has(id));
}

/** Those that are still visible by the same names, in the same order: a later name would be elsewhere in the list. */
async function objectsOf({ store, specs }: Source, candidates: readonly NamedCandidate[]): Promise<CatalogObject[]> {
  if (candidates.length === 0) return [];
  const ids = candidates.map(({ id }) => id);
  const rows = await store.db
    .selectFrom('objects')
    .select(objectColumns)
    .where('id', 'in', ids)
    .where(visible)
    .execute();
  const byId = new Map(rows.map((row) => [row.id, row]));
  return candidates.flatMap(({ id, name }) => {
    const row = byId.get(id);
    return row?.name === name ? [specs.toObject(row)] : [];
  });
}
