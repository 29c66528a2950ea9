// The merge patch: members of objects and maps at any depth, null, what is replaced as a whole, and the limits of the result.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mapPatchOf, mergePatch, patchOf } from '../../src/standard/schema/merge_patch.ts';
import { type Static, strictObject, Type } from '../../src/standard/type.ts';

const Place = strictObject(
  { city: Type.String(), street: Type.Optional(Type.String()), tags: Type.Optional(Type.Array(Type.String())) },
  { title: 'Place' },
);
const Labels = Type.Record(Type.String(), Type.String(), { maxProperties: 3 });
const whole = Type.Object({
  comment: Type.Optional(Type.String()),
  place: Type.Optional(Place),
  places: Type.Optional(Type.Record(Type.String(), Place)),
  labels: Type.Optional(Type.Union([Labels, Type.Null()])),
  chart: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  values: Type.Optional(Type.Union([Type.Array(Type.Unknown()), Type.Record(Type.String(), Type.Unknown())])),
});
type Whole = Static<typeof whole>;
const before: Whole = {
  comment: 'old',
  place: { city: 'Bonn', street: 'Markt', tags: ['a', 'b'] },
  places: { home: { city: 'Ulm' } },
  labels: { a: '1', b: '2' },
  chart: { type: 'bar', x: 'a' },
  values: { from: 1, to: 2 },
};

const cases: readonly [string, Parameters<typeof mergePatch<Whole>>[2], Whole][] = [
  ['nothing', {}, before],
  ['an undefined field', { comment: undefined }, before],
  ['a member of an object', { place: { city: 'Kiel' } }, { ...before, place: { ...before.place, city: 'Kiel' } }],
  ['an optional member', { place: { street: null, tags: ['c'] } }, { ...before, place: { city: 'Bonn', tags: ['c'] } }],
  ['an entry of a map', { labels: { b: null, c: '3' } }, { ...before, labels: { a: '1', c: '3' } }],
  [
    'an object in a map',
    { places: { home: { street: 'Hof' }, work: { city: 'Jena' } } },
    { ...before, places: { home: { city: 'Ulm', street: 'Hof' }, work: { city: 'Jena' } } },
  ],
  ['free JSON, in which null is a value', { values: { to: null } }, { ...before, values: { to: null } }],
  ['an array in place of an object', { values: [1] }, { ...before, values: [1] }],
];
for (const [name, change, after] of cases)
  test(`a merge patch of ${name}`, () => assert.deepEqual(mergePatch<Whole>(whole, before, change), after));

test('null removes a field', () => {
  const after = mergePatch<Whole>(whole, before, { comment: null, labels: null, place: null, chart: null });
  assert.deepEqual(after, { places: before.places, values: before.values });
});

test('a name that objects inherit is a name like others', () => {
  const change = JSON.parse('{"labels": {"__proto__": "x", "toString": null}}');
  const { labels } = mergePatch<Whole>(whole, before, change);
  assert.deepEqual(Object.entries(labels ?? {}), [...Object.entries(before.labels ?? {}), ['__proto__', 'x']]);
});

test('the result has the required members and keeps the limits of its objects', () => {
  const refused = (change: object, pointer: string, rule: string) =>
    assert.throws(
      () => mergePatch<Whole>(whole, before, change),
      ({ result }: { result: { violations: object[] } }) => {
        assert.partialDeepStrictEqual(result.violations, [{ pointer, rule }]);
        return true;
      },
    );
  refused({ places: { 'a/b': { street: 'Hof' } } }, '/places/a~1b/city', 'required');
  refused({ labels: { c: '3', d: '4' } }, '/labels', 'maxProperties');
});

test('the schema of a change requires no member, and admits null for optional ones', () => {
  const text = { type: 'string' };
  const orNull = (schema: object) => ({ anyOf: [schema, { type: 'null' }] });
  assert.deepEqual(patchOf(Place), {
    type: 'object',
    title: 'PlacePatch',
    additionalProperties: false,
    properties: { city: text, street: orNull(text), tags: orNull({ type: 'array', items: text }) },
  });
  assert.deepEqual(mapPatchOf(Labels), {
    type: 'object',
    maxProperties: 3,
    patternProperties: { '^.*$': orNull(text) },
  });
});
