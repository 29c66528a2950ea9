// Serves the OpenAPI document (rest-standard B9). It is generated at the first request and cached, as is each content coding of it, each
// with an ETag of its own.
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isKnownTag } from './conditions.ts';
import { type Coding, compressed, preferenceOf } from './content_coding.ts';

export interface ServedDocument {
  readonly status: 200 | 304;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

const nothing = new Uint8Array();

export class Document {
  readonly #make: () => object;
  #content: Promise<{ readonly bytes: Buffer; readonly hash: string }> | undefined;
  readonly #coded = new Map<Coding, Promise<Buffer>>();

  constructor(make: () => object) {
    this.#make = make;
  }

  async serve(headers: IncomingHttpHeaders): Promise<ServedDocument> {
    this.#content ??= this.#generate();
    const { bytes, hash } = await this.#content;
    const { coding } = preferenceOf(headers['accept-encoding'] as string | undefined);
    // A strong validator belongs to one coding (RFC 9110, 8.8.3.3).
    const etag = coding === undefined ? `"${hash}"` : `"${hash}-${coding}"`;
    const own = { ETag: etag, 'Cache-Control': 'no-cache', Vary: 'Accept-Encoding' };
    if (isKnownTag(headers['if-none-match'], etag)) return { status: 304, headers: own, body: nothing };
    if (coding === undefined) return { status: 200, headers: own, body: bytes };
    const coded = this.#coded.get(coding) ?? compressed(bytes, coding, 'small');
    this.#coded.set(coding, coded);
    return { status: 200, headers: { ...own, 'Content-Encoding': coding }, body: await coded };
  }

  /** Takes two turns of the event loop of about 15 ms each. */
  async #generate() {
    const document = this.#make();
    await nextTurn();
    const bytes = Buffer.from(JSON.stringify(document));
    return { bytes, hash: createHash('sha256').update(bytes).digest('base64url') };
  }
}
