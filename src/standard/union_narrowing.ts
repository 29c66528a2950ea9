// A declared schema and a value that does not fit it → a schema without alternatives (of each union the member that the value was meant
// to be, so that its errors are about that one), and the part of the value whose errors are reported: checking all of a large body
// would keep other requests waiting. See parameters.ts for the errors.
import type { TSchema } from './type.ts';
import { validation } from './validation.ts';

/** Invalid items of one list or map, or unknown fields of one object, that are reported at most. */
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
  if (anyOf) return memberMeant(schema, value);
  if (items && Array.isArray(value)) return itemsMeant(schema, items, value);
  if (!isFields(value)) return { schema, value };
  if (properties) return fieldsMeant(schema, properties, value);
  const [each] = Object.values(patternProperties ?? {});
  return each ? entriesMeant(schema, each, value) : { schema, value };
}

/** Of a list that is too long, only that is reported. */
function itemsMeant({ items: _, ...rest }: Schema, items: Schema, value: readonly unknown[]): NarrowedUnion {
  if (value.length > (rest.maxItems ?? Number.POSITIVE_INFINITY)) return { schema: rest, value };
  const checked: NarrowedUnion[] = [];
  let wrong = 0;
  for (const one of value) {
    if (wrong === reportedMax) break;
    const isRight = validation().Check(items, one);
    if (!isRight) wrong++;
    checked.push(isRight ? { schema: anything, value: one } : narrowUnion(items, one));
  }
  return {
    schema: { ...rest, prefixItems: checked.map(({ schema }) => schema) },
    value: [...checked.map((one) => one.value), ...value.slice(checked.length)],
  };
}

function fieldsMeant(schema: Schema, properties: NonNullable<Schema['properties']>, value: Fields): NarrowedUnion {
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
    // Objects of declared fields only: the rest of the unknown ones need not even be looked at.
    if (schema.additionalProperties === false && ++unknown > reportedMax) break;
    values.push([name, value[name]]);
  }
  return { schema: { ...schema, properties: Object.fromEntries(declared) }, value: Object.fromEntries(values) };
}

function entriesMeant({ patternProperties: _, ...rest }: Schema, each: Schema, value: Fields): NarrowedUnion {
  const all = Object.entries(value);
  if (all.length > (rest.maxProperties ?? Number.POSITIVE_INFINITY)) return { schema: rest, value };
  const wrong = new Map<string, NarrowedUnion>();
  for (const [name, one] of all) {
    if (wrong.size === reportedMax) break;
    if (!validation().Check(each, one)) wrong.set(name, narrowUnion(each, one));
  }
  const reported = [...wrong];
  return {
    schema:
      reported.length === 0
        ? rest
        : { ...rest, properties: Object.fromEntries(reported.map(([name, one]) => [name, one.schema])) },
    value: Object.fromEntries(all.map(([name, one]) => [name, wrong.has(name) ? wrong.get(name)?.value : one])),
  };
}

/** The schema at the place that an error names: `#/properties/source`. */
export function schemaAt(schema: TSchema, path: string): Schema | undefined {
  let found: unknown = schema;
  for (const token of path.split('/').slice(1)) {
    const key = token.replaceAll('~1', '/').replaceAll('~0', '~');
    found = (found as Record<string, unknown> | undefined)?.[key];
  }
  return found as Schema | undefined;
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);

const flat = ({ anyOf }: Schema): readonly Schema[] => (anyOf ?? []).flatMap((one) => (one.anyOf ? flat(one) : [one]));

/** A union of literals, and perhaps null, as the list of its values; all else as it is. */
function enumOf(schema: Schema): Schema {
  const members = flat(schema);
  const values = members.map((one) => (one.type === 'null' ? null : one.const));
  return members.length > 0 && !values.includes(undefined) ? ({ enum: values } as Schema) : schema;
}

function memberMeant(schema: Schema, value: unknown): NarrowedUnion {
  const values = enumOf(schema);
  if (values.enum) return { schema: values, value };
  const members = flat(schema);
  const fitting = members.filter((one) => accepts(one, value));
  const [only, ...others] = fitting;
  if (only && others.length === 0) return narrowUnion(only, value);
  if (only) {
    const isOfValues = fitting.every((one) => one.const !== undefined);
    return { schema: isOfValues ? enumOf({ anyOf: fitting } as Schema) : schema, value };
  }
  const types = [...new Set(members.map(({ type }) => type))];
  return { schema: types.includes(undefined) ? schema : { type: types.length === 1 ? types[0] : types }, value };
}

function accepts({ type }: Schema, value: unknown): boolean {
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
