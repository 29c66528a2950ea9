// A pattern with a hyphen made the search of columns a 500: it became a regular expression with an invalid escape. And a pattern
// with many wildcards would have kept the server busy for a very long time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { likePattern } from '../../../src/model/text_patterns.ts';
import { deadlineMs } from '../../deadline.ts';

test('the meaning of LIKE patterns', () => {
  const cases: readonly [pattern: string, text: string, fits: boolean][] = [
    ['', '', true],
    ['', 'a', false],
    ['%', '', true],
    ['a-b', 'A-B', true],
    ['a%', 'abc', true],
    ['%c', 'abc', true],
    ['%b', 'abc', false],
    ['a_c', 'abc', true],
    ['_', '😀', true],
    ['_', 'ab', false],
    ['a\\%', 'a%', true],
    ['a\\%', 'ab', false],
    ['\\_', '_', true],
    ['\\\\', '\\', true],
    ['a\\', 'a\\', true],
    ['%a%b%', 'xxaxxbxx', true],
    ['%a%b%', 'xxbxxaxx', false],
    ['.*', 'anything', false],
    ['[a]/(b)?', '[a]/(b)?', true],
  ];
  for (const [pattern, text, fits] of cases) assert.equal(likePattern(pattern)(text), fits, `${pattern} ~ ${text}`);
});

test('it agrees with a regular expression, and its time does not grow with the number of wildcards', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '%', '_', '-'), maxLength: 8 });
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '-'), maxLength: 10 });
  fc.assert(
    fc.property(letters, text, (pattern, name) => {
      const equivalent = new RegExp(`^${pattern.replaceAll('%', '.*').replaceAll('_', '.')}$`);
      assert.equal(likePattern(pattern)(name), equivalent.test(name));
    }),
  );
  const started = performance.now();
  assert.equal(likePattern(`${'%a'.repeat(200)}b`)('a'.repeat(128)), false);
  assert.ok(performance.now() - started < deadlineMs(1000));
});
