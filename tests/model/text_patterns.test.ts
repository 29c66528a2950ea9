// What searches find: LIKE patterns of names, and parts of texts, whatever the case of their letters.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { containing, likePattern } from '../../src/model/text_patterns.ts';

test('a pattern matches whole names', () => {
  for (const [pattern, matching, others] of [
    ['ord%', ['orders', 'ORD'], ['an order']],
    ['_b', ['ab', '\u{1F600}b'], ['b', 'aab']],
    ['a\\_b', ['a_b'], ['axb']],
    ['%a%b', ['ab', 'xaxbxb'], ['ba']],
    ['50\\%', ['50%'], ['500']],
    // A sigma has another form at the end of a word.
    ['ΑΣ%', ['ασβ', 'ΑΣ', 'ας'], ['αβ']],
    ['%ΑΣ', ['βας', 'ΒΑΣ'], ['βα']],
  ] as const) {
    const matches = likePattern(pattern);
    for (const name of matching) assert.equal(matches(name), true, `${pattern} ${name}`);
    for (const name of others) assert.equal(matches(name), false, `${pattern} ${name}`);
  }
});

test('a text contains a part, however long both are', () => {
  const long = 'ab'.repeat(400);
  for (const [part, text, expected] of [
    ['ΟΔΟΣ', 'η οδοσ', true],
    ['ΑΣ', 'ασβ', true],
    ['Ä', 'xäx', true],
    [`${long}c`, `${long}ab${long}C`, true],
    [`${long}c`, `${long}ab${long}d`, false],
    ['', '', true],
  ] as const)
    assert.equal(containing(part)(text), expected, `${part.slice(0, 10)} in ${text.slice(0, 10)}`);
});
