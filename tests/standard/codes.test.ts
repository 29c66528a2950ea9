// The table of codes: a closed set of statuses, a word for the client in each, and nothing that is not in the table
// (rest-standard A4, B2). That docs/codes.md is the table's own page is checked too.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { type Code, codes } from '../../src/standard/codes.ts';
import { failureResponse } from '../../src/standard/envelope.ts';
import { Failure, outcomeOf, violationsFailure, violationsMax, withOutcome } from '../../src/standard/failure.ts';

const names = Object.keys(codes) as Code[];

test('every code is UPPER_SNAKE_CASE, has a failure status of the closed set, and advises the client', () => {
  for (const name of names) {
    const { status, meaning, client } = codes[name];
    assert.match(name, /^[A-Z]+(_[A-Z]+)*$/);
    assert.ok([400, 401, 403, 404, 405, 406, 415, 500, 503].includes(status), name);
    for (const sentence of [meaning, client]) assert.match(sentence, /^\S.*\.$/, `${name}: a sentence`);
  }
});

test('every 503 has a Retry-After, and no other status does', () => {
  for (const name of names) {
    const { status, retryAfterSeconds } = codes[name] as { status: number; retryAfterSeconds?: number };
    assert.equal(retryAfterSeconds !== undefined, status === 503, name);
    const { headers } = failureResponse(new Failure(name, 'text', name === 'METHOD_NOT_ALLOWED' ? { allow: [] } : {}));
    assert.equal(headers['Retry-After'] !== undefined, status === 503, name);
    assert.equal(headers['WWW-Authenticate'] !== undefined, status === 401, name);
    assert.equal(headers.Allow !== undefined, status === 405, name);
  }
});

test('every 5xx has an outcome, its own or that of its code, and no other status has one', () => {
  for (const name of names) {
    const { status } = codes[name];
    const response = (failure: Failure) => {
      const { result } = JSON.parse(failureResponse(failure).body.join('')) as { result: { outcome?: string } };
      return result.outcome;
    };
    const result = name === 'METHOD_NOT_ALLOWED' ? { allow: [] } : {};
    const plain = new Failure(name, 'text', result);
    assert.equal(response(plain), outcomeOf(plain));
    assert.equal(outcomeOf(plain) !== undefined, status >= 500, name);
    for (const outcome of ['notApplied', 'unknown'] as const)
      assert.equal(response(withOutcome(plain, outcome) as Failure), status >= 500 ? outcome : undefined, name);
  }
});

test('a failure can have its own Retry-After, in whole seconds', () => {
  const failure = new Failure('WAREHOUSE_BUSY', 'text', {}, { retryAfterSeconds: 1.2 });
  assert.equal(failureResponse(failure).headers['Retry-After'], '2');
});

test('the envelope of a failure has exactly three keys', () => {
  const failure = new Failure('SQL_INVALID', 'a "quoted" text\n', { line: 1 }, { cause: new Error('secret') });
  const body = JSON.parse(failureResponse(failure).body.join('')) as object;
  assert.deepEqual(body, { code: 'SQL_INVALID', message: 'a "quoted" text\n', result: { line: 1 } });
});

test('violations are listed up to a limit, and counted beyond it', () => {
  const violation = { pointer: '/a', rule: 'type', message: 'must be a number' };
  assert.deepEqual(violationsFailure('INVALID_PARAMETER', 'm', [violation]).result, { violations: [violation] });
  const { violations, violationCount } = violationsFailure(
    'INVALID_PARAMETER',
    'm',
    Array(violationsMax + 5).fill(violation),
  ).result;
  assert.equal((violations as unknown[]).length, violationsMax);
  assert.equal(violationCount, violationsMax + 5);
});

test('docs/codes.md lists every code, and no other', async () => {
  const page = await readFile(new URL('../../docs/codes.md', import.meta.url), 'utf8');
  const documented = [...page.matchAll(/^\|? ?`([A-Z_]+)`/gm)].map(([, name]) => name as string);
  assert.deepEqual(documented.sort(), [...names].sort(), 'run: npm run generate');
});
