// Signed links to files: the holder may read or write one file until the link expires, without other credentials.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { strictBase64url } from '../standard/base64url.ts';
import { Failure } from '../standard/failure.ts';

/** What a link lets its holder do. */
export type LinkMode = 'read' | 'write';

/** The longest validity of a link; clients request a new one if they need more time. */
export const linkLifetimeMs = 3_600_000;

export class FileLinks {
  readonly #key: Uint8Array;
  readonly #clock: () => number;

  constructor(key: Uint8Array, clock: () => number = Date.now) {
    this.#key = key;
    this.#clock = clock;
  }

  /**
   * A path with a query, from the root of the server. `until`: when the file itself expires. `created`: the creation time of a file
   * whose id may be reused after it is deleted; the link is valid only for the file created then.
   */
  link(fileId: string, mode: LinkMode, until = Number.POSITIVE_INFINITY, created?: number): string {
    const expires = Math.floor(Math.min(this.#clock() + linkLifetimeMs, until) / 1000);
    const signature = this.#sign(fileId, mode, String(expires), String(created ?? '')).toString('base64url');
    const createdParameter = created === undefined ? '' : `created=${created}&`;
    return `/files/${fileId}?${createdParameter}expires=${expires}&signature=${signature}`;
  }

  /** @returns `created` of the link. Throws FORBIDDEN, alike for a link that is forged, expired, or for another file or mode. */
  require(fileId: string, mode: LinkMode, query: URLSearchParams): number | undefined {
    const [expires = '', ...otherTimes] = query.getAll('expires');
    const [signature = '', ...otherSignatures] = query.getAll('signature');
    const [created, ...otherFiles] = query.getAll('created');
    const actual = strictBase64url(signature);
    const expected = this.#sign(fileId, mode, expires, created ?? '');
    const isSigned = actual?.length === expected.length && timingSafeEqual(actual, expected);
    const hasNoRepeats = otherTimes.length + otherSignatures.length + otherFiles.length === 0;
    if (isSigned && hasNoRepeats && /^\d{1,12}$/.test(expires) && Number(expires) * 1000 > this.#clock())
      return created === undefined ? undefined : Number(created);
    throw new Failure('FORBIDDEN', 'the link is not valid for this file, or it has expired');
  }

  #sign(fileId: string, mode: LinkMode, expires: string, created: string): Buffer {
    return createHmac('sha256', this.#key)
      .update(JSON.stringify([mode, fileId, expires, created]))
      .digest();
  }
}
