// Page tokens of lists: opaque, bound to the collection (or search) that handed them out, signed against tampering
// (rest-standard B3).
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Failure } from './failure.ts';

const signatureBytes = 16;

function signature(key: Uint8Array, scope: string, after: string): Buffer {
  return createHmac('sha256', key)
    .update(JSON.stringify([scope, after]))
    .digest()
    .subarray(0, signatureBytes);
}

export function signPageToken(key: Uint8Array, scope: string, after: string): string {
  return Buffer.concat([signature(key, scope, after), Buffer.from(after)]).toString('base64url');
}

/** The key after which the next page begins. Throws INVALID_PAGE_TOKEN. */
export function readPageToken(key: Uint8Array, scope: string, token: string): string {
  const bytes = /^[A-Za-z0-9_-]{1,4096}$/.test(token) ? Buffer.from(token, 'base64url') : Buffer.alloc(0);
  const after = bytes.subarray(signatureBytes).toString();
  if (
    bytes.length <= signatureBytes ||
    !timingSafeEqual(bytes.subarray(0, signatureBytes), signature(key, scope, after))
  ) {
    throw new Failure('INVALID_PAGE_TOKEN', 'the page token is not one that this list handed out');
  }
  return after;
}
