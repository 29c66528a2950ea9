// An HTTP client for GET of large and POST of small bodies. Every redirect is checked against the host allowlist, every wait has a
// deadline, and response bodies have a size limit. No retries: tasks do that.
import type { IncomingMessage, RequestOptions } from 'node:http';
import { Readable } from 'node:stream';
import { Failure } from '../standard/failure.ts';
import type { HostAllowlist } from './host_allowlist.ts';

const redirectsMax = 5;
const redirectStatuses: readonly number[] = [301, 302, 303, 307, 308];
/** A `Response` with one of these statuses must not have a body. */
const statusesWithoutBody: readonly number[] = [204, 205, 304];
/** Bytes read from a response body that nobody uses. */
const discardedBytesMax = 64 * 1024;

export interface FetchLimits {
  /** Until the headers arrive, for each redirect, and then between two pieces of the body. */
  readonly idleMs: number;
  /** For the whole request. */
  readonly totalMs: number;
  readonly bytesMax: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Fetched {
  /** After redirects. */
  readonly url: URL;
  readonly contentType: string | undefined;
  /** As announced. */
  readonly bytes: number | undefined;
  /** Fails with a Failure. */
  readonly body: Readable;
}

/** Throws HOST_NOT_ALLOWED, REMOTE_REFUSED, REMOTE_UNAVAILABLE, INVALID_PARAMETER. The body must be read or destroyed. */
export async function get(address: string, allowlist: HostAllowlist, limits: FetchLimits): Promise<Fetched> {
  const deadline = AbortSignal.timeout(limits.totalMs);
  const signal = limits.signal ? AbortSignal.any([limits.signal, deadline]) : deadline;
  let url = urlOf(address);
  for (let hop = 0; hop <= redirectsMax; hop++) {
    const response = await send(url, allowlist, { method: 'GET', timeout: limits.idleMs, signal });
    const { statusCode = 0, headers } = response;
    if (redirectStatuses.includes(statusCode) && headers.location !== undefined) {
      response.destroy();
      const next = URL.parse(headers.location, url);
      if (!next) throw new Failure('REMOTE_REFUSED', 'it redirects to an invalid URL', { remoteStatus: statusCode });
      // A request over https must not continue unencrypted.
      if (url.protocol === 'https:' && next.protocol === 'http:')
        throw new Failure('REMOTE_REFUSED', 'it redirects from https to http', { remoteStatus: statusCode });
      url = next;
      continue;
    }
    if (statusCode !== 200) {
      response.destroy();
      throw refused(statusCode);
    }
    const announced = headers['content-length'];
    const bytes = announced === undefined ? undefined : Number(announced);
    if (bytes !== undefined && bytes > limits.bytesMax) {
      response.destroy();
      throw tooLarge(limits.bytesMax);
    }
    return { url, contentType: headers['content-type'], bytes, body: bounded(response, limits) };
  }
  throw new Failure('REMOTE_REFUSED', `it redirects more than ${redirectsMax} times`);
}

/** Resolves with the status, whatever it is; redirects are not followed. Throws as `get`. */
export async function post(
  address: string,
  allowlist: HostAllowlist,
  message: { readonly headers: Readonly<Record<string, string>>; readonly body: string },
  limits: Pick<FetchLimits, 'totalMs' | 'signal'>,
): Promise<number> {
  const deadline = AbortSignal.timeout(limits.totalMs);
  const signal = limits.signal ? AbortSignal.any([limits.signal, deadline]) : deadline;
  const headers = { ...message.headers, 'content-length': String(Buffer.byteLength(message.body)) };
  const options = { method: 'POST', timeout: limits.totalMs, signal, headers };
  const response = await send(urlOf(address), allowlist, options, message.body);
  let read = 0;
  response.on('data', (chunk: Buffer) => {
    read += chunk.length;
    if (read > discardedBytesMax) response.destroy();
  });
  response.on('error', () => {});
  return response.statusCode ?? 0;
}

/** A request in the form of `fetch`, by default a GET: checked against the host allowlist, redirects not followed. Rejects as `get` does. */
export function guardedFetch(allowlist: HostAllowlist): (url: URL, options: FetchOptions) => Promise<Response> {
  return async (url, { headers, signal, method = 'GET', body }) => {
    const response = await send(url, allowlist, { method, headers, signal }, body);
    const { statusCode: status = 0 } = response;
    if (!statusesWithoutBody.includes(status))
      return new Response(Readable.toWeb(response) as ReadableStream<Uint8Array>, { status });
    response.destroy();
    return new Response(null, { status });
  };
}

export interface FetchOptions {
  readonly method?: 'POST' | undefined;
  readonly body?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export function urlOf(address: string): URL {
  const url = URL.parse(address);
  if (!url) throw new Failure('INVALID_PARAMETER', 'the URL is not valid');
  return url;
}

async function send(
  url: URL,
  allowlist: HostAllowlist,
  options: RequestOptions,
  body?: string,
): Promise<IncomingMessage> {
  allowlist.check(url);
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const { request: createRequest } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http');
  const request = createRequest(url, {
    ...options,
    // Connections are not reused: one may have been opened under another allowlist.
    agent: false,
    lookup: allowlist.lookupFor(url),
    headers: { 'user-agent': 'tabularium', 'accept-encoding': 'identity', ...options.headers },
  });
  request.on('timeout', () => request.destroy(new Error('timed out')));
  request.on('error', (error) => reject(unavailable(error)));
  request.on('response', resolve);
  request.end(body);
  return promise;
}

/** Readers get one kind of error: any failure of the connection is a Failure of the remote. */
function bounded(response: IncomingMessage, { bytesMax }: FetchLimits): Readable {
  async function* pieces() {
    let read = 0;
    try {
      for await (const piece of response as AsyncIterable<Buffer>) {
        read += piece.length;
        if (read > bytesMax) throw tooLarge(bytesMax);
        yield piece;
      }
    } catch (error) {
      throw unavailable(error);
    }
  }
  return Readable.from(pieces(), { objectMode: false });
}

const refused = (remoteStatus: number) =>
  remoteStatus >= 500 || remoteStatus === 429 || remoteStatus === 408
    ? new Failure('REMOTE_UNAVAILABLE', `it returned status ${remoteStatus}`, { remoteStatus })
    : new Failure('REMOTE_REFUSED', `it returned status ${remoteStatus}`, { remoteStatus });

const tooLarge = (bytesMax: number) =>
  new Failure('REMOTE_REFUSED', `it is larger than ${bytesMax} bytes`, { bytesMax });

/** Messages of sockets contain addresses: the cause is only for the log. */
export function unavailable(cause: unknown): Failure {
  if (cause instanceof Failure) return cause;
  return new Failure('REMOTE_UNAVAILABLE', 'it does not respond, or the connection was closed early', {}, { cause });
}
