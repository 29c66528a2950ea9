// Our builders of schemas against TypeBox's own: the same JSON, and the same properties by which TypeBox recognises them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type as TypeBox } from 'typebox';
import { Type } from '../../src/standard/type.ts';

type Builders = typeof Type;

/** All own properties, those that JSON does not show included. */
function shown(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(Object.getOwnPropertyDescriptors(value));
  return Object.fromEntries(entries.map(([name, { enumerable, value: inner }]) => [name, [enumerable, shown(inner)]]));
}

const cases: Readonly<Record<keyof Builders, (from: Builders) => readonly unknown[]>> = {
  Array: (of) => [of.Array(of.String()), of.Array(of.String({ minLength: 1 }), { maxItems: 3, description: 'd' })],
  Boolean: (of) => [of.Boolean(), of.Boolean({ default: true })],
  Enum: (of) => [of.Enum(['a', 'b'], { type: 'string' })],
  Integer: (of) => [of.Integer(), of.Integer({ minimum: 1 })],
  Literal: (of) => [of.Literal('a'), of.Literal(true, { description: 'd' }), of.Literal(1)],
  Null: (of) => [of.Null()],
  Number: (of) => [of.Number(), of.Number({ maximum: 2.5 })],
  Object: (of) => [
    of.Object({}),
    of.Object({ a: of.String(), b: of.Optional(of.String()) }, { additionalProperties: false }),
    of.Object({ a: of.Optional(of.String()) }),
    of.Object({ a: of.Object({ b: of.Optional(of.Object({ c: of.String() })) }) }, { minProperties: 1 }),
  ],
  Optional: (of) => [of.Optional(of.String({ maxLength: 2 })), of.Optional(of.Optional(of.Array(of.String())))],
  Record: (of) => [
    of.Record(of.String(), of.Unknown()),
    of.Record(of.String(), of.String(), { maxProperties: 2, description: 'd' }),
  ],
  String: (of) => [of.String(), of.String({ pattern: '^a$', format: 'date-time' })],
  Union: (of) => [of.Union([of.Literal('a'), of.Null()]), of.Union([of.Literal('a')], { description: 'd' })],
  Unknown: (of) => [of.Unknown(), of.Unknown({ description: 'd' })],
};

for (const [name, build] of Object.entries(cases))
  test(`${name} builds what TypeBox builds`, () => {
    const theirs = build(TypeBox as unknown as Builders);
    assert.deepEqual(shown(build(Type)), shown(theirs));
    assert.equal(JSON.stringify(build(Type)), JSON.stringify(theirs));
  });

test('every builder is compared', () => {
  assert.deepEqual(Object.keys(cases).sort(), Object.keys(Type).sort());
});

test('Optional leaves its argument as it is', () => {
  const text = Type.String();
  Type.Optional(text);
  assert.deepEqual(Type.Object({ text }).required, ['text']);
});
