// The outcomes that handlers return; the standard turns them into a status and an envelope.
import type { Created, Deleted, Done, Found, Listed, Updated } from '../../standard/endpoint.ts';
import type { RecordBody } from '../../standard/record_body.ts';

export const found = <T extends object>(record: RecordBody<T>): Found<T> => ({ outcome: 'found', record });
export const listed = <T extends object>(items: readonly RecordBody<T>[], next?: string): Listed<T> => ({
  outcome: 'listed',
  items,
  next,
});

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
