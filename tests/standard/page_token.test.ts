// Page tokens: opaque, signed, and good for the collection alone that handed them out (rest-standard B3).
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { readPageToken, signPageToken } from '../../src/standard/page_token.ts';

const key = randomBytes(32);
const assertInvalidToken = (read: () => unknown) => assert.throws(read, { code: 'INVALID_PAGE_TOKEN' });

test('a token returns the key that it was created for, whatever the name', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 128 }), fc.string(), (after, scope) => {
      if (!after.isWellFormed()) return;
      const token = signPageToken(key, scope, after);
      assert.match(token, /^[A-Za-z0-9_-]+$/, 'fit for a URI as it is');
      assert.equal(readPageToken(key, scope, token), after);
    }),
  );
});

test('a token of another collection or another key, or with any changed byte, is refused', () => {
  const token = signPageToken(key, 'tables /api/v2/a', 'orders');
  assertInvalidToken(() => readPageToken(key, 'tables /api/v2/b', token));
  assertInvalidToken(() => readPageToken(randomBytes(32), 'tables /api/v2/a', token));
  const bytes = Buffer.from(token, 'base64url');
  for (let i = 0; i < bytes.length; i++) {
    const changedBytes = Buffer.from(bytes);
    changedBytes[i] = (changedBytes[i] as number) ^ 1;
    assertInvalidToken(() => readPageToken(key, 'tables /api/v2/a', changedBytes.toString('base64url')));
  }
});

test('a malformed token is refused', () => {
  for (const text of ['', 'x', 'AAAA', '%', 'ä', 'a b', 'A'.repeat(22), 'A'.repeat(5000), '=', '../..'])
    assertInvalidToken(() => readPageToken(key, 'scope', text));
});
