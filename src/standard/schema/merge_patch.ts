// PATCH as a merge patch (RFC 7396), driven by the schema of the whole value: null removes a member, objects with declared members and
// maps are merged, at any depth; everything else is replaced. A map whose values may be any JSON is replaced too, because null can be
// a value in it.
import type { TObject, TOptional, TProperties, TRecord, TSchema, TUnion } from 'typebox';
import { escapePointer } from '../../model/values/json_pointer.ts';
import { invalidParameter } from '../failure.ts';
import { Type } from '../type.ts';

/** The members of an object in a PATCH: all are optional, and null removes those that the object need not have. */
type PatchedProperties<P extends TProperties> = {
  [K in keyof P]: P[K] extends TOptional<infer S extends TSchema>
    ? TOptional<TUnion<[S, ReturnType<typeof Type.Null>]>>
    : TOptional<P[K]>;
};

interface Shape {
  readonly title?: string;
  readonly properties?: TProperties;
  readonly required?: readonly string[];
  readonly patternProperties?: Readonly<Record<string, TSchema>>;
  readonly maxProperties?: number;
  readonly anyOf?: readonly TSchema[];
}

/** The schema of the body field that changes an object with these members. Its title has the suffix `Patch`. */
export function patchOf<P extends TProperties>(schema: TObject<P>): TObject<PatchedProperties<P>> {
  const { properties, required = [], title, ...options } = schema as Shape & { type?: string };
  const members = Object.entries(properties ?? {}).map(([name, member]) => [
    name,
    Type.Optional(required.includes(name) ? member : Type.Union([member, Type.Null()])),
  ]);
  return Type.Object(Object.fromEntries(members), {
    ...options,
    ...(title === undefined ? {} : { title: `${title}Patch` }),
  }) as never;
}

/** The schema of the body field that changes a map: null removes an entry. */
export function mapPatchOf<V extends TSchema>(
  schema: TRecord<string, V>,
): TRecord<string, TUnion<[V, ReturnType<typeof Type.Null>]>> {
  const { patternProperties, ...options } = schema as Shape;
  const [value] = Object.values(patternProperties ?? {});
  return Type.Record(Type.String(), Type.Union([value as TSchema, Type.Null()]), options) as never;
}

/** The fields that change `T`: null removes an optional one. `undefined` changes nothing. */
export type PatchOf<T extends object> = {
  readonly [K in keyof T]?:
    | MemberPatch<Exclude<T[K], undefined>>
    | (string extends K ? null : object extends Pick<T, K> ? null : undefined extends T[K] ? null : never)
    | undefined;
};
type MemberPatch<T> = T extends readonly unknown[] ? T : T extends object ? PatchOf<T> : T;

/**
 * `before` after the change. `schema`: of the whole value; it decides what is merged, and has the required members and the limits of
 * the objects in the result. Throws INVALID_PARAMETER.
 */
export function mergePatch<T extends object>(schema: TSchema, before: T, change: PatchOf<T>): T {
  return mergedMembers(schema as Shape, before, change, '') as T;
}

function mergedMembers(shape: Shape, before: object, change: object, pointer: string): object {
  const merged = new Map<string, unknown>(Object.entries(before));
  for (const [name, value] of Object.entries(change)) {
    if (value === null) merged.delete(name);
    else if (value !== undefined)
      merged.set(
        name,
        mergedValue(memberOf(shape, name), merged.get(name), value, `${pointer}/${escapePointer(name)}`),
      );
  }
  return Object.fromEntries(merged);
}

function mergedValue(schema: TSchema | undefined, before: unknown, change: unknown, pointer: string): unknown {
  const shape = schema && mergingShape(schema);
  if (!shape || !isObject(change)) return change;
  const merged = mergedMembers(shape, isObject(before) ? before : {}, change, pointer);
  for (const name of shape.required ?? [])
    if (!Object.hasOwn(merged, name))
      throw invalidParameter(`${pointer}/${escapePointer(name)}`, 'required', 'is required');
  const count = Object.keys(merged).length;
  const { maxProperties = count } = shape;
  if (count > maxProperties)
    throw invalidParameter(pointer, 'maxProperties', `would be ${count}; at most ${maxProperties}`);
  return merged;
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const memberOf = ({ properties, patternProperties }: Shape, name: string): TSchema | undefined =>
  properties && Object.hasOwn(properties, name) ? properties[name] : Object.values(patternProperties ?? {})[0];

/** The alternative of the schema whose values are merged. */
function mergingShape(schema: TSchema): Shape | undefined {
  const shape = schema as Shape;
  if (shape.anyOf) return shape.anyOf.map(mergingShape).find((alternative) => alternative !== undefined);
  if (shape.properties) return shape;
  const [value] = Object.values(shape.patternProperties ?? {});
  return value && ('type' in value || 'anyOf' in value) ? shape : undefined;
}
