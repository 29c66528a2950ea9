// A body that was nested a hundred thousand levels deep and contained a number with an exponent overflowed the stack of the parser: a
// 500. The depth is checked before the text is parsed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJson } from '../../../src/standard/json/parse_json.ts';

test('deeply nested text with a number that a double cannot hold is refused without a stack overflow', () => {
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const) {
    const text = open.repeat(200_000) + '1e5' + close.repeat(200_000);
    assert.throws(() => parseJson(text), { code: 'MALFORMED_JSON' });
  }
});

test('the position of an error after much white space is exact', () => {
  const fault = (text: string) => {
    try {
      return parseJson(text);
    } catch (error) {
      return (error as { result: object }).result;
    }
  };
  assert.deepEqual(fault(`[${' '.repeat(100_000)}x`), { line: 1, column: 100_002 });
});
