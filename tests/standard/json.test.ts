// JSON in and out, exactly: what a number's text means survives a round trip, and text that is not JSON is answered with the
// place at which it breaks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseDecimal } from '../../src/model/values/decimal_text.ts';
import { Failure } from '../../src/standard/failure.ts';
import { jsonDepthMax, parseJson, parseRequestJson } from '../../src/standard/json/parse_json.ts';
import { deadlineMs } from '../deadline.ts';

const roundTrip = (text: string) => JSON.stringify(parseJson(text));

function fault(text: string): { code: string; line: unknown; column: unknown } {
  try {
    parseJson(text);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { code: error.code, line: error.result.line, column: error.result.column };
  }
  return assert.fail(`${text.slice(0, 80)} was accepted`);
}

const nested = (depth: number, inner = '') => '['.repeat(depth) + inner + ']'.repeat(depth);

test('numbers that a double cannot hold are preserved as written', () => {
  for (const text of [
    '123456789012345678',
    '9007199254740993',
    '-9223372036854775808',
    '170141183460469231731687303715884105727',
    '12345678901234567890123456789012345.678',
    '0.12345678901234567890123456789012345678',
    '1e400',
    '-1e400',
    '2e-324',
    '1e999999999999999999999',
    '0.1000000000000000055511151231257827',
  ]) {
    assert.equal(roundTrip(text), text);
    assert.equal(roundTrip(`{"a":[${text}]}`), `{"a":[${text}]}`);
    assert(JSON.isRawJSON(parseJson(text)), text);
  }
});

test('numbers that a double holds are numbers, however they are written', () => {
  const cases: Record<string, number> = {
    '0': 0,
    '-0': -0,
    '1.0': 1,
    '1e2': 100,
    '1E+2': 100,
    '0.1': 0.1,
    '0.30000000000000004': 0.30000000000000004,
    '5e-324': 5e-324,
    '1.7976931348623157e308': 1.7976931348623157e308,
    '9007199254740991': 9007199254740991,
    '1.0000000000000000000000': 1,
    '0e99999999999999999999': 0,
    '100000000000000000000': 1e20,
  };
  for (const [text, number] of Object.entries(cases)) assert.ok(Object.is(parseJson(text), number), text);
});

test('digits in strings are not changed', () => {
  assert.equal(roundTrip('["12345678901234567890","1e400",7]'), '["12345678901234567890","1e400",7]');
});

test('any integer and any decimal of 38 digits is preserved', () => {
  const digits = fc.stringMatching(/^[1-9]\d{0,37}$/);
  fc.assert(
    fc.property(digits, fc.boolean(), (text, negative) => {
      const number = negative ? `-${text}` : text;
      const value = parseJson(`[${number}]`) as [unknown];
      assert.equal(BigInt(JSON.stringify(value[0]).replace(/^(-?\d+)e\+?(\d+)$/, padZeros)), BigInt(number));
    }),
  );
  fc.assert(
    fc.property(digits, fc.integer({ min: 0, max: 38 }), (text, scale) => {
      const padded = text.padStart(scale + 1, '0');
      const number = scale === 0 ? text : `${padded.slice(0, -scale)}.${padded.slice(-scale)}`;
      assert.equal(toPlainDecimal(roundTrip(number)), toPlainDecimal(number), number);
    }),
  );
});

const padZeros = (_: string, integer: string, zeros: string) => integer + '0'.repeat(Number(zeros));

/** A decimal text as digits and a power of ten, so that `1.50` and `15e-1` are one. */
function toPlainDecimal(text: string): string {
  const [, sign, integer = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/.exec(text) ?? [];
  const digits = (integer + fraction).replace(/^0+(?=\d)/, '');
  const significant = digits.replace(/0+$/, '');
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}

test('text written by JSON.stringify is parsed to the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const text = JSON.stringify(value);
      assert.equal(roundTrip(text), JSON.stringify(JSON.parse(text)));
    }),
  );
});

test('unusual but valid JSON', () => {
  assert.equal(roundTrip('{"a":1,"a":2}'), '{"a":2}', 'of a repeated field, the last one counts');
  assert.equal(roundTrip('{"__proto__":{"x":1e400}}'), '{"__proto__":{"x":1e400}}');
  assert.equal(({} as { x?: unknown }).x, undefined, 'no prototype was changed');
  assert.equal(roundTrip('"\\ud800"'), '"\\ud800"', 'a lone surrogate is not replaced in secret');
  assert.equal(roundTrip('{"rawJSON":"1"}'), '{"rawJSON":"1"}');
  assert.equal(JSON.isRawJSON(parseJson('{"rawJSON":"1"}')), false, 'a body cannot pretend to be a raw number');
});

