// The header by which a server of a shared store proves to another one that it forwards a request: signed with a key that is derived from
// the store, and valid for a minute for this request to this server. Any other value is ignored.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { strictBase64url } from '../../standard/base64url.ts';

export const forwardedHeader = 'x-service-forwarded';
/** Includes the difference between the clocks of two servers. */
const validMs = 60_000;

/** What the forwarding server says of a request. */
export interface Forwarded {
  /** The id of the forwarding server. */
  readonly from: string;
  /** The address of the client. */
  readonly address: string;
  /** Whether the rate limits were charged already. */
  readonly isCharged: boolean;
  /** Whether it had the root token of the forwarding server, which no other server accepts. */
  readonly isRoot: boolean;
}

interface Content extends Forwarded {
  readonly to: string;
  readonly at: number;
  readonly method: string;
  readonly url: string;
}

export class ForwardedHeaders {
  readonly #serverId: string;
  readonly #key: Uint8Array;
  readonly #read = new WeakMap<IncomingMessage, Forwarded | null>();

  constructor(serverId: string, key: Uint8Array) {
    this.#serverId = serverId;
    this.#key = key;
  }

  /** The value for a request to the server `to`. */
  sign({ method = '', url = '' }: IncomingMessage, to: string, forwarded: Omit<Forwarded, 'from'>): string {
    const content: Content = { ...forwarded, from: this.#serverId, to, at: Date.now(), method, url };
    const text = Buffer.from(JSON.stringify(content)).toString('base64url');
    return `${text}.${this.#mac(text).toString('base64url')}`;
  }

  /** Undefined if no server of this store has forwarded the request to this one. */
  read(incoming: IncomingMessage): Forwarded | undefined {
    const known = this.#read.get(incoming);
    if (known !== undefined) return known ?? undefined;
    const forwarded = this.#verified(incoming);
    this.#read.set(incoming, forwarded ?? null);
    return forwarded;
  }

  #verified({ headers, method, url }: IncomingMessage): Forwarded | undefined {
    const value = headers[forwardedHeader];
    if (typeof value !== 'string') return undefined;
    const [text = '', mac = ''] = value.split('.', 2);
    const actual = strictBase64url(mac);
    const expected = this.#mac(text);
    if (actual?.length !== expected.length || !timingSafeEqual(actual, expected)) return undefined;
    const content = JSON.parse(Buffer.from(text, 'base64url').toString()) as Content;
    const isRecent = Math.abs(Date.now() - content.at) < validMs;
    const isOfRequest = content.to === this.#serverId && content.method === method && content.url === url;
    return isRecent && isOfRequest ? content : undefined;
  }

  #mac(text: string): Buffer {
    return createHmac('sha256', this.#key).update(text).digest();
  }
}
