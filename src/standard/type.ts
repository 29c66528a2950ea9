// Builders of JSON Schema with the types of TypeBox. The few functions in use are implemented here, because loading those of TypeBox takes
// longer than all other modules at startup. A test compares their results with those of TypeBox.
import type { TObject, TProperties, TSchema, Type as TypeBox } from 'typebox';

export type { Static, TEnum, TObject, TProperties, TSchema } from 'typebox';

/** Freezes a value and everything in it. */
export type Immutable<T> = T extends object ? { readonly [K in keyof T]: Immutable<T[K]> } : T;

/** A value that is sent as JSON, which omits what is undefined. */
export type Sendable<T> = T extends object
  ? { readonly [K in keyof T]: Sendable<T[K]> | (object extends Pick<T, K> ? undefined : never) }
  : T;

type Builders = Pick<
  typeof TypeBox,
  | 'Array'
  | 'Boolean'
  | 'Enum'
  | 'Integer'
  | 'Literal'
  | 'Null'
  | 'Number'
  | 'Object'
  | 'Optional'
  | 'Record'
  | 'String'
  | 'Union'
  | 'Unknown'
>;
type Options = Readonly<Record<string, unknown>>;

/** TypeBox marks schemas with non-enumerable properties, which JSON omits. */
const hide = (schema: object, key: '~kind' | '~optional', value: unknown) =>
  Object.defineProperty(schema, key, { configurable: true, writable: true, enumerable: false, value });

const build = (kind: string, schema: object, options: Options = {}): object =>
  hide({ ...schema, ...options }, '~kind', kind);

const builderOf =
  (kind: string, type: string) =>
  (options?: Options): object =>
    build(kind, { type }, options);

const isOptional = (schema: unknown): boolean => Object.hasOwn(schema as object, '~optional');

function objectType(properties: Readonly<Record<string, TSchema>>, options?: Options): object {
  const required = Object.keys(properties).filter((name) => !isOptional(properties[name]));
  return build('Object', { type: 'object', ...(required.length > 0 ? { required } : {}), properties }, options);
}

function optional(schema: object): object {
  return hide(Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema)), '~optional', true);
}

/** Keys are any strings; no schema here uses the other key types of TypeBox. */
const record = (_key: TSchema, value: TSchema, options?: Options): object =>
  build('Record', { type: 'object', patternProperties: { '^.*$': value } }, options);

export const Type = {
  Array: (items: TSchema, options?: Options) => build('Array', { type: 'array', items }, options),
  Boolean: builderOf('Boolean', 'boolean'),
  Enum: (values: readonly unknown[], options?: Options) => build('Enum', { enum: values }, options),
  Integer: builderOf('Integer', 'integer'),
  Literal: (value: unknown, options?: Options) => build('Literal', { type: typeof value, const: value }, options),
  Null: builderOf('Null', 'null'),
  Number: builderOf('Number', 'number'),
  Object: objectType,
  Optional: optional,
  Record: record,
  String: builderOf('String', 'string'),
  Union: (anyOf: readonly TSchema[], options?: Options) => build('Union', { anyOf }, options),
  Unknown: (options?: Options) => build('Unknown', {}, options),
} as unknown as Builders;

/** An object without further properties. */
export const strictObject = <P extends TProperties>(properties: P, options: Options = {}): TObject<P> =>
  Type.Object(properties, { ...options, additionalProperties: false });
