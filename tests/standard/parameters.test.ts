// Bodies and queries against their declaration: one code for each way to be wrong, and a JSON pointer to the place
// (rest-standard A5, B2).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type TObject, Type } from 'typebox';
import { camelCase } from '../../src/standard/camel_case.ts';
import type { Endpoint } from '../../src/standard/endpoint.ts';
import { Failure } from '../../src/standard/failure.ts';
import { parametersOf, readQuery } from '../../src/standard/parameters.ts';

const endpoint = (declared: Partial<Endpoint>): Endpoint => ({
  verb: 'action',
  on: 'object',
  summary: '',
  permission: { privilege: 'read', on: 'object' },
  codes: [],
  since: 'v2',
  handle: async () => ({ outcome: 'deleted', deleted: true }),
  ...declared,
});

const Body = Type.Object(
  {
    text: Type.Optional(Type.Union([Type.String({ maxLength: 3 }), Type.Null()])),
    count: Type.Optional(Type.Integer({ minimum: 1 })),
    inner: Type.Optional(Type.Object({ 'a/b': Type.Boolean() }, { additionalProperties: false })),
    any: Type.Optional(Type.Unknown()),
    map: Type.Optional(Type.Record(Type.String(), Type.String(), { maxProperties: 2 })),
  },
  { additionalProperties: false },
);

function fault(check: (value: unknown) => void, value: unknown): [code: string, ...pointers: string[]] {
  try {
    check(value);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { violations } = error.result as { violations: { pointer: string; rule: string; message: string }[] };
    for (const violation of violations)
      assert.ok(violation.rule !== '' && violation.message !== '', JSON.stringify(violation));
    return [error.code, ...violations.map((violation) => violation.pointer)];
  }
  return assert.fail(`${JSON.stringify(value)} was accepted`);
}

test('a valid body is accepted', () => {
  const { checkBody } = parametersOf(endpoint({ body: Body }));
  for (const value of [
    {},
    { text: null },
    { text: 'abc', count: 1, inner: { 'a/b': true }, any: [[1]], map: { a: '' } },
  ])
    checkBody?.(value);
});

test('errors are reported by code and pointer', () => {
  const check = parametersOf(endpoint({ body: Body })).checkBody as (value: unknown) => void;
  assert.deepEqual(fault(check, { no: 1 }), ['UNKNOWN_FIELD', '/no']);
  assert.deepEqual(fault(check, { no: 1, 'a~/b': 2 }), ['UNKNOWN_FIELD', '/no', '/a~0~1b']);
  assert.deepEqual(fault(check, JSON.parse('{"__proto__":{}}')), ['UNKNOWN_FIELD', '/__proto__']);
  assert.deepEqual(fault(check, JSON.parse('{"constructor":{}}')), ['UNKNOWN_FIELD', '/constructor']);
  assert.deepEqual(fault(check, { count: 0 }), ['INVALID_PARAMETER', '/count']);
  assert.deepEqual(fault(check, { count: '1' })[0], 'INVALID_PARAMETER');
  assert.deepEqual(fault(check, { count: 1.5 })[0], 'INVALID_PARAMETER');
  assert.deepEqual(fault(check, { count: JSON.rawJSON('123456789012345678901') })[0], 'INVALID_PARAMETER');
  assert.deepEqual(fault(check, { count: null }), ['INVALID_PARAMETER', '/count']);
  assert.deepEqual(fault(check, { count: 0, no: 1 })[0], 'INVALID_PARAMETER', 'more than unknown fields is wrong');
  assert.ok(fault(check, { text: 'abcd' }).includes('/text'));
  assert.ok(fault(check, { inner: {} }).includes('/inner/a~1b'));
  assert.ok(fault(check, { inner: { 'a/b': true, x: 1 } }).includes('/inner/x'));
  assert.ok(fault(check, { map: { a: 1 } }).includes('/map/a'));
  assert.ok(fault(check, { map: { a: '', b: '', c: '' } }).includes('/map'));
});

test('no value makes a check throw anything but a Failure', () => {
  const check = parametersOf(endpoint({ body: Body })).checkBody as (value: unknown) => void;
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom('text', 'count', 'inner', 'any', 'map', 'x'), fc.jsonValue()),
      (value) => {
        try {
          check(value);
        } catch (error) {
          assert.ok(error instanceof Failure, String(error));
        }
      },
    ),
  );
});

