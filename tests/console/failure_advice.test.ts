// The advice of the console about failures: in words of its users, without fields of the API.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { userAdvice } from '../../console/src/ui/failure_advice.ts';
import { codes } from '../../src/standard/codes.ts';

describe('the advice about a failure', () => {
  it('names no field of a result, for any code', () => {
    for (const code of Object.keys(codes))
      assert.doesNotMatch(userAdvice(code, {}) ?? 'result', /`?\bresult[`.]|`result`/, code);
  });

  it('says the values of the result', () => {
    assert.equal(
      userAdvice('OBJECT_NOT_FOUND', { category: 'tables', name: 'orders' }),
      'Check the name `orders`; the object may have been renamed or dropped.',
    );
    assert.equal(
      userAdvice('DATA_INVALID', { row: 3, column: 'price' }),
      'Correct the data at row 3, column `price`, or the options of its format.',
    );
    assert.equal(userAdvice('SQL_INVALID', { line: 2, column: 7 }), 'Correct the statement at line 2, column 7.');
  });
});
