// A declared schema and a value that does not fit it → the schema without alternatives: of each union the member that the value was
// meant to be, so that its errors are about that one. What errors are called is parameters.ts'.
import type { TSchema } from 'typebox';

export type Schema = TSchema & {
  readonly const?: unknown;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly minProperties?: number;
  readonly maxProperties?: number;
};
type Fields = Readonly<Record<string, unknown>>;

export function meantSchema(declared: TSchema, value: unknown): TSchema {
  const schema = declared as Schema;
  const { anyOf, items, properties, patternProperties } = schema;
  if (anyOf) return memberMeant(schema, value);
  if (items && Array.isArray(value) && hasUnion(items)) {
    const { items: _, ...rest } = schema;
    return { ...rest, prefixItems: value.map((one) => meantSchema(items, one)) };
  }
  if (!isFields(value)) return schema;
  if (properties) {
    const inner = Object.entries(properties).map(([name, field]) => [
      name,
      Object.hasOwn(value, name) ? meantSchema(field, value[name]) : enumOf(field),
    ]);
    return { ...schema, properties: Object.fromEntries(inner) };
  }
  const [each] = Object.values(patternProperties ?? {});
  if (!each || !hasUnion(each)) return schema;
  const { patternProperties: _, ...rest } = schema;
  const inner = Object.entries(value).map(([name, one]) => [name, meantSchema(each, one)]);
  return { ...rest, properties: Object.fromEntries(inner) };
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

function hasUnion({ anyOf, items, properties, patternProperties }: Schema): boolean {
  const inner = [items, ...Object.values(properties ?? {}), ...Object.values(patternProperties ?? {})];
  return anyOf !== undefined || inner.some((one) => one !== undefined && hasUnion(one));
}

/** A union of literals, and perhaps null, as the list of its values; all else as it is. */
function enumOf(schema: Schema): Schema {
  const members = flat(schema);
  const values = members.map((one) => (one.type === 'null' ? null : one.const));
  return members.length > 0 && !values.includes(undefined) ? ({ enum: values } as Schema) : schema;
}

function memberMeant(schema: Schema, value: unknown): TSchema {
  const values = enumOf(schema);
  if (values.enum) return values;
  const members = flat(schema);
  if (isFields(value)) {
    const objects = members.filter((one) => one.properties);
    const [first] = objects;
    const kind = Object.keys(first?.properties ?? {}).find((name) =>
      objects.every((one) => one.properties?.[name]?.const !== undefined),
    );
    if (kind !== undefined && objects.length > 1) return memberOfKind(objects, kind, value);
  }
  const fitting = members.filter((one) => accepts(one, value));
  const [only, ...others] = fitting;
  if (only && others.length === 0) return meantSchema(only, value);
  if (only) return fitting.every((one) => one.const !== undefined) ? enumOf({ anyOf: fitting } as Schema) : schema;
  const types = [...new Set(members.map(({ type }) => type))];
  return types.includes(undefined) ? schema : { type: types.length === 1 ? types[0] : types };
}

function memberOfKind(objects: readonly Schema[], kind: string, value: Fields): TSchema {
  const kinds = objects.map(({ properties }) => properties?.[kind]?.const);
  const at = Object.hasOwn(value, kind) ? kinds.indexOf(value[kind]) : -1;
  if (at >= 0) return meantSchema(objects[at] as Schema, value);
  return { type: 'object', required: [kind], properties: { [kind]: { enum: kinds } } };
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