test('a create has its name in the body or in the path', () => {
  const { checkBody, checkBodyWithoutName } = parametersOf(endpoint({ verb: 'create', on: 'collection', body: Body }));
  assert.deepEqual(fault(checkBody as never, {}), ['INVALID_PARAMETER', '/name']);
  checkBody?.({ name: 'a' });
  checkBodyWithoutName?.({});
  checkBodyWithoutName?.({ name: 'the path wins' });
  assert.ok(fault(checkBodyWithoutName as never, { name: 1 }).includes('/name'), 'wrong is wrong all the same');
  const byId = parametersOf(endpoint({ verb: 'create', on: 'collection', body: Body, nameField: 'id' }));
  assert.deepEqual(fault(byId.checkBody as never, {}), ['INVALID_PARAMETER', '/id']);
  byId.checkBodyWithoutName?.({});
  const unnamedParameters = parametersOf(endpoint({ verb: 'create', on: 'collection', body: Body, named: false }));
  assert.deepEqual(fault(unnamedParameters.checkBody as never, { name: 'a' }), ['UNKNOWN_FIELD', '/name']);
});

const Query = Type.Object(
  {
    cascade: Type.Optional(Type.Boolean()),
    waitSeconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 60 })),
  },
  { additionalProperties: false },
) as TObject;

test('query parameters are typed, declared and not repeated', () => {
  const parameters = parametersOf(endpoint({ verb: 'get', query: Query }));
  assert.deepEqual(readQuery('', parameters), {});
  assert.deepEqual(readQuery('cascade=true&waitSeconds=5', parameters), { cascade: true, waitSeconds: 5 });
  assert.deepEqual(readQuery('%63ascade=false', parameters), { cascade: false });
  const refused: Record<string, string> = {
    'x=1': 'UNKNOWN_QUERY_PARAMETER',
    '__proto__=1': 'UNKNOWN_QUERY_PARAMETER',
    'Cascade=true': 'UNKNOWN_QUERY_PARAMETER',
    '=1': 'UNKNOWN_QUERY_PARAMETER',
    'cascade=true&cascade=true': 'REPEATED_QUERY_PARAMETER',
    'cascade=yes': 'INVALID_PARAMETER',
    'cascade=': 'INVALID_PARAMETER',
    cascade: 'INVALID_PARAMETER',
    'waitSeconds=61': 'INVALID_PARAMETER',
    'waitSeconds=-1': 'INVALID_PARAMETER',
    'waitSeconds=1.5': 'INVALID_PARAMETER',
    'waitSeconds=1e1': 'INVALID_PARAMETER',
    'waitSeconds=99999999999999999999': 'INVALID_PARAMETER',
    'waitSeconds=%2B1': 'INVALID_PARAMETER',
    'waitSeconds=5%00': 'INVALID_PARAMETER',
  };
  for (const [text, code] of Object.entries(refused)) assert.throws(() => readQuery(text, parameters), { code }, text);
});

test('an endpoint with a body accepts no query, and one without parameters none at all', () => {
  assert.throws(() => readQuery('x=1', parametersOf(endpoint({ body: Body }))), { code: 'BODY_AND_QUERY' });
  assert.throws(() => readQuery('x=1', parametersOf(endpoint({ verb: 'get' }))), { code: 'UNKNOWN_QUERY_PARAMETER' });
});

test('every list has its two query parameters', () => {
  const parameters = parametersOf(endpoint({ verb: 'list', on: 'collection' }));
  assert.deepEqual(readQuery('pageSize=1000&pageToken=x', parameters), { pageSize: 1000, pageToken: 'x' });
  for (const text of ['pageSize=0', 'pageSize=1001', 'pageSize=a', `pageToken=${'x'.repeat(4097)}`])
    assert.throws(() => readQuery(text, parameters), { code: 'INVALID_PARAMETER' }, text.slice(0, 30));
});

test('categories in camelCase', () => {
  assert.equal(camelCase('tables'), 'tables');
  assert.equal(camelCase('row_access_policies'), 'rowAccessPolicies');
});
