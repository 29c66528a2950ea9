// What a JSON schema says about the objects that it admits: the alternatives, each with its fields. Only what the rules ask; no validation.
import { child, children, elements, isObject, listOf, type Node, resolve } from './nodes.ts';

/** One alternative of a schema. */
export interface Shape {
  /** Empty: any type. */
  readonly types: ReadonlySet<string>;
  readonly fields: ReadonlyMap<string, Node>;
  readonly required: ReadonlySet<string>;
  /** Whether a part of the schema is outside the document, so that nothing can be said about what is missing. */
  readonly isPartlyUnknown: boolean;
}

const depthMax = 12;
/** Alternatives beyond this number are not checked. */
const shapesMax = 32;
const unknown: Shape = { types: new Set(), fields: new Map(), required: new Set(), isPartlyUnknown: true };

function typesOf({ type, properties, enum: values, const: constant }: Readonly<Record<string, unknown>>): Set<string> {
  const declared = typeof type === 'string' ? [type] : listOf(type).filter((each) => typeof each === 'string');
  if (declared.length > 0) return new Set(declared);
  if (isObject(properties)) return new Set(['object']);
  const constants = constant === undefined ? listOf(values) : [constant];
  return new Set(constants.map((each) => (each === null ? 'null' : Array.isArray(each) ? 'array' : typeof each)));
}

function merged(a: Shape, b: Shape): Shape {
  // Without Set.intersection, which the oldest Node.js that runs Spectral does not have.
  const both = [...a.types].filter((type) => b.types.has(type));
  const types = a.types.size === 0 ? b.types : b.types.size === 0 ? a.types : new Set(both);
  return {
    types,
    fields: mergedFields(a.fields, b.fields),
    required: new Set([...a.required, ...b.required]),
    isPartlyUnknown: a.isPartlyUnknown || b.isPartlyUnknown,
  };
}

/** A field that both parts of a composition describe has to match both. */
function mergedFields(a: Shape['fields'], b: Shape['fields']): Map<string, Node> {
  const fields = new Map(a);
  for (const [name, field] of b) {
    const other = a.get(name);
    fields.set(name, other ? { value: { allOf: [other.value, field.value] }, at: other.at } : field);
  }
  return fields;
}

/** Schemas are read many times: each response has the envelope. */
const known = new WeakMap<object, readonly Shape[]>();

/** The alternatives of a schema, with its compositions and references. At least one. */
export function shapesOf(root: Node, schema: Node | undefined, depth = 0): readonly Shape[] {
  const resolved = resolve(root, schema);
  if (!resolved || depth > depthMax) return [unknown];
  if (!isObject(resolved.value)) return [{ ...unknown, isPartlyUnknown: false }];
  const found = known.get(resolved.value) ?? readShapes(root, resolved, depth);
  known.set(resolved.value, found);
  return found;
}

function readShapes(root: Node, resolved: Node, depth: number): readonly Shape[] {
  if (!isObject(resolved.value)) return [unknown];
  const { required, nullable } = resolved.value;
  const types = typesOf(resolved.value);
  if (nullable === true && types.size > 0) types.add('null');
  const properties = child(resolved, 'properties');
  const own: Shape = {
    types,
    fields: new Map(properties ? children(properties).map((field) => [field.key, field]) : []),
    required: new Set(listOf(required).filter((name) => typeof name === 'string')),
    isPartlyUnknown: false,
  };
  const alternatives = (key: string): (readonly Shape[])[] => {
    const list = child(resolved, key);
    const parts = list ? elements(list).map((part) => shapesOf(root, part, depth + 1)) : [];
    return key === 'allOf' || parts.length === 0 ? parts : [parts.flat()];
  };
  const factors = ['allOf', 'oneOf', 'anyOf'].flatMap(alternatives);
  return factors.reduce<readonly Shape[]>(
    (shapes, factor) => shapes.flatMap((shape) => factor.map((other) => merged(shape, other))).slice(0, shapesMax),
    [own],
  );
}

/** Whether every value that an alternative admits is of this type. */
export const isOnly = ({ types, isPartlyUnknown }: Shape, type: string): boolean =>
  types.size === 0 ? isPartlyUnknown : [...types].every((each) => each === type);
