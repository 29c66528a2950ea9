// The digest of a request, which identifies retries (rest-standard B6). Paths are compared as the resources that they name, bodies as
// JSON values: the order of members and whitespace do not matter.
import { createHash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { isRowSource } from '../../query/rows/row_source.ts';
import { canonicalTexts } from '../../standard/json/canonical_json.ts';
import { type Route, uriOf } from '../../standard/paths.ts';

/** Characters that are hashed before the event loop serves other requests. */
const charactersPerTurn = 262_144;

export interface FingerprintInput<Context> {
  readonly method: string;
  /** The raw path without the query. */
  readonly path: string;
  readonly route: Route<Context>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

export async function fingerprintOf<Context>({
  method,
  path,
  route,
  query,
  body,
}: FingerprintInput<Context>): Promise<string> {
  const hash = createHash('sha256');
  hash.update(`${method} ${resourceOf(path, route)} ${JSON.stringify(sorted(query))}\n`);
  let characters = 0;
  for (const text of canonicalTexts(await withDigests(body))) {
    hash.update(text);
    characters += text.length;
    if (characters < charactersPerTurn) continue;
    characters = 0;
    await turn();
  }
  return hash.digest('hex');
}

/** The path with the omitted default parents and each segment in canonical encoding. */
function resourceOf<Context>(path: string, { version, segments }: Route<Context>): string {
  const [, , , ...names] = path.split('/');
  const encoded = names.map((name) => encodeURIComponent(decodeURIComponent(name))).join('/');
  const [first] = segments;
  const isShort = first !== undefined && encodeURIComponent(first.category) !== encoded.split('/', 1)[0];
  return `${uriOf(version, isShort ? [first] : [])}/${encoded}`;
}

/** Replaces row sources, whose rows may not be in memory, with their digest. */
async function withDigests(body: unknown): Promise<unknown> {
  if (typeof body !== 'object' || body === null) return body;
  const entries = Object.entries(body).map(async ([name, value]) => [
    name,
    isRowSource(value) ? await value.digest() : value,
  ]);
  return Object.fromEntries(await Promise.all(entries));
}

const sorted = (query: Readonly<Record<string, unknown>>) =>
  Object.keys(query)
    .sort()
    .map((name) => [name, query[name]]);
