// Converts declared schemas to those of the document, in the form that generators of clients understand best: enumerations instead of
// unions of literals, lists of types instead of unions with null, `additionalProperties` instead of patterns. A schema with a `title`
// becomes a component of that name.
import { documentedLimits } from '../documented_limits.ts';
import { objectName, objectNameLimits } from '../object_name.ts';
import type { TSchema } from '../type.ts';
import type { Components, Json, OpenApiOptions } from './components.ts';

interface Declared {
  readonly title?: string;
  readonly type?: string;
  readonly const?: unknown;
  readonly maximum?: number;
  readonly enum?: readonly unknown[];
  readonly description?: string;
  readonly default?: unknown;
  readonly anyOf?: readonly TSchema[];
  readonly items?: TSchema;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly patternProperties?: Readonly<Record<string, TSchema>>;
  readonly [documentedLimits]?: Json;
}

export class Schemas {
  readonly #components: Components;
  readonly #forClients: boolean;
  /** Schemas are shared between declarations. */
  readonly #converted = new Map<TSchema, Json>();

  constructor(components: Components, { forClients }: OpenApiOptions) {
    this.#components = components;
    this.#forClients = forClients;
  }

  /** The schema, or a reference to it if it has a title. */
  describe(schema: TSchema): Json {
    const { title, description, [documentedLimits]: limits } = schema as Declared;
    if (limits === objectNameLimits && !this.#forClients)
      return { ...this.#objectName(), ...(description === undefined ? {} : { description }) };
    return title === undefined ? this.inline(schema) : this.named(title, schema);
  }

  /** The most frequent schema; generators of clients make a type of it, for nothing. */
  #objectName(): Json {
    return this.#components.add('schemas', 'ObjectName', this.inline(objectName()));
  }

  /** A reference to the component of this name. `whole`: the component that has the same fields and others. */
  named(name: string, schema: TSchema, more: Json = {}, whole?: string): Json {
    const described = this.inline(schema);
    return this.#components.add('schemas', name, {
      ...described,
      ...(whole === undefined ? {} : fieldsOf(described, whole)),
      ...more,
    });
  }

  /** The schema itself, whose parts can be references. */
  inline(schema: TSchema): Json {
    const known = this.#converted.get(schema);
    if (known) return known;
    const converted = this.#convert(schema as Declared);
    this.#converted.set(schema, converted);
    return converted;
  }

  #convert(declared: Declared): Json {
    const {
      title: _,
      anyOf,
      items,
      properties,
      patternProperties,
      [documentedLimits]: limits,
      ...checked
    } = describedDefault(declared);
    const rest = { ...checked, ...this.#documented(limits), ...formatOf(checked) };
    if (anyOf) return { ...this.#union(flatten(anyOf)), ...describedMembers(anyOf, rest) };
    if (rest.const !== undefined) return { ...rest, type: typeof rest.const };
    if (rest.enum) return { ...rest, type: typeof rest.enum[0] };
    const [values] = Object.values(patternProperties ?? {});
    const fields = Object.entries(properties ?? {}).map(([name, field]) => [name, this.describe(field)]);
    return {
      ...rest,
      ...(items ? { items: this.describe(items) } : {}),
      ...(fields.length > 0 ? { properties: Object.fromEntries(fields) } : {}),
      ...(values ? { additionalProperties: this.#additional(values) } : {}),
    };
  }

  /** Generators of clients make a union of the alternatives of an object, whose members have no fields. */
  #documented({ oneOf, ...limits }: Json = {}): Json {
    return this.#forClients || oneOf === undefined ? limits : { ...limits, oneOf };
  }

  /** Objects stay alternatives, also to null: generators lose the null of an object that is not a component. */
  #union(members: readonly TSchema[]): Json {
    const objects = members.filter((member) => (member as Declared).properties) as Declared[];
    const untitled = objects.find(({ title }) => title === undefined);
    if (untitled) throw new Error(`an object in a union has no title: ${JSON.stringify(untitled)}`);
    if (objects.length > 0) return { anyOf: members.map((member) => this.describe(member)) };
    return unite(members.map((member) => this.inline(member)));
  }

  #additional(values: TSchema): Json | true {
    const described = this.describe(values);
    return Object.keys(described).length > 0 ? described : true;
  }
}

/** The fields of an object as references to those of a component, where these are shorter. */
function fieldsOf({ properties = {} }: { readonly properties?: Json }, component: string): Json {
  const fields = Object.entries(properties).map(([name, field]) => {
    const reference = { $ref: `#/components/schemas/${component}/properties/${name}` };
    return [name, JSON.stringify(field).length > JSON.stringify(reference).length ? reference : field] as const;
  });
  return fields.length === 0 ? {} : { properties: Object.fromEntries(fields) };
}

/**
 * A default as a sentence: from the keyword, generators make fields mandatory, or clients that always send the default, also where
 * another field excludes it.
 */
function describedDefault({ default: value, ...rest }: Declared): Declared {
  if (value === undefined) return rest;
  const sentence = `Default: \`${JSON.stringify(value)}\`.`;
  return { ...rest, description: rest.description === undefined ? sentence : `${rest.description} ${sentence}` };
}

const int32Max = 2 ** 31 - 1;

/** Without a format, generators for languages with static types use 32 bits. */
const formatOf = ({ type, maximum = Number.POSITIVE_INFINITY }: Declared): Json =>
  type === 'integer' && maximum > int32Max ? { format: 'int64' } : {};

const flatten = (members: readonly TSchema[]): readonly TSchema[] =>
  members.flatMap((member) => {
    const { anyOf } = member as Declared;
    return anyOf ? flatten(anyOf) : [member];
  });

/** One schema for members of different types, or for literals of one type, each also with null. */
function unite(members: readonly Json[]): Json {
  const isNullable = members.some(({ type }) => type === 'null');
  const others = members.filter(({ type }) => type !== 'null');
  const types = [...new Set(others.map(({ type }) => type as string))];
  const type = isNullable ? [...types, 'null'] : types;
  const single = type.length === 1 ? type[0] : type;
  if (others.every((member) => member.const !== undefined)) {
    const values = others.map((member) => member.const);
    return { type: single, enum: isNullable ? [...values, null] : values };
  }
  const [only] = others;
  if (others.length === 1 && only)
    return {
      ...only,
      type: single,
      ...(isNullable && only.enum ? { enum: [...(only.enum as unknown[]), null] } : {}),
    };
  if (types.length !== others.length) throw new Error(`a union of one type: ${JSON.stringify(members)}`);
  return { ...Object.assign({}, ...others), type: single };
}

/** The keywords of a union, with what its literals mean. */
function describedMembers(members: readonly TSchema[], { description = '', ...rest }: Declared): Json {
  const meanings = members.flatMap((member) => {
    const { const: value, description: meaning } = member as Declared;
    return value === undefined || meaning === undefined ? [] : [`\`${value}\`: ${meaning}`];
  });
  const text = [description, ...meanings].filter((sentence) => sentence !== '').join(' ');
  return text === '' ? rest : { ...rest, description: text };
}
