// What is said of a value that fits no member of a union: one message that names what is allowed, or what is wrong with the member
// that was meant, and nothing about the others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type TSchema, Type } from 'typebox';
import { categoriesWith } from '../../src/resources/index.ts';
import { Failure, type Violation } from '../../src/standard/failure.ts';
import { compileCheck, parametersOf } from '../../src/standard/parameters.ts';
import type { Schema } from '../../src/standard/schema/union_narrowing.ts';

function violations(schema: TSchema, value: unknown): readonly Violation[] {
  try {
    compileCheck(schema, 'body')(value);
  } catch (error) {
    assert.ok(error instanceof Failure, String(error));
    return (error.result as { violations: Violation[] }).violations;
  }
  return assert.fail(`${JSON.stringify(value)} was taken`);
}

const violationsOf = (schema: TSchema, value: unknown) =>
  violations(schema, value).map(({ pointer, rule, message }) => `${pointer} ${rule}: ${message}`);

const Mode = Type.Union([Type.Literal('append'), Type.Literal('replace'), Type.Literal('upsert')]);
const noOtherFields = { additionalProperties: false };
const Directory = Type.Object({ kind: Type.Literal('directory'), path: Type.String() }, noOtherFields);
const Store = Type.Object(
  { kind: Type.Literal('s3'), bucket: Type.String(), mode: Type.Optional(Mode) },
  noOtherFields,
);

test('the values of a union of literals are listed once', () => {
  const body = Type.Object({ mode: Mode, maybe: Type.Optional(Type.Union([Mode, Type.Null()])) });
  const modes = 'one of append, replace, upsert';
  for (const mode of ['upsrt', 1, null, {}, ['append'], JSON.rawJSON('1')])
    assert.deepEqual(violationsOf(body, { mode }), [`/mode enum: must be ${modes}`]);
  assert.deepEqual(violationsOf(body, {}), [`/mode required: is required: ${modes}`]);
  assert.deepEqual(violationsOf(body, { mode: 'append', maybe: 'no' }), [`/maybe enum: must be ${modes}, null`]);
  const signs = Type.Object({ sign: Type.Union([Type.Literal(','), Type.Literal('.')]), fixed: Type.Literal('x') });
  assert.deepEqual(violationsOf(signs, { sign: ';', fixed: 'y' }), [
    '/sign enum: must be one of ",", "."',
    '/fixed const: must be x',
  ]);
});

test('in lists and maps too', () => {
  const body = Type.Object({
    list: Type.Optional(Type.Array(Mode)),
    map: Type.Optional(Type.Record(Type.String(), Mode)),
  });
  const modes = 'must be one of append, replace, upsert';
  assert.deepEqual(violationsOf(body, { list: ['append', 'x'], map: { a: 'y', 'b/c': 'append' } }), [
    `/list/1 enum: ${modes}`,
    `/map/a enum: ${modes}`,
  ]);
});

test('a union of more literals than the validator reports is listed completely', () => {
  const names = Array.from({ length: 40 }, (_, i) => `n${i}`);
  const body = Type.Object({ name: Type.Union(names.map((name) => Type.Literal(name))), other: Type.Integer() });
  assert.deepEqual(violationsOf(body, { name: 'x', other: 'y' }), [
    `/name enum: must be one of ${names.join(', ')}`,
    '/other type: must be integer',
  ]);
});

