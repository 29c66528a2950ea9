// What a caller sends and nobody is shown again: fields that a schema calls `writeOnly`.
import type { TSchema } from './type.ts';

interface Shape {
  readonly writeOnly?: boolean;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly items?: TSchema;
  readonly anyOf?: readonly TSchema[];
}

/** A value that fits the schema, without what is only written. */
export function withoutWriteOnly(value: unknown, schema: TSchema | undefined): unknown {
  if (typeof value !== 'object' || value === null || schema === undefined) return value;
  const shapes = shapesOf(schema);
  if (Array.isArray(value)) {
    const items = shapes.find((shape) => shape.items !== undefined)?.items;
    return value.map((one) => withoutWriteOnly(one, items));
  }
  const shown: Record<string, unknown> = {};
  for (const [key, inner] of Object.entries(value)) {
    const schemas = shapes.flatMap(({ properties }) =>
      properties && Object.hasOwn(properties, key) ? properties[key] : [],
    );
    if (schemas.some((one) => (one as Shape).writeOnly)) continue;
    shown[key] = schemas.reduce<unknown>((left, one) => withoutWriteOnly(left, one), inner);
  }
  return shown;
}

/** The schema, or the alternatives of a union. */
function shapesOf(schema: TSchema): readonly Shape[] {
  const shape = schema as Shape;
  return shape.anyOf ? shape.anyOf.flatMap(shapesOf) : [shape];
}
