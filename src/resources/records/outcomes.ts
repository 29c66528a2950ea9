// The outcomes that handlers return; the standard turns them into a status and an envelope.
import type { Created, Deleted, Done, Found, Input, Listed, Updated } from '../../standard/endpoint.ts';
import type { RecordBody } from '../../standard/envelope.ts';

export const found = <T extends object>(record: RecordBody<T>): Found<T> => ({ outcome: 'found', record });
export const listed = <T extends object>(items: readonly RecordBody<T>[], next?: string): Listed<T> => ({
  outcome: 'listed',
  items,
  next,
});

export type Page = Input<unknown, unknown>['page'];

/** One page of `found`, which is sorted by the field `key` and has the items beyond the page, or the first of them. */
export async function pageOf<T, R extends object>(
  found: readonly T[],
  { limit }: Page,
  key: keyof T,
  show: (item: T) => R | Promise<R>,
): Promise<Listed<R>> {
  const shown = found.slice(0, limit);
  const end = found.length > limit ? shown.at(-1) : undefined;
  // Together, so that what they look up is read in one statement.
  const records = await Promise.all(shown.map(show));
  return listed(records, end && String(end[key]));
}

/** The list result of an action whose items are not objects of its own category. */
export const listedAs = <T extends object>(
  field: string,
  items: readonly RecordBody<T>[],
  next?: string,
): Listed<T> => ({
  outcome: 'listed',
  items,
  field,
  next,
});

export const created = <T extends { readonly uri: string }>(record: T, isNew: boolean): Created<T> => ({
  outcome: 'created',
  record,
  created: isNew,
  uri: record.uri,
});
export const updated = <T extends object>(record: RecordBody<T>): Updated<T> => ({ outcome: 'updated', record });
export const deleted = (existed: boolean): Deleted => ({ outcome: 'deleted', deleted: existed });

/** `stored`: as in the outcome (standard/endpoint.ts). */
export const done = <T extends object>(result: RecordBody<T>, stored?: RecordBody | null): Done<T> => ({
  outcome: 'done',
  result,
  ...(stored === undefined ? {} : { stored }),
});
