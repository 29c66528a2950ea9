// What is wrong with the headers of a request that node:http accepts: credentials sent twice, and names that are close to one of
// this service's headers, which would else be ignored.
import type { IncomingMessage } from 'node:http';
import { type Failure, violated } from '../standard/failure.ts';

const prefix = 'x-service-';
/** The headers of requests that the service defines. */
export const requestIdHeader = 'x-service-request-id';
export const idempotencyKeyHeader = 'x-service-idempotency-key';
const defined: readonly string[] = [requestIdHeader, idempotencyKeyHeader];
const lettersMax = 2;

/** node:http keeps the first of several; undefined where there is none, null where there are several. */
export function authorizationOf(incoming: IncomingMessage): string | undefined | null {
  let count = 0;
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
    const name = incoming.rawHeaders[i] as string;
    if (name.length === 13 && name.toLowerCase() === 'authorization') count++;
  }
  return count > 1 ? null : incoming.headers.authorization;
}

/** Why a request that changes something is refused; every other `x-service-*` header is the user's own. */
export function misspelledHeader({ headers }: IncomingMessage): Failure | undefined {
  for (const name in headers) {
    const meant = defined.find((one) => one !== name && isLike(name, one));
    if (meant === undefined) continue;
    const message = `is not a header of this service; ${meant} is`;
    return violated('INVALID_PARAMETER', `${name} ${message}`, [
      { pointer: `header:${name}`, rule: 'header', message },
    ]);
  }
  return undefined;
}

/** Whether a name differs from a defined one by `_` for `-`, by the prefix left out, or by at most two letters. */
function isLike(name: string, header: string): boolean {
  const plain = name.replaceAll('_', '-');
  return isWithin(plain, header, lettersMax) || prefix + plain === header;
}

/** Whether so many letters inserted, left out or changed make one of the other (Levenshtein). */
function isWithin(one: string, other: string, most: number): boolean {
  if (Math.abs(one.length - other.length) > most) return false;
  let above = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 0; i < one.length; i++) {
    const row = [i + 1];
    for (let j = 0; j < other.length; j++) {
      const changed = (above[j] as number) + (one[i] === other[j] ? 0 : 1);
      row.push(Math.min(changed, (above[j + 1] as number) + 1, (row[j] as number) + 1));
    }
    above = row;
  }
  return (above[other.length] as number) <= most;
}