test('of very many errors, some are reported', () => {
  const body = Type.Object(
    {
      list: Type.Optional(Type.Array(Type.Integer(), { maxItems: 1000 })),
      map: Type.Optional(Type.Record(Type.String(), Type.Integer(), { maxProperties: 1000 })),
    },
    noOtherFields,
  );
  const manyNames = (count: number) => Array.from({ length: count }, (_, i) => `n${i}`);
  const mapOf = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, 'x']));
  const integer = 'type: must be integer';
  assert.deepEqual(violationsOf(body, { list: [...Array(900).keys(), 'x'] }), [`/list/900 ${integer}`]);
  assert.deepEqual(
    violationsOf(body, { list: [0, ...manyNames(900)], map: mapOf(manyNames(900)) }),
    [...Array(8).keys()]
      .map((i) => `/list/${i + 1} ${integer}`)
      .concat(manyNames(8).map((name) => `/map/${name} ${integer}`)),
  );
  assert.deepEqual(violationsOf(body, { list: manyNames(1001), map: mapOf(manyNames(1001)) }), [
    '/list maxItems: must not have more than 1000 items',
    '/map maxProperties: must not have more than 1000 properties',
  ]);
  assert.deepEqual(
    violationsOf(body, mapOf(manyNames(1000))),
    manyNames(8).map((name) => `/${name} unknownField: is not a field of this API`),
  );
});

test('of other unions, the member with the type of the value is chosen', () => {
  const body = Type.Object({
    value: Type.Union([Type.String({ maxLength: 2 }), Type.Number(), Type.Array(Type.Boolean()), Type.Null()]),
  });
  assert.deepEqual(violationsOf(body, { value: 'abc' }), ['/value maxLength: must not have more than 2 characters']);
  assert.deepEqual(violationsOf(body, { value: [1] }), ['/value/0 type: must be boolean']);
  assert.deepEqual(violationsOf(body, { value: {} }), [
    '/value type: must be either string or number or array or null',
  ]);
});

test('one of several fields is named', () => {
  const fields = { url: Type.Optional(Type.String()), path: Type.Optional(Type.String()) };
  const exactlyOne = Type.Object(fields, { ...noOtherFields, minProperties: 1, maxProperties: 1 });
  const message = 'must have exactly one of url, path';
  assert.deepEqual(violationsOf(exactlyOne, {}), [` minProperties: ${message}`]);
  assert.deepEqual(violationsOf(exactlyOne, { url: '', path: '' }), [` maxProperties: ${message}`]);
});

test('every mismatch is reported', () => {
  const pieces = fc.constantFrom('append', 'directory', 's3', 'x', 1, null, true, JSON.rawJSON('1'));
  const keys = fc.constantFrom('to', 'mode', 'kind', 'path', 'bucket', 'list', '__proto__', 'a/b');
  const { value } = fc.letrec((recurse) => ({
    value: fc.oneof({ maxDepth: 4 }, pieces, fc.array(recurse('value')), fc.dictionary(keys, recurse('value'))),
  }));
  const Value = Type.Union([Directory, Store, Mode, Type.Array(Type.Union([Mode, Type.Integer(), Store]))]);
  const body = Type.Object({ to: Value, map: Type.Record(Type.String(), Type.Union([Value, Type.Null()])) });
  const check = compileCheck(body, 'body');
  fc.assert(
    fc.property(value, value, (to, map) => {
      try {
        check({ to, map: { map } });
      } catch (error) {
        assert.ok(error instanceof Failure, String(error));
        assert.notEqual((error.result as { violations: unknown[] }).violations.length, 0);
      }
    }),
  );
});

test('every union of literals that an endpoint accepts is reported once', () => {
  let fields = 0;
  for (const { name, endpoints } of categoriesWith({ rowsBodyBytesMax: 1 })) {
    for (const endpoint of endpoints) {
      const body = parametersOf(endpoint).body;
      for (const [field, schema] of Object.entries((body?.properties ?? {}) as Record<string, Schema>)) {
        const literals = schema.anyOf?.map((member) => member.const) ?? [];
        if (literals.length < 2 || literals.includes(undefined)) continue;
        fields++;
        const problems = violations(body as TSchema, { [field]: 'no such value' }).filter(
          ({ pointer }) => pointer === `/${field}`,
        );
        assert.equal(problems.length, 1, `${name} ${field}`);
        for (const literal of literals) assert.ok(problems[0]?.message.includes(String(literal)), name);
      }
    }
  }
  assert.ok(fields > 20, `${fields} fields`);
});
