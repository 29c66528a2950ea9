// Our builders of schemas against TypeBox's own: the same JSON, and the same properties by which TypeBox recognises them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type as TypeBox } from 'typebox';
import { Type } from '../../src/standard/type.ts';

type Builders = typeof Type;

/** All own properties, those that JSON does not show included. */
function comparable(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(Object.getOwnPropertyDescriptors(value));
  return Object.fromEntries(
    entries.map(([name, { enumerable, value: inner }]) => [name, [enumerable, comparable(inner)]]),
  );
}

const cases: Readonly<Record<keyof Builders, (from: Builders) => readonly unknown[]>> = {
  Array: (builders) => [
    builders.Array(builders.String()),
    builders.Array(builders.String({ minLength: 1 }), { maxItems: 3, description: 'd' }),
  ],
  Boolean: (builders) => [builders.Boolean(), builders.Boolean({ default: true })],
  Enum: (builders) => [builders.Enum(['a', 'b'], { type: 'string' })],
  Integer: (builders) => [builders.Integer(), builders.Integer({ minimum: 1 })],
  Literal: (builders) => [builders.Literal('a'), builders.Literal(true, { description: 'd' }), builders.Literal(1)],
  Null: (builders) => [builders.Null()],
  Number: (builders) => [builders.Number(), builders.Number({ maximum: 2.5 })],
  Object: (builders) => [
    builders.Object({}),
    builders.Object({ a: builders.String(), b: builders.Optional(builders.String()) }, { additionalProperties: false }),
    builders.Object({ a: builders.Optional(builders.String()) }),
    builders.Object(
      { a: builders.Object({ b: builders.Optional(builders.Object({ c: builders.String() })) }) },
      { minProperties: 1 },
    ),
  ],
  Optional: (builders) => [
    builders.Optional(builders.String({ maxLength: 2 })),
    builders.Optional(builders.Optional(builders.Array(builders.String()))),
  ],
  Record: (builders) => [
    builders.Record(builders.String(), builders.Unknown()),
    builders.Record(builders.String(), builders.String(), { maxProperties: 2, description: 'd' }),
  ],
  String: (builders) => [builders.String(), builders.String({ pattern: '^a$', format: 'date-time' })],
  Union: (builders) => [
    builders.Union([builders.Literal('a'), builders.Null()]),
    builders.Union([builders.Literal('a')], { description: 'd' }),
  ],
  Unknown: (builders) => [builders.Unknown(), builders.Unknown({ description: 'd' })],
};

for (const [name, build] of Object.entries(cases))
  test(`${name} builds what TypeBox builds`, () => {
    const typeBoxSchemas = build(TypeBox as unknown as Builders);
    assert.deepEqual(comparable(build(Type)), comparable(typeBoxSchemas));
    assert.equal(JSON.stringify(build(Type)), JSON.stringify(typeBoxSchemas));
  });

test('every builder is compared', () => {
  assert.deepEqual(Object.keys(cases).sort(), Object.keys(Type).sort());
});

test('Optional leaves its argument as it is', () => {
  const text = Type.String();
  Type.Optional(text);
  assert.deepEqual(Type.Object({ text }).required, ['text']);
});
