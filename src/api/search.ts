// The declaration of `search`, shared by all categories. Its result is a page of a list.

import { camelCase } from '../standard/camel_case.ts';
import type { Code } from '../standard/codes.ts';
import type { Endpoint } from '../standard/endpoint.ts';
import { type Static, type TObject, type TProperties, Type } from '../standard/type.ts';
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
    body: Type.Object(
      { ...fields, ...pageFields },
      { ...(title === undefined ? {} : { title }), additionalProperties: false },
    ),
    item: record,
    result: Type.Object({ [camelCase(category)]: Type.Array(record), nextPageToken: Type.Optional(Type.String()) }),
    example: { body: example },
  });
}

interface SearchedByName<R extends TObject> {
  readonly category: string;
  readonly record: R;
  readonly example: string;
  /** Whether the collection belongs to an object. */
  readonly isChild?: boolean;
}

const childCodes = ['OBJECT_NOT_FOUND'] as const;
const searchedByName = ({ category, example, isChild = false }: Omit<SearchedByName<TObject>, 'record'>) =>
  ({
    category,
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    codes: isChild ? childCodes : [],
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
    summary: `${summaryOf(declared.category)}, or those that were dropped.`,
    title: 'SearchWithDroppedRequest',
    fields: {
      ...searchFields,
      dropped: Type.Optional(
        Type.Boolean({ default: false, description: 'Dropped ones that the caller may restore.' }),
      ),
    },
    record: searchResultOf(declared.record),
  });
