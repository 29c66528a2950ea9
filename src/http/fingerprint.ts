// What a request asks for, as a digest: two requests with the same one are the same request (rest-standard B6). Paths count as the
// resource that they name, bodies as JSON values: the order of members and the space between them do not matter.
import { createHash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { canonicalNumber } from '../standard/json.ts';
import { type Route, uriOf } from '../standard/paths.ts';

/** So much is digested before other requests have their turn. */
const charactersPerTurn = 262_144;

export interface Asked<Context> {
  readonly method: string;
  /** Raw, without the query. */
  readonly path: string;
  readonly route: Route<Context>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

export async function fingerprintOf<Context>({ method, path, route, query, body }: Asked<Context>): Promise<string> {
  const hash = createHash('sha256');
  hash.update(`${method} ${resourceOf(path, route)} ${JSON.stringify(sorted(query))}\n`);
  let characters = 0;
  for (const text of canonicalTexts(body)) {
    hash.update(text);
    characters += text.length;
    if (characters < charactersPerTurn) continue;
    characters = 0;
    await turn();
  }
  return hash.digest('hex');
}

/** The path with the parents that a short one leaves out, each segment encoded in the one way of this service. */
function resourceOf<Context>(path: string, { version, segments }: Route<Context>): string {
  const [, , , ...names] = path.split('/');
  const encoded = names.map((name) => encodeURIComponent(decodeURIComponent(name))).join('/');
  const [first] = segments;
  const isShort = first !== undefined && encodeURIComponent(first.category) !== encoded.split('/', 1)[0];
  return `${uriOf(version, isShort ? [first] : [])}/${encoded}`;
}

/** Pieces of a JSON text that is the same for equal values. */
function* canonicalTexts(value: unknown): Generator<string> {
  if (Array.isArray(value)) {
    yield '[';
    for (const item of value) {
      if (isFlat(item)) yield `${JSON.stringify(item)},`;
      else {
        yield* canonicalTexts(item);
        yield ',';
      }
    }
    yield ']';
  } else if (typeof value === 'object' && value !== null && !JSON.isRawJSON(value)) {
    yield '{';
    for (const name of Object.keys(value).sort()) {
      yield `${JSON.stringify(name)}:`;
      yield* canonicalTexts((value as Record<string, unknown>)[name]);
      yield ',';
    }
    yield '}';
  } else yield JSON.isRawJSON(value) ? canonicalNumber(value.rawJSON) : (JSON.stringify(value) ?? 'null');
}

/** Without objects, whose members would have to be put in order, and numbers that are not doubles. */
function isFlat(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return Array.isArray(value) && value.every((item) => typeof item !== 'object' || item === null);
}

const sorted = (query: Readonly<Record<string, unknown>>) =>
  Object.keys(query)
    .sort()
    .map((name) => [name, query[name]]);
