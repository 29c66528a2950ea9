// The fields of a declared schema as rows of a table: path, type, limits and meaning. Nested objects follow their parent, such as `source.s3.bucket`.
import { noNul } from '../../src/api/fields.ts';
import { documentedLimits } from '../../src/standard/documented_limits.ts';
import type { TSchema } from '../../src/standard/type.ts';

export interface FieldRow {
  /** Such as `columns[].name`. */
  readonly path: string;
  readonly type: string;
  readonly isRequired: boolean;
  /** Such as `1 to 1000`; empty if there are none. */
  readonly limits: string;
  readonly description: string;
}

interface Limits {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly default?: unknown;
}

interface Schema extends Limits {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly description?: string;
  readonly anyOf?: readonly TSchema[];
  readonly items?: TSchema;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly patternProperties?: Readonly<Record<string, TSchema>>;
  readonly [documentedLimits]?: Limits & { readonly oneOf?: readonly { readonly required: readonly string[] }[] };
}

/** Deeper fields are in the OpenAPI document only. */
const depthMax = 5;

/** Of a union, those of all alternatives. */
export function fieldsOf(schema: TSchema): FieldRow[] {
  const { anyOf } = schema as Schema;
  return anyOf ? withoutRepetition(anyOf.flatMap(fieldsOf)) : membersOf(schema as Schema, '', 1);
}

/** Alternatives of a union share most of their fields. */
const withoutRepetition = (rows: readonly FieldRow[]): FieldRow[] =>
  rows.filter(({ path }, i) => rows.findIndex((row) => row.path === path) === i);

function membersOf(schema: Schema, prefix: string, depth: number): FieldRow[] {
  if (depth > depthMax) return [];
  const rows = Object.entries(schema.properties ?? {}).flatMap(([name, declared]) => {
    const field = declared as Schema;
    const path = prefix === '' ? name : `${prefix}.${name}`;
    const row: FieldRow = {
      path,
      type: typeOf(field),
      isRequired: schema.required?.includes(name) ?? false,
      limits: limitsOf(field),
      description: descriptionOf(field),
    };
    return [row, ...nestedIn(field, path, depth)];
  });
  return withoutRepetition(rows);
}

function nestedIn(field: Schema, path: string, depth: number): FieldRow[] {
  if (field.items) return nestedIn(field.items as Schema, `${path}[]`, depth);
  if (field.anyOf) return field.anyOf.flatMap((member) => nestedIn(member as Schema, path, depth));
  const [values] = Object.values(field.patternProperties ?? {});
  if (values) return nestedIn(values as Schema, `${path}.*`, depth);
  return membersOf(field, path, depth + 1);
}

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.anyOf) return [...new Set(schema.anyOf.map((member) => typeOf(member as Schema)))].join(' | ');
  if (schema.items) {
    const item = typeOf(schema.items as Schema);
    return `array of ${item}`;
  }
  return schema.type ?? 'any value';
}

const range = (least: number | undefined, most: number | undefined, unit: string): string[] => {
  const text = (value: number) => value.toLocaleString('en-US', { useGrouping: value >= 10_000 });
  if (least === undefined && most === undefined) return [];
  if (least === undefined) return [`at most ${text(most as number)}${unit}`];
  if (most === undefined) return [`at least ${text(least)}${unit}`];
  if (least === most) return [`exactly ${text(least)}${unit.replace(/s$/, '')}`];
  return [`${text(least)} to ${text(most)}${unit}`];
};

function limitsOf(declared: Schema): string {
  const members = (declared.anyOf ?? []) as readonly Schema[];
  const schema: Schema = { ...declared, ...declared[documentedLimits] };
  const oneOf = declared[documentedLimits]?.oneOf?.flatMap(({ required }) => required) ?? [];
  const own = [
    ...range(schema.minimum, schema.maximum, ''),
    ...(schema.exclusiveMinimum === undefined ? [] : [`more than ${schema.exclusiveMinimum}`]),
    ...range(schema.minLength, schema.maxLength, ' characters'),
    ...range(schema.minItems, schema.maxItems, ' items'),
    ...range(schema.minProperties, schema.maxProperties, ' fields'),
    ...(schema.format === undefined ? [] : [schema.format]),
    ...(schema.pattern === undefined ? [] : [schema.pattern === noNul ? 'no NUL' : `matches \`${schema.pattern}\``]),
    ...(oneOf.length > 0 ? [`exactly one of ${oneOf.map((name) => `\`${name}\``).join(', ')}`] : []),
    ...(schema.items
      ? [limitsOf(schema.items as Schema)].filter((text) => text !== '').map((text) => `each ${text}`)
      : []),
    ...members.map(limitsOf).filter((text) => text !== ''),
    ...(schema.default === undefined ? [] : [`default \`${JSON.stringify(schema.default)}\``]),
  ];
  return [...new Set(own)].join('; ');
}

/** Of the field, else of the only member of a union that has one; with the meanings of literals. */
function descriptionOf(schema: Schema): string {
  const members = (schema.anyOf ?? []) as readonly Schema[];
  const meanings = members.flatMap(({ const: value, description }) =>
    value === undefined || description === undefined ? [] : [`\`${String(value)}\`: ${description}`],
  );
  const inherited = members.find(({ const: value, description }) => value === undefined && description)?.description;
  return [schema.description ?? inherited ?? '', ...meanings].filter((text) => text !== '').join(' ');
}
