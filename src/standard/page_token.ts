// Page tokens of lists: opaque, signed, and bound to the identity of the collection and the filter of the search that issued them
// (rest-standard B3).
import { createHmac, timingSafeEqual } from 'node:crypto';
import { strictBase64url } from './base64url.ts';
import { Failure } from './failure.ts';
import { canonicalJson } from './json/canonical_json.ts';
import { pageTokenCharactersMax } from './page_limits.ts';

const signatureBytes = 16;

function signature(key: Uint8Array, scope: string, after: string): Buffer {
  return createHmac('sha256', key)
    .update(JSON.stringify([scope, after]))
    .digest()
    .subarray(0, signatureBytes);
}

/**
 * The scope that a token is bound to: the endpoint, the ids of the ancestors of the collection, and the filter of a search. The page
 * size is not part of it and may differ from page to page.
 */
export function pageScope(endpoint: string, ancestors: readonly string[], body: object): string {
  const { pageToken: _token, pageSize: _size, ...filter } = body as { pageToken?: unknown; pageSize?: unknown };
  return canonicalJson([endpoint, ancestors, filter]);
}

export function signPageToken(key: Uint8Array, scope: string, after: string): string {
  return Buffer.concat([signature(key, scope, after), Buffer.from(after)]).toString('base64url');
}

/** The key after which the next page begins. Throws INVALID_PAGE_TOKEN. */
export function readPageToken(key: Uint8Array, scope: string, token: string): string {
  const bytes = (token.length <= pageTokenCharactersMax && strictBase64url(token)) || Buffer.alloc(0);
  const after = bytes.subarray(signatureBytes).toString();
  if (
    bytes.length <= signatureBytes ||
    !timingSafeEqual(bytes.subarray(0, signatureBytes), signature(key, scope, after))
  ) {
    throw new Failure('INVALID_PAGE_TOKEN', 'the page token does not belong to this list; start again without it');
  }
  return after;
}
