// `If-Match` and `expectedVersion`: a change is applied only to the state of the record that the caller has read (rest-standard B4,
// RFC 9110, 13.1.1). The record is read as by a GET; its version is checked again in the transaction of the change.
import type { IncomingHttpHeaders } from 'node:http';
import type { ObjectVersion } from '../model/principal.ts';
import { type Endpoint, inputOfGet, isConditional } from '../standard/endpoint.ts';
import { Failure } from '../standard/failure.ts';
import type { Route } from '../standard/paths.ts';
import { ReadyRecord, type RecordBody } from '../standard/record_body.ts';
import { type RecordVersion, versionOf } from '../standard/record_version.ts';
import { entityTagsOf } from './conditions.ts';
import { invalidHeader } from './ranges.ts';

export interface Precondition {
  /** `*` matches any state of an existing object. */
  readonly tags: '*' | readonly string[] | undefined;
  readonly expectedVersion: number | undefined;
}

/** Undefined when the request has no precondition. Throws INVALID_PARAMETER. */
export function preconditionOf<Context>(
  endpoint: Endpoint<Context>,
  headers: IncomingHttpHeaders,
  expectedVersion: number | undefined,
): Precondition | undefined {
  const header = headers['if-match'];
  if (!isConditional(endpoint) || (header === undefined && expectedVersion === undefined)) return undefined;
  const tags = header === undefined ? undefined : entityTagsOf(header);
  if (header !== undefined && tags === undefined) {
    throw invalidHeader('If-Match', 'must be * or a list of entity tags in double quotes');
  }
  return { tags, expectedVersion };
}

/**
 * The state that must be unchanged when the change is applied; undefined when there is none to compare. Throws VERSION_CONFLICT, and
 * OBJECT_NOT_FOUND when the object does not exist.
 */
export async function expectedVersionFor<Context>(
  { tags, expectedVersion }: Precondition,
  route: Route<Context>,
  context: Context,
): Promise<ObjectVersion | undefined> {
  const { endpoint } = route;
  const current = endpoint.on === 'object' ? await currentOf(route, context) : undefined;
  if (endpoint.on === 'object' && current === undefined)
    return endpoint.verb === 'delete' ? missingObject(route) : undefined;
  const version = current?.version ?? null;
  const isMatch =
    (tags === undefined || tags === '*' || (current !== undefined && tags.includes(current.etag))) &&
    (expectedVersion === undefined || expectedVersion === version);
  if (isMatch) return current?.objectVersion;
  throw new Failure('VERSION_CONFLICT', `the object has changed since it was read; its current version is ${version}`, {
    version,
  });
}

/** The expected version of a missing object: an object created under the name in the meantime does not match it. */
function missingObject<Context>({ segments, category }: Route<Context>): ObjectVersion {
  return { objectId: '', category: category.name, name: segments.at(-1)?.name ?? '', version: 0 };
}

/** The state that a GET of the object would show. Undefined when it does not exist. */
async function currentOf<Context>(
  { category, path, segments }: Route<Context>,
  context: Context,
): Promise<RecordVersion | undefined> {
  const get = category.endpoints.find(({ verb }) => verb === 'get');
  if (!get) return undefined;
  try {
    const outcome = await get.handle(inputOfGet(path, segments), context);
    return outcome.outcome === 'found' ? versionOfBody(outcome.record) : undefined;
  } catch (error) {
    if (error instanceof Failure && error.code === 'OBJECT_NOT_FOUND') return undefined;
    throw error;
  }
}

const versionOfBody = (record: RecordBody) => (record instanceof ReadyRecord ? record.version : versionOf(record));
