// The declaration of `search`, shared by all categories. Its result is a page of a list.

import { camelCase } from '../standard/camel_case.ts';
import type { Code } from '../standard/codes.ts';
import type { Endpoint } from '../standard/endpoint.ts';
import { type Static, strictObject, type TObject, type TProperties, Type } from '../standard/type.ts';
import { action } from './declare.ts';
import { pageFields, searchFields } from './fields.ts';
import { searchResultOf } from './undrop.ts';

interface Searched<F extends TProperties, R extends TObject> {
  readonly category: string;
  readonly summary: string;
  readonly description?: string;
  readonly permission: Endpoint['permission'];
  readonly codes?: readonly Code[];
  /** The search criteria of the collection. */
  readonly fields: F;
  readonly record: R;
  readonly example: Static<TObject<F>>;
  /** The name of the body, if several categories are searched alike. */
  readonly title?: string;
}

export function searchBy<F extends TProperties, R extends TObject>(declared: Searched<F, R>) {
  const { category, fields, record, example, title, ...rest } = declared;
  return action('collection', {
    ...rest,
    body: strictObject({ ...fields, ...pageFields }, { ...(title === undefined ? {} : { title }) }),
    item: record,
    result: Type.Object({ [camelCase(category)]: Type.Array(record), nextPageToken: Type.Optional(Type.String()) }),
    example: { body: example },
  });
}

interface SearchedByName<R extends TObject> {
  readonly category: string;
  readonly record: R;
  readonly example: string;
}

const searchedByName = ({ category, example }: Omit<SearchedByName<TObject>, 'record'>) =>
  ({
    category,
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    example: { namePattern: example },
  }) as const;
const summaryOf = (category: string) => `Finds ${category.replaceAll('_', ' ')} by name pattern and comment`;

/** The search of objects by name pattern and comment. */
export const searchByName = <R extends TObject>(declared: SearchedByName<R>) =>
  searchBy({
    ...searchedByName(declared),
    summary: `${summaryOf(declared.category)}.`,
    title: 'SearchByNameRequest',
    fields: searchFields,
    record: declared.record,
  });

/** The same for objects that can be restored after they were dropped. */
export const searchWithDropped = <F extends TProperties>(declared: SearchedByName<TObject<F>>) =>
  searchBy({
    ...searchedByName(declared),
    summary: `${summaryOf(declared.category)}, or dropped ones that can be restored.`,
    title: 'SearchWithDroppedRequest',
    fields: {
      ...searchFields,
      dropped: Type.Optional(
        Type.Boolean({
          default: false,
          description: 'Whether to return dropped objects that the caller may restore instead.',
        }),
      ),
    },
    record: searchResultOf(declared.record),
  });
