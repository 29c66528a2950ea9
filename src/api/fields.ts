// Schemas that several categories share.

import { objectName } from '../standard/object_name.ts';
import { pageSizeDefault, pageSizeMax, pageTokenCharactersMax } from '../standard/page_limits.ts';
import { strictObject, type TEnum, type TSchema, Type } from '../standard/type.ts';

const commentCharactersMax = 4096;
const propertiesMax = 256;

/** For texts that engines read: DuckDB would end a text at the first NUL. */
export const noNul = '^[^\\u0000]*$';

/** The codes of every endpoint that needs an engine. */
export const engineCodes = [
  'WAREHOUSE_STARTING',
  'WAREHOUSE_SUSPENDED',
  'WAREHOUSE_FAILED',
  'CATALOG_DAMAGED',
  'NOT_ENOUGH_BACKENDS',
  'REPLICAS_UNAVAILABLE',
  'STORAGE_FULL',
  'WAREHOUSE_BUSY',
] as const;

export const Comment = Type.String({ maxLength: commentCharactersMax });
const PropertyValue = Type.String({ maxLength: 4096 });
export const PropertiesField = Type.Record(Type.String(), PropertyValue, {
  title: 'Properties',
  maxProperties: propertiesMax,
  description: 'User-defined names and values; the service does not interpret them.',
});
export const DescribedFields = Type.Object({ comment: Comment, properties: PropertiesField });
export const Owner = Type.String({
  title: 'Owner',
  minLength: 1,
  maxLength: 128,
  description: 'The principal that owns the object.',
});
export const Timestamp = Type.String({ format: 'date-time' });

/** A union of string literals. */
export const oneOf = <const N extends string>(
  names: readonly N[],
  options: { readonly title?: string; readonly description?: string; readonly default?: N } = {},
  descriptions: Partial<Readonly<Record<N, string>>> = {},
): TEnum<N[]> =>
  Type.Union(
    names.map((name) => {
      const description = descriptions[name];
      return Type.Literal(name, description === undefined ? {} : { description });
    }),
    options,
  ) as never;

export const nullable = <S extends TSchema>(schema: S, options: { readonly title?: string } = {}) =>
  Type.Union([schema, Type.Null()], options);
export const NewName = strictObject({ newName: objectName('The new name of the object.') }, { title: 'RenameRequest' });

/** The path of an object of this API. */
export const Uri = Type.String({
  title: 'Uri',
  pattern: '^/api/v[0-9]+/',
  maxLength: 8192,
  description: 'The URI of the object.',
});

/** The fields at the end of every record (rest-standard B4). */
export const recordFields = {
  createdAt: Timestamp,
  createdBy: Type.String(),
  updatedAt: Timestamp,
  updatedBy: Type.String(),
  version: Type.Integer({ title: 'Version', minimum: 1, description: 'Counts the changes.' }),
  uri: Uri,
};

export const exampleFields = (uri: string) => ({
  createdAt: '2026-01-31T10:00:00.000Z',
  createdBy: 'root',
  updatedAt: '2026-01-31T10:00:00.000Z',
  updatedBy: 'root',
  version: 1,
  uri,
});

/** The query parameters of lists with a name pattern (rest-standard B3: more complex criteria need a `search`). */
export const searchFields = {
  namePattern: Type.Optional(
    Type.String({
      maxLength: 512,
      description: 'A SQL LIKE pattern, case-insensitive: `%` any text, `_` one character, `\\` escapes.',
    }),
  ),
  comment: Type.Optional(Type.String({ maxLength: 512, description: 'A substring of the comment; case-insensitive.' })),
};

/** The common fields of all search bodies. */
export const pageFields = {
  pageSize: Type.Optional(Type.Integer({ minimum: 1, maximum: pageSizeMax, default: pageSizeDefault })),
  pageToken: Type.Optional(Type.String({ maxLength: pageTokenCharactersMax })),
};

export const describedBody = {
  comment: Type.Optional(nullable(Comment)),
  properties: Type.Optional(
    nullable(
      Type.Record(Type.String(), nullable(PropertyValue), {
        maxProperties: propertiesMax,
        description: 'A PATCH changes the listed properties; null removes one, or all of them.',
      }),
      { title: 'PropertiesPatch' },
    ),
  ),
  owner: Type.Optional(Owner),
};

/** Properties in a request body; null removes one. */
export type PropertiesPatch = Readonly<Record<string, string | null>>;

/** The body of an action without parameters. */
export const noFields = strictObject({});
