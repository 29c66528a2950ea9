// Narrows a schema for error messages: each union is replaced by the member that the value was most likely intended for, so that the
// errors are about that member. Also cuts the value down to the parts whose errors are reported, because checking all of a large body
// would block other requests. See parameters.ts for the errors.
import { pointerSegments } from '../../model/values/json_pointer.ts';
import type { TSchema } from '../type.ts';
import { validation } from '../validation.ts';

/** The maximum number of invalid items of one list or map, or unknown fields of one object, that are reported. */
const reportedMax = 8;

export type Schema = TSchema & {
  readonly const?: unknown;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: unknown;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
};
const anything: TSchema = {};
type Fields = Readonly<Record<string, unknown>>;

export interface NarrowedUnion {
  readonly schema: TSchema;
  readonly value: unknown;
}

export function narrowUnion(declared: TSchema, value: unknown): NarrowedUnion {
  const schema = declared as Schema;
  const { anyOf, items, properties, patternProperties } = schema;
  if (anyOf) return narrowMember(schema, value);
  if (items && Array.isArray(value)) return narrowItems(schema, items, value);
  if (!isFields(value)) return { schema, value };
  if (properties) return narrowFields(schema, properties, value);
  const [each] = Object.values(patternProperties ?? {});
  return each ? narrowEntries(schema, each, value) : { schema, value };
}

/** For a list that is too long, only its length is reported. */
function narrowItems({ items: _, ...rest }: Schema, items: Schema, value: readonly unknown[]): NarrowedUnion {
  if (value.length > (rest.maxItems ?? Number.POSITIVE_INFINITY)) return { schema: rest, value };
  const checked: NarrowedUnion[] = [];
  let invalid = 0;
  for (const item of value) {
    if (invalid === reportedMax) break;
    const isValid = validation().Check(items, item);
    if (!isValid) invalid++;
    checked.push(isValid ? { schema: anything, value: item } : narrowUnion(items, item));
  }
  return {
    schema: { ...rest, prefixItems: checked.map(({ schema }) => schema) },
    value: [...checked.map((item) => item.value), ...value.slice(checked.length)],
  };
}

function narrowFields(schema: Schema, properties: NonNullable<Schema['properties']>, value: Fields): NarrowedUnion {
  const schemas = Object.entries(properties).map(([name, field]): [string, TSchema] => [name, enumOf(field)]);
  const declared = new Map(schemas);
  const values: [string, unknown][] = [];
  for (const [name, field] of Object.entries(properties)) {
    if (!Object.hasOwn(value, name)) continue;
    const inner = narrowUnion(field, value[name]);
    declared.set(name, inner.schema);
    values.push([name, inner.value]);
  }
  let unknown = 0;
  for (const name in value) {
    if (Object.hasOwn(properties, name)) continue;
    // If unknown fields are errors, those beyond the limit are not checked.
    if (schema.additionalProperties === false && ++unknown > reportedMax) break;
    values.push([name, value[name]]);
  }
  return { schema: { ...schema, properties: Object.fromEntries(declared) }, value: Object.fromEntries(values) };
}

function narrowEntries({ patternProperties: _, ...rest }: Schema, each: Schema, value: Fields): NarrowedUnion {
  const all = Object.entries(value);
  if (all.length > (rest.maxProperties ?? Number.POSITIVE_INFINITY)) return { schema: rest, value };
  const invalid = new Map<string, NarrowedUnion>();
  for (const [name, property] of all) {
    if (invalid.size === reportedMax) break;
    if (!validation().Check(each, property)) invalid.set(name, narrowUnion(each, property));
  }
  const reported = [...invalid];
  return {
    schema:
      reported.length === 0
        ? rest
        : { ...rest, properties: Object.fromEntries(reported.map(([name, one]) => [name, one.schema])) },
    value: Object.fromEntries(all.map(([name, one]) => [name, invalid.has(name) ? invalid.get(name)?.value : one])),
  };
}

/** The schema at the path of an error: `#/properties/source`. */
export function schemaAt(schema: TSchema, path: string): Schema | undefined {
  let found: unknown = schema;
  for (const key of pointerSegments(path)) found = (found as Record<string, unknown> | undefined)?.[key];
  return found as Schema | undefined;
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);

const flattenUnion = ({ anyOf }: Schema): readonly Schema[] =>
  (anyOf ?? []).flatMap((member) => (member.anyOf ? flattenUnion(member) : [member]));

/** Converts a union of literals and null to an enum; returns other schemas unchanged. */
function enumOf(schema: Schema): Schema {
  const members = flattenUnion(schema);
  const values = members.map((member) => (member.type === 'null' ? null : member.const));
  return members.length > 0 && !values.includes(undefined) ? ({ enum: values } as Schema) : schema;
}

function narrowMember(schema: Schema, value: unknown): NarrowedUnion {
  const values = enumOf(schema);
  if (values.enum) return { schema: values, value };
  const members = flattenUnion(schema);
  const candidates = members.filter((member) => matchesType(member, value));
  const [only, ...others] = candidates;
  if (only && others.length === 0) return narrowUnion(only, value);
  if (only) {
    const areLiterals = candidates.every((candidate) => candidate.const !== undefined);
    return { schema: areLiterals ? enumOf({ anyOf: candidates } as Schema) : schema, value };
  }
  const types = [...new Set(members.map(({ type }) => type))];
  return { schema: types.includes(undefined) ? schema : { type: types.length === 1 ? types[0] : types }, value };
}

function matchesType({ type }: Schema, value: unknown): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isFields(value);
    case 'integer':
      return typeof value === 'number';
    default:
      return typeof value === type;
  }
}
