// Sends requests, reads envelopes, and retries where that cannot do anything twice (rest-standard B2, B6): a request that changes nothing,
// one that was certainly not applied, and one with an idempotency key.
import { errorOf, TabulariumError } from './errors.ts';
import { parseExactJson } from './json/exact_json.ts';
import { parsePage } from './json/page_rows.ts';

export interface ClientOptions {
  /** Where the server listens, for example `http://127.0.0.1:8030`. */
  readonly url: string | URL;
  /** An access token; a function is called for each request. Without one, requests have no credentials. */
  readonly token?: string | (() => string | Promise<string>);
  /** Sent with each request. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly fetch?: typeof globalThis.fetch;
  /** For one attempt, in milliseconds, in addition to the `waitSeconds` of the request; the default is 60,000. */
  readonly timeoutMs?: number;
  /** For how long a call is retried, in milliseconds; the default is 60,000; 0: it is not. */
  readonly retryForMs?: number;
}

export interface Outgoing {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the URL of the server, percent-encoded. */
  readonly path: string;
  readonly body?: unknown;
  /** Bytes of a file in place of a body, and their position in it. The path is a signed link, which needs no token. */
  readonly part?: { readonly bytes: Uint8Array<ArrayBuffer> | Blob; readonly contentRange: string } | undefined;
  /** Whether it changes nothing, so that it can be sent as often as needed. */
  readonly isRead: boolean;
  /** Whether the result may be a page of rows, which are then decoded while they are read. */
  readonly isPage?: boolean | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly ifMatch?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  /** How long the server may wait before it answers, in addition to `timeoutMs`. */
  readonly waitMs?: number | undefined;
}

export interface Answer {
  readonly status: number;
  readonly result: Readonly<Record<string, unknown>>;
  /** Of the record in the answer, for `ifMatch`. */
  readonly etag?: string;
}

/** What sends the requests of a client. */
export interface Sender {
  send(outgoing: Outgoing): Promise<Answer>;
  download(
    link: string,
    signal: AbortSignal | undefined,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Response>;
}

const readAfterHeader = 'x-service-read-after';
const timeoutMsDefault = 60_000;
const retryForMsDefault = 60_000;
const backoffMs = 100;
const backoffMsMax = 10_000;

export class Transport implements Sender {
  readonly #options: ClientOptions;
  readonly #base: string;
  /** The highest position of a response: the next request may be answered by another server, which has to know what this one knew. */
  #readAfter = 0;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#base = String(options.url).replace(/\/+$/, '');
  }

  /** As in messages: without credentials that its URL may have. */
  get #server(): string {
    return URL.parse(this.#base)?.origin ?? '';
  }

  /** Throws TabulariumError unless the answer is a success, and the signal's reason when it is aborted. */
  async send(outgoing: Outgoing): Promise<Answer> {
    requireNames(outgoing);
    const { retryForMs = retryForMsDefault } = this.#options;
    const giveUpAt = performance.now() + retryForMs;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#attempt(outgoing);
      } catch (error) {
        if (!(error instanceof TabulariumError) || !isRepeatable(outgoing, error)) throw error;
        const waitMs = waitBefore(error, attempt);
        if (performance.now() + waitMs > giveUpAt) throw error;
        await sleep(waitMs, outgoing.signal);
      }
    }
  }

  /** Fetches a file by its signed link, which needs no token. */
  async download(
    link: string,
    signal: AbortSignal | undefined,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Response> {
    const outgoing = { method: 'GET', path: withoutSignature(link), isRead: true } as const;
    let response: Response;
    try {
      response = await (this.#options.fetch ?? fetch)(this.#base + link, { headers, ...(signal ? { signal } : {}) });
    } catch (cause) {
      if (signal?.aborted) throw signal.reason;
      throw errorOf('NO_ANSWER', {
        status: 0,
        message: `GET ${this.#server}${outgoing.path}: ${reasonOf(cause)}`,
        cause,
      });
    }
    if (!response.ok) answerOf(outgoing, response, await response.text());
    return response;
  }

  async #attempt(outgoing: Outgoing): Promise<Answer> {
    const { method, path, body, part, signal, waitMs = 0 } = outgoing;
    const timeoutMs = outgoing.timeoutMs ?? this.#options.timeoutMs ?? timeoutMsDefault;
    const deadline = AbortSignal.timeout(timeoutMs + waitMs);
    let response: Response;
    let text: string;
    try {
      response = await (this.#options.fetch ?? fetch)(this.#base + path, {
        method,
        headers: await this.#headers(outgoing),
        ...(part ? { body: part.bytes } : body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      });
      text = await response.text();
    } catch (cause) {
      if (signal?.aborted) throw signal.reason;
      if (cause instanceof TabulariumError) throw cause;
      const reason = deadline.aborted ? 'no answer in time' : reasonOf(cause);
      const message = `${method} ${this.#server}${shownPath(outgoing)}: ${reason}`;
      throw errorOf('NO_ANSWER', { status: 0, message, cause });
    }
    this.#readAfter = Math.max(this.#readAfter, Number(response.headers.get(readAfterHeader)) || 0);
    return answerOf(outgoing, response, text);
  }

  async #headers({ body, part, idempotencyKey, ifMatch }: Outgoing): Promise<Record<string, string>> {
    const { token, headers } = this.#options;
    if (part) return { 'content-type': 'application/octet-stream', 'content-range': part.contentRange };
    const secret = typeof token === 'function' ? await token() : token;
    if (secret !== undefined) requireToken(secret);
    return {
      ...headers,
      accept: 'application/json',
      ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(idempotencyKey === undefined ? {} : { 'x-service-idempotency-key': idempotencyKey }),
      ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
      ...(this.#readAfter === 0 ? {} : { [readAfterHeader]: String(this.#readAfter) }),
    };
  }
}

