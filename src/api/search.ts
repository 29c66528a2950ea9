// The action `search`, declared once: what a collection is searched by. Its result is a page of a list.

import { camelCase } from '../standard/camel_case.ts';
import type { Code } from '../standard/codes.ts';
import type { Endpoint } from '../standard/endpoint.ts';
import { type Static, type TObject, type TProperties, Type } from '../standard/type.ts';
import { action } from './declare.ts';
import { pageFields, searchFields } from './fields.ts';

interface Searched<F extends TProperties, R extends TObject> {
  readonly category: string;
  readonly summary: string;
  readonly description?: string;
  readonly permission: Endpoint['permission'];
  readonly codes?: readonly Code[];
  /** By what the collection is searched. */
  readonly fields: F;
  readonly record: R;
  readonly example: Static<TObject<F>>;
}

export function searchBy<F extends TProperties, R extends TObject>(declared: Searched<F, R>) {
  const { category, fields, record, example, ...rest } = declared;
  return action('collection', {
    ...rest,
    body: Type.Object({ ...fields, ...pageFields }, { additionalProperties: false }),
    item: record,
    result: Type.Object({ [camelCase(category)]: Type.Array(record), nextPageToken: Type.Optional(Type.String()) }),
    example: { body: example },
  });
}

interface SearchedByName<R extends TObject> {
  readonly category: string;
  readonly record: R;
  readonly example: string;
  /** Whether the collection is in another object. */
  readonly isChild?: boolean;
}

/** The search of objects by name pattern and comment. */
export const searchByName = <R extends TObject>({ category, record, example, isChild = false }: SearchedByName<R>) =>
  searchBy({
    category,
    summary: `Finds ${category.replaceAll('_', ' ')} by name pattern and comment.`,
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    codes: isChild ? ['OBJECT_NOT_FOUND'] : [],
    fields: searchFields,
    record,
    example: { namePattern: example },
  });
