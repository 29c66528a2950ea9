// The validators of TypeBox, loaded when the first value is checked, because startup does not need them.
import type * as schema from 'typebox/schema';
import type * as system from 'typebox/system';
import { lazyPackage } from '../model/lazy_package.ts';
import { violationsMax } from './failure.ts';

const loadSchema = lazyPackage<typeof schema>('typebox/schema');
const loadSystem = lazyPackage<typeof system>('typebox/system');
let isSet = false;

export function validation(): typeof schema {
  // Each unknown field produces two errors.
  if (!isSet) loadSystem().Settings.Set({ maxErrors: 2 * violationsMax });
  isSet = true;
  return loadSchema();
}
