// The version of the software.
import { readFileSync } from 'node:fs';

/** From package.json, which is in the parent directory of src/ and of dist/. */
export const release = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
