// Values that a schema refuses, found by trying, so that new fields are covered automatically.
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';

const wide = JSON.rawJSON('123456789012345678901234567890');
const candidates: readonly unknown[] = [
  null,
  true,
  -1,
  0.5,
  wide,
  '',
  'text',
  'x'.repeat(5000),
  [],
  [null],
  [[]],
  {},
  { surprise: true },
  { a: null },
];

/** Those of the values above that are invalid; one or none if the schema accepts nearly anything. */
export function wrongValues(schema: TSchema): unknown[] {
  const validator = Compile(schema);
  return candidates.filter((value) => !validator.Check(value));
}
