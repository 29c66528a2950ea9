// Removes fields that a schema declares `writeOnly`: callers send them, but responses never include them.
import type { TSchema } from '../type.ts';

interface Shape {
  readonly writeOnly?: boolean;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly items?: TSchema;
  readonly anyOf?: readonly TSchema[];
}

/** A value of the schema without its write-only fields. */
export function withoutWriteOnly(value: unknown, schema: TSchema | undefined): unknown {
  if (typeof value !== 'object' || value === null || schema === undefined) return value;
  if (!Array.isArray(value)) return readableFields(value, schema);
  const items = shapesOf(schema).find((shape) => shape.items !== undefined)?.items;
  return value.map((item) => withoutWriteOnly(item, items));
}

/** The fields of an object of the schema without the write-only ones. */
export function readableFields(value: object, schema: TSchema | undefined): Record<string, unknown> {
  const shapes = schema === undefined ? [] : shapesOf(schema);
  const readable: Record<string, unknown> = {};
  for (const [key, inner] of Object.entries(value)) {
    const schemas = shapes.flatMap(({ properties }) =>
      properties && Object.hasOwn(properties, key) ? properties[key] : [],
    );
    if (schemas.some((candidate) => (candidate as Shape).writeOnly)) continue;
    readable[key] = schemas.reduce<unknown>((remaining, schema) => withoutWriteOnly(remaining, schema), inner);
  }
  return readable;
}

/** The schema, or the alternatives of a union. */
function shapesOf(schema: TSchema): readonly Shape[] {
  const shape = schema as Shape;
  return shape.anyOf ? shape.anyOf.flatMap(shapesOf) : [shape];
}
