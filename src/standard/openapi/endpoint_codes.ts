// The failure codes that an endpoint can return: those that follow from its shape, and its own.
import type { Code } from '../codes.ts';
import { acceptsIdempotencyKey, type Endpoint, isConditional, isMutation, isPaged } from '../endpoint.ts';
import { queryOf } from '../parameters.ts';

const always: readonly Code[] = [
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'API_NOT_FOUND',
  'METHOD_NOT_ALLOWED',
  'NOT_ACCEPTABLE',
  'INTERNAL_ERROR',
  'SHUTTING_DOWN',
  'STORE_UNAVAILABLE',
  'RATE_LIMITED',
  'IDENTITY_PROVIDER_UNAVAILABLE',
  'WAREHOUSE_ON_ANOTHER_SERVER',
  'SERVER_BUSY',
  'INVALID_REQUEST_ID',
  'INVALID_READ_AFTER',
  'MALFORMED_HTTP',
  'HEADERS_TOO_LARGE',
  'REQUEST_TIMEOUT',
  'EXPECTATION_FAILED',
  'REPEATED_QUERY_PARAMETER',
];
const withKey: readonly Code[] = ['INVALID_IDEMPOTENCY_KEY', 'IDEMPOTENCY_KEY_REUSED'];
const withBody: readonly Code[] = [
  'INVALID_PARAMETER',
  'UNKNOWN_FIELD',
  'MALFORMED_JSON',
  'BODY_TOO_LARGE',
  'BODY_AND_QUERY',
  'UNSUPPORTED_MEDIA_TYPE',
];
const withoutBody: readonly Code[] = ['UNKNOWN_QUERY_PARAMETER', 'BODY_NOT_ALLOWED'];

/** The codes of all requests, and those of all requests that have a body, have none, or accept an idempotency key. */
export const sharedCodes = { always, withBody, withoutBody, withIdempotencyKey: withKey } as const;

/** The codes of an endpoint that are not shared. */
export function ownCodesOf(endpoint: Endpoint): Code[] {
  const shared = new Set<Code>(Object.values(sharedCodes).flat());
  return codesOf(endpoint).filter((code) => !shared.has(code) || endpoint.codes.includes(code));
}

/** All codes that an endpoint can return: those that follow from its shape, and its own. */
export function codesOf(endpoint: Endpoint): Code[] {
  const all = new Set<Code>([...always, ...(endpoint.body ? withBody : withoutBody), ...endpoint.codes]);
  if (acceptsIdempotencyKey(endpoint)) for (const code of withKey) all.add(code);
  if (isMutation(endpoint) || acceptsIdempotencyKey(endpoint)) all.add('STORAGE_FULL');
  if (isMutation(endpoint)) all.add('INVALID_PARAMETER');
  if (queryOf(endpoint)) all.add('INVALID_PARAMETER');
  if (isConditional(endpoint)) for (const code of ['VERSION_CONFLICT', 'INVALID_PARAMETER'] as const) all.add(code);
  if (isPaged(endpoint)) all.add('INVALID_PAGE_TOKEN');
  if (endpoint.bodyRequired) all.add('EMPTY_BODY');
  if (endpoint.task !== undefined) all.add('TOO_MANY_TASKS');
  if (endpoint.on === 'object' && endpoint.verb !== 'delete') all.add('OBJECT_NOT_FOUND');
  return [...all].sort();
}
