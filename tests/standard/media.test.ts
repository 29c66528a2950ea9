// Which Accept is satisfied by application/json, and which Content-Type is the declared one (rest-standard A4, B2).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Failure } from '../../src/standard/failure.ts';
import { acceptsJson, mediaTypeOf, requireMediaType } from '../../src/standard/media.ts';

const accepts: readonly [string | undefined, boolean][] = [
  [undefined, true],
  ['*/*', true],
  ['application/*', true],
  ['application/json', true],
  ['APPLICATION/JSON', true],
  ['application/json; charset=utf-8', true],
  ['application/json;charset="UTF-8"', true],
  ['application/json;q=0.001', true],
  ['application/json; q=1.000', true],
  ['text/html, application/json;q=0.5', true],
  ['text/html;q=1.0, */*;q=0.1', true],
  [',,application/json', true],
  ['text/html', false],
  ['application/json;q=0', false],
  ['application/json;q=0.000', false],
  ['*/*;q=0', false],
  ['*/*, application/json;q=0', false],
  ['*/*, application/*;q=0', false],
  ['application/*;q=1, application/json;q=0', false],
  ['application/json;charset=utf-8;q=0, text/html', false],
  ['application/json;charset=latin1', false],
  ['application/json;version=1', false],
  ['application/problem+json', false],
  ['application/json;q=2', false],
  ['application/json;q=abc', false],
  ['text/html;x="a,application/json"', false],
  ['json', false],
  ['', false],
];

test('Accept: the most specific range decides, and q=0 refuses', () => {
  for (const [header, expected] of accepts) assert.equal(acceptsJson(header), expected, JSON.stringify(header));
});

const types: readonly [string | undefined, string | undefined][] = [
  [undefined, undefined],
  ['application/json', 'application/json'],
  ['Application/JSON', 'application/json'],
  ['application/json; charset=utf-8', 'application/json'],
  ['application/json;charset="UTF-8"', 'application/json'],
  ['application/json; charset=utf8', 'application/json'],
  ['application/json;', 'application/json'],
  ['application/json; charset=latin1', undefined],
  ['application/json; charset=', undefined],
  ['application/sql', 'application/sql'],
];

test('Content-Type: compared case-insensitively, only in UTF-8', () => {
  for (const [header, expected] of types) assert.equal(mediaTypeOf(header), expected, JSON.stringify(header));
});

test('an undeclared Content-Type is refused, with the declared ones', () => {
  const declared = ['application/json', 'application/sql'];
  assert.equal(requireMediaType('application/sql; charset=utf-8', declared), 'application/sql');
  for (const header of [
    undefined,
    '',
    'text/plain',
    'application/merge-patch+json',
    'application/json, application/json',
    'application/json; charset=utf-16',
  ]) {
    assert.throws(
      () => requireMediaType(header, declared),
      (error: unknown) =>
        error instanceof Failure &&
        error.code === 'UNSUPPORTED_MEDIA_TYPE' &&
        declared.every((code) => error.message.includes(code)) &&
        JSON.stringify(error.result.supported) === JSON.stringify(declared),
      JSON.stringify(header),
    );
  }
});