interface Envelope {
  readonly code: string;
  readonly message: string;
  readonly result: Answer['result'];
}

/**
 * No object has an empty name, `.` or `..`, and URLs resolve them: the request would be one for another object, such as the parent. Throws
 * INVALID_NAME, as the server does.
 */
function requireNames({ method, path }: Outgoing): void {
  const [beforeQuery = ''] = path.split('?', 1);
  const segments = beforeQuery.split('/').slice(1);
  const wrong = segments.find((segment) => segment === '' || segment === '.' || segment === '..');
  if (wrong === undefined) return;
  const what = wrong === '' ? 'an empty name' : `the name ${JSON.stringify(wrong)}`;
  throw errorOf('INVALID_NAME', { status: 400, message: `${method} ${beforeQuery}: no object has ${what}` });
}

/** Throws UNAUTHENTICATED for what cannot be in a header: the error of the platform would contain the token. */
function requireToken(token: string): void {
  if (/^[\x21-\x7e]*$/.test(token)) return;
  const message = 'the token contains spaces, line breaks or other characters that no token has';
  throw errorOf('UNAUTHENTICATED', { status: 401, message });
}

/** The signature of a link is a credential. */
const withoutSignature = (link: string): string => link.replace(/\?.*/, '');

const shownPath = ({ path, part }: Outgoing): string => (part ? withoutSignature(path) : path);

function answerOf(outgoing: Outgoing, response: Response, text: string): Answer {
  const { status, headers } = response;
  const requestId = headers.get('x-service-request-id') ?? undefined;
  const envelope = envelopeOf(text, outgoing.isPage ? parsePage : parseExactJson);
  if (!envelope) {
    const message = `${outgoing.method} ${shownPath(outgoing)}: status ${status} without the envelope {code, message, result}; is this the URL of a Tabularium server?`;
    throw errorOf('NO_ENVELOPE', { status, message, requestId });
  }
  const { code, message, result } = envelope;
  const etag = headers.get('etag');
  if (code === '0') return { status, result, ...(etag === null ? {} : { etag }) };
  const retryAfter = Number(headers.get('retry-after') ?? Number.NaN);
  const error = errorOf(code, { status, message, result, requestId });
  if (Number.isFinite(retryAfter)) retryAfterSeconds.set(error, retryAfter);
  throw error;
}

function envelopeOf(text: string, parse: (text: string) => unknown): Envelope | undefined {
  try {
    const value = parse(text) as Partial<Envelope> | null;
    return typeof value?.code === 'string' && typeof value.result === 'object' ? (value as Envelope) : undefined;
  } catch {
    return undefined;
  }
}

const retryAfterSeconds = new WeakMap<TabulariumError, number>();

function isRepeatable({ isRead, idempotencyKey }: Outgoing, error: TabulariumError): boolean {
  if (error.status !== 0 && error.status !== 503) return false;
  return error.outcome === 'notApplied' || isRead || idempotencyKey !== undefined;
}

/** At least `Retry-After`, plus a random delay, so that clients that were refused together do not return together. */
function waitBefore(error: TabulariumError, attempt: number): number {
  const retryAfterMs = (retryAfterSeconds.get(error) ?? 0) * 1000;
  const backoff = Math.min(backoffMsMax, backoffMs * 2 ** attempt);
  return retryAfterMs + backoff * Math.random();
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}

/** Rejects with the signal's reason when it aborts. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}
