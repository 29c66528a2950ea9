// Fields that several categories share: their schemas and how a PATCH changes them (RFC 7396: null clears).
import type { CatalogObject } from '../../catalog/object.ts';
import { principalNameFault } from '../../model/principal_names.ts';
import type { Properties } from '../../model/records.ts';
import { Failure } from '../../standard/failure.ts';
import { tokenCharactersMax } from '../../standard/page_token.ts';
import { pageSizeDefault, pageSizeMax } from '../../standard/parameters.ts';
import { type TSchema, Type } from '../../standard/type.ts';

export const commentCharactersMax = 4096;
export const propertiesMax = 256;

/** For texts that engines read: one of them would take the first NUL for the end. */
export const noNul = '^[^\\u0000]*$';

/** What any endpoint can answer that needs an engine. */
export const engineCodes = [
  'WAREHOUSE_STARTING',
  'WAREHOUSE_SUSPENDED',
  'WAREHOUSE_FAILED',
  'CATALOG_DAMAGED',
  'STORAGE_FULL',
] as const;

export const Comment = Type.String({ maxLength: commentCharactersMax, description: 'Free text.' });
const PropertyValue = Type.String({ maxLength: 4096 });
export const PropertiesField = Type.Record(Type.String(), PropertyValue, {
  maxProperties: propertiesMax,
  description: 'Names and values of the users own; the service does not read them.',
});
export const Owner = Type.String({ minLength: 1, maxLength: 128, description: 'The principal that owns the object.' });
const Timestamp = Type.String({ format: 'date-time' });

export const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()]);
export const NewName = Type.Object(
  { newName: Type.String({ description: 'The name that the object gets.' }) },
  { additionalProperties: false },
);

/** The fields that every record ends with (rest-standard B4). */
export const recordFields = {
  createdAt: Timestamp,
  createdBy: Type.String(),
  updatedAt: Timestamp,
  updatedBy: Type.String(),
  version: Type.Integer({ minimum: 1, description: 'Grows by one with each change.' }),
  uri: Type.String({ description: 'Where the object is.' }),
};

export const exampleFields = (uri: string) => ({
  createdAt: '2026-01-31T10:00:00.000Z',
  createdBy: 'root',
  updatedAt: '2026-01-31T10:00:00.000Z',
  updatedBy: 'root',
  version: 1,
  uri,
});

/** What lists by pattern take (rest-standard B3: anything richer than a page is a `search`). */
export const searchFields = {
  namePattern: Type.Optional(
    Type.String({
      maxLength: 512,
      description: 'SQL LIKE: `%` any text, `_` one character, `\\` escapes; case does not count.',
    }),
  ),
  comment: Type.Optional(
    Type.String({ maxLength: 512, description: 'Text that the comment holds; case does not count.' }),
  ),
};

/** What the body of every search takes besides. */
export const pageFields = {
  pageSize: Type.Optional(Type.Integer({ minimum: 1, maximum: pageSizeMax, default: pageSizeDefault })),
  pageToken: Type.Optional(Type.String({ maxLength: tokenCharactersMax })),
};

export const dottedNames = (values: readonly string[]) => values.map((value) => JSON.stringify(value)).join(', ');

/** The patched value of an optional field: absent leaves it, null clears it. */
export function patched<T>(before: T | undefined, change: T | null | undefined): T | undefined {
  return change === undefined ? before : (change ?? undefined);
}

/** Spec fields without those that are undefined. */
export function defined<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

export const describedBody = {
  comment: Type.Optional(nullable(Comment)),
  properties: Type.Optional(
    nullable(
      Type.Record(Type.String(), nullable(PropertyValue), {
        maxProperties: propertiesMax,
        description: 'A PATCH changes those that it names; null removes one, or all of them.',
      }),
    ),
  ),
  owner: Type.Optional(Owner),
};

/** Properties as a body gives them; null removes one. */
export type PropertiesPatch = Readonly<Record<string, string | null>>;
type Described = { comment?: string | null; properties?: PropertiesPatch | null; owner?: string };

function mergedProperties(before: Properties | undefined, change: PropertiesPatch | undefined): Properties | undefined {
  if (change === undefined) return before;
  const merged = mergedMap(before ?? {}, change);
  const count = Object.keys(merged).length;
  if (count > propertiesMax)
    throw invalid('/properties', 'maxProperties', `would be ${count}; at most ${propertiesMax}`);
  return merged;
}

/** A map after a merge patch (RFC 7396): null removes a member. */
export function mergedMap(before: Properties, change: PropertiesPatch): Properties {
  const merged = new Map(Object.entries(before));
  for (const [name, value] of Object.entries(change)) {
    if (value === null) merged.delete(name);
    else merged.set(name, value);
  }
  return Object.fromEntries(merged);
}

/** The spec of a create or an update, for objects with a comment and properties. */
export function describe<S extends object>(
  spec: S & { comment?: string; properties?: Properties },
  change: Described,
): S {
  const { comment, properties, ...rest } = spec;
  return defined({
    ...rest,
    comment: patched(comment, change.comment),
    properties: change.properties === null ? undefined : mergedProperties(properties, change.properties),
  }) as unknown as S;
}

export const shownDescription = (spec: { comment?: string; properties?: Properties }) => ({
  comment: spec.comment ?? null,
  properties: spec.properties ?? {},
});

export const last = (chain: readonly CatalogObject[]): CatalogObject => chain.at(-1) as CatalogObject;

/** Throws INVALID_NAME for what a principal cannot be called. */
export function requirePrincipalName(name: string): void {
  const fault = principalNameFault(name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', fault, { name });
}

export function invalid(pointer: string, rule: string, message: string): Failure {
  return new Failure('INVALID_PARAMETER', `${pointer} ${message}`, { violations: [{ pointer, rule, message }] });
}

/** Milliseconds since 1970. Throws INVALID_PARAMETER. */
export function timeOf(text: string | undefined, pointer: string): number | undefined {
  if (text === undefined) return undefined;
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw invalid(pointer, 'format', 'must be a time such as 2026-01-31T00:00:00Z');
  return at;
}
