// The version of the software.
import { readFileSync } from 'node:fs';

/** As in package.json, which is one directory up from src/ and from dist/ alike. */
export const release = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
