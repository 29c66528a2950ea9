// The request headers of this service, and checks beyond those of node:http: repeated credentials, and misspelled names of this service's
// headers, which would otherwise be ignored.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Failure, invalidParameter } from '../standard/failure.ts';

const prefix = 'x-service-';
/** The request headers that this service defines. */
export const requestIdHeader = 'x-service-request-id';
export const idempotencyKeyHeader = 'x-service-idempotency-key';
/** Also a header of responses. */
export const readAfterHeader = 'x-service-read-after';
const defined: readonly string[] = [requestIdHeader, idempotencyKeyHeader, readAfterHeader];
const editsMax = 2;

/** The caller's request id, or a new one when it is missing or invalid. */
export function requestIdOf(incoming: IncomingMessage): { readonly requestId: string; readonly isValid: boolean } {
  const header = incoming.headers[requestIdHeader] as string | undefined;
  const isValid = header === undefined || /^[\x21-\x7e]{1,128}$/.test(header);
  return { requestId: header !== undefined && isValid ? header : randomUUID(), isValid };
}

export const invalidRequestId = () =>
  new Failure('INVALID_REQUEST_ID', `${requestIdHeader} must be 1 to 128 visible ASCII characters`);

/** Undefined when there is no Authorization header, null when there are several, of which node:http would keep the first. */
export function authorizationOf(incoming: IncomingMessage): string | undefined | null {
  let count = 0;
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
    const name = incoming.rawHeaders[i] as string;
    if (name.length === 13 && name.toLowerCase() === 'authorization') count++;
  }
  return count > 1 ? null : incoming.headers.authorization;
}

/** The position in the feed of changes that the request must not be older than. Throws INVALID_READ_AFTER. */
export function readAfterOf({ headers }: IncomingMessage): number | undefined {
  const position = headers[readAfterHeader];
  if (position === undefined) return undefined;
  if (typeof position === 'string' && /^\d{1,15}$/.test(position)) return Number(position);
  throw new Failure('INVALID_READ_AFTER', `${readAfterHeader} must be a value that a response had`);
}

/** The failure for a misspelled header. Any other `x-service-*` header belongs to the user and is ignored. */
export function misspelledHeader({ headers }: IncomingMessage): Failure | undefined {
  for (const name in headers) {
    const intended = defined.find((header) => header !== name && isLike(name, header));
    if (intended === undefined) continue;
    const message = `is not a header of this service; did you mean ${intended}?`;
    return invalidParameter(`header:${name}`, 'header', message, `${name} ${message}`);
  }
  return undefined;
}

/** Whether a name differs from a defined one by `_` for `-`, by the missing prefix, or by at most two edits. */
function isLike(name: string, header: string): boolean {
  const plain = name.replaceAll('_', '-');
  return isWithinDistance(plain, header, editsMax) || prefix + plain === header;
}

/** Whether the Levenshtein distance of two names is at most `max`. */
function isWithinDistance(name: string, other: string, max: number): boolean {
  if (Math.abs(name.length - other.length) > max) return false;
  let previousRow = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 0; i < name.length; i++) {
    const row = [i + 1];
    for (let j = 0; j < other.length; j++) {
      const changed = (previousRow[j] as number) + (name[i] === other[j] ? 0 : 1);
      row.push(Math.min(changed, (previousRow[j + 1] as number) + 1, (row[j] as number) + 1));
    }
    previousRow = row;
  }
  return (previousRow[other.length] as number) <= max;
}
