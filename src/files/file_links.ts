// Links to files: whoever has one may read, or write, that one file until the link expires; it is signed, and no other
// credentials are asked for.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { strictBase64url } from '../standard/base64url.ts';
import { Failure } from '../standard/failure.ts';

/** What a link lets its holder do. */
export type LinkMode = 'read' | 'write';

/** A link is good for so long; who needs one for longer asks for another. */
export const linkLifetimeMs = 3_600_000;

export class FileLinks {
  readonly #key: Uint8Array;
  readonly #clock: () => number;

  constructor(key: Uint8Array, clock: () => number = Date.now) {
    this.#key = key;
    this.#clock = clock;
  }

  /**
   * A path with a query, from the root of the server. `until`: when the file itself expires. `created`: of a file whose id may be used
   * again after it is deleted; the link is for this one alone.
   */
  link(fileId: string, mode: LinkMode, until = Number.POSITIVE_INFINITY, created?: number): string {
    const expires = Math.floor(Math.min(this.#clock() + linkLifetimeMs, until) / 1000);
    const signature = this.#sign(fileId, mode, String(expires), String(created ?? '')).toString('base64url');
    const which = created === undefined ? '' : `created=${created}&`;
    return `/files/${fileId}?${which}expires=${expires}&signature=${signature}`;
  }

  /** @returns `created` of the link. Throws FORBIDDEN: the same for a link that is forged, for another file or use, or expired. */
  require(fileId: string, mode: LinkMode, query: URLSearchParams): number | undefined {
    const [expires = '', ...otherTimes] = query.getAll('expires');
    const [signature = '', ...otherSignatures] = query.getAll('signature');
    const [created, ...otherFiles] = query.getAll('created');
    const given = strictBase64url(signature);
    const right = this.#sign(fileId, mode, expires, created ?? '');
    const isSigned = given?.length === right.length && timingSafeEqual(given, right);
    const isOne = otherTimes.length + otherSignatures.length + otherFiles.length === 0;
    if (isSigned && isOne && /^\d{1,12}$/.test(expires) && Number(expires) * 1000 > this.#clock())
      return created === undefined ? undefined : Number(created);
    throw new Failure('FORBIDDEN', 'the link is not one that was handed out for this, or it has expired');
  }

  #sign(fileId: string, mode: LinkMode, expires: string, created: string): Buffer {
    return createHmac('sha256', this.#key)
      .update(JSON.stringify([mode, fileId, expires, created]))
      .digest();
  }
}
