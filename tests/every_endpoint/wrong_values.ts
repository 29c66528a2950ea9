// Values that a schema refuses, found by trying: so that a field declared tomorrow is tested without anyone remembering.
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

/** Of the values above, those that do not fit; one or none where the schema takes nearly anything. */
export function wrongValues(schema: TSchema): unknown[] {
  const validator = Compile(schema);
  return candidates.filter((value) => !validator.Check(value));
}