test('invalid text is refused with line and column', () => {
  const cases: [string, number, number][] = [
    ['', 1, 1],
    [' ', 1, 2],
    ['[1,', 1, 4],
    ['[1,]', 1, 4],
    ['[1 2]', 1, 4],
    ['{"a":1,}', 1, 8],
    ['{"a" 1}', 1, 6],
    ['{"a":1 "b":2}', 1, 8],
    ['{a:1}', 1, 2],
    ["{'a':1}", 1, 2],
    ['{"a":01}', 1, 6],
    ['{"a":1}x', 1, 8],
    ['{"a":[{"b":\n\n  tru}]}', 3, 3],
    ['nul', 1, 1],
    ['"a\nb"', 1, 1],
    ['"\\x"', 1, 1],
    ['-', 1, 1],
    ['1.', 1, 1],
    ['NaN', 1, 1],
    ['1 2', 1, 3],
    ['\ufeff{}', 1, 1],
    [`[${' '.repeat(200_000)}x`, 1, 200_002],
    [`[${'\n'.repeat(200_000)}x`, 200_001, 1],
  ];
  for (const [text, line, column] of cases)
    assert.deepEqual(fault(text), { code: 'MALFORMED_JSON', line, column }, JSON.stringify(text.slice(0, 40)));
});

test('nesting has a limit, whatever else the text contains', () => {
  assert.equal(roundTrip(nested(jsonDepthMax)), nested(jsonDepthMax));
  const expected = { code: 'MALFORMED_JSON', line: 1, column: jsonDepthMax + 1 };
  assert.deepEqual(fault(nested(jsonDepthMax + 1)), expected);
  assert.deepEqual(fault(nested(200)), expected);
  assert.deepEqual(fault(nested(1_000_000)), expected);
  assert.deepEqual(fault(nested(1_000_000, '1e5')), expected, 'numbers that are read exactly');
  assert.deepEqual(fault('{"a":'.repeat(500_000)), { ...expected, column: jsonDepthMax * 5 + 1 });
});

test('brackets in strings do not count as nesting', () => {
  const text = JSON.stringify(['['.repeat(1000), '\\"['.repeat(1000), '{'.repeat(1000)]);
  assert.equal(roundTrip(text), text);
});

test('megabytes of invalid text are refused quickly', () => {
  for (const text of [
    `"${'\\'.repeat(4_000_000)}`,
    `"${'a'.repeat(4_000_000)}`,
    `[${'1,'.repeat(2_000_000)}]`,
    `[${' '.repeat(4_000_000)}x`,
  ]) {
    const started = performance.now();
    assert.equal(fault(text).code, 'MALFORMED_JSON');
    assert.ok(performance.now() - started < deadlineMs(3000), `${performance.now() - started} ms`);
  }
});

function requestFault(text: string, valuesMax = 1000): { code: string; line?: unknown; column?: unknown } {
  try {
    parseRequestJson(text, valuesMax);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { line, column } = error.result;
    return { code: error.code, ...(line === undefined ? {} : { line, column }) };
  }
  return assert.fail(`${text.slice(0, 80)} was accepted`);
}

test('a duplicate member name is refused at its second occurrence, also when it is escaped', () => {
  const cases: Record<string, [line: number, column: number]> = {
    '{"a":1,"a":2}': [1, 8],
    '{"a":1,"a":1}': [1, 8],
    '{"a":1,\n "\\u0061":2}': [2, 2],
    '{"a":{"b":1,"c":[{"d":null,"d":null}]}}': [1, 28],
    '{"__proto__":1,"__proto__":2}': [1, 16],
    '{"":1,"":2}': [1, 7],
    '{"0":1,"0":2}': [1, 8],
    '{"a":12345678901234567890,"b":1,"a":2}': [1, 33],
    '{"a":":","b:":1,"b:":2}': [1, 17],
  };
  for (const [text, [line, column]] of Object.entries(cases))
    assert.deepEqual(requestFault(text), { code: 'MALFORMED_JSON', line, column }, text);
});

test('equal names in different objects are not duplicates', () => {
  for (const text of [
    '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}',
    '{"a":"\\"a\\":1","A":1,"á":[],"a ":{}}',
    '{"__proto__":{"x":1},"constructor":1,"0":1,"00":2}',
    '{"a":12345678901234567890,"b":{"a":1}}',
  ])
    assert.equal(JSON.stringify(parseRequestJson(text, 1000).value).length > 0, true, text);
});

test('the number of values in a request is limited, wherever they are', () => {
  const members = (n: number, memberOf: (i: number) => string) =>
    Array.from({ length: n }, (_, i) => memberOf(i)).join();
  for (const text of [
    `{${members(1001, (i) => `"k${i}":1`)}}`,
    `[${members(1001, () => '1')}]`,
    `[${members(1001, () => '[]')}]`,
    `[${members(501, () => '{"a":1}')}]`,
  ])
    assert.equal(requestFault(text).code, 'BODY_TOO_LARGE', text.slice(0, 20));
  assert.equal(
    Object.keys(parseRequestJson(`{${members(900, (i) => `"k${i}":1`)}}`, 1000).value as object).length,
    900,
  );
});

test('numbers of very many digits are parsed quickly', () => {
  const started = process.cpuUsage();
  for (const text of [`1${'0'.repeat(200_000)}1`, `0.${'10'.repeat(100_000)}1`, `1.${'0'.repeat(200_000)}1`]) {
    assert.ok(JSON.isRawJSON(parseJson(text)));
    assert.equal(parseDecimal(text)?.negative, false);
  }
  assert.ok(process.cpuUsage(started).user < 1000 * deadlineMs(2000));
});
