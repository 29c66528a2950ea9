// The public keys of one issuer: fetched in advance, refreshed periodically and when a token names an unknown key, and cached through
// an outage of the issuer. See oidc.ts for the verification of tokens.
import type * as joseLibrary from 'jose';
import type { JWK, JWTVerifyGetKey, LocalJWKSet } from 'jose';
import { lazyPackage } from '../../model/lazy_package.ts';
import type { Observe } from '../../observe/observations.ts';
import { Failure } from '../../standard/failure.ts';

export const jose = lazyPackage<typeof joseLibrary>('jose');

/** Does not follow redirects. */
export type FetchKeys = (
  url: URL,
  options: { readonly headers: Readonly<Record<string, string>>; readonly signal: AbortSignal },
) => Promise<Response>;

export interface IssuerKeysOptions {
  /** For the log. */
  readonly name: string;
  readonly issuer: string;
  /** Defaults to the `jwks_uri` of the issuer's discovery document. */
  readonly jwksUri?: string | undefined;
  readonly fetch: FetchKeys;
  readonly clock: () => number;
  readonly observe: Observe;
  readonly limits: IssuerKeyLimits;
  /** Called when the keys changed: tokens verified with the old ones may be invalid. */
  readonly changed: () => void;
}

export interface IssuerKeyLimits {
  readonly refreshMs: number;
  /** Delays after a failure: for a token that needs the keys, and in the background. */
  readonly retryMs: number;
  readonly backgroundRetryMs: number;
  /** Minimum interval of fetches caused by tokens that name an unknown key. */
  readonly unknownKeyMs: number;
  /** How long keys remain valid that could not be refreshed. */
  readonly outageMs: number;
  readonly fetchMs: number;
}

export const issuerKeyLimits: IssuerKeyLimits = {
  refreshMs: 600_000,
  retryMs: 5000,
  backgroundRetryMs: 60_000,
  unknownKeyMs: 30_000,
  outageMs: 24 * 3_600_000,
  fetchMs: 5000,
};

const answerBytesMax = 1024 * 1024;
const keysMax = 100;
const discoveryPath = '/.well-known/openid-configuration';
const notHttps = 'its URL is not an https URL';
const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Why keys are unavailable. Only for the log: it would reveal hosts in the server's network to callers. */
class KeysFault extends Error {}

export class IssuerKeys {
  readonly #options: IssuerKeysOptions;
  #keys: LocalJWKSet | undefined;
  #fingerprint = '';
  #fetchedAt: number | undefined;
  #failedAt = Number.NEGATIVE_INFINITY;
  #unknownKeyAt = Number.NEGATIVE_INFINITY;
  #error: string | undefined;
  #fetching: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #stopping = new AbortController();

  constructor(options: IssuerKeysOptions) {
    this.#options = options;
  }

  /** Starts fetching without waiting for it. */
  start(): void {
    void this.#refresh();
  }

  stop(): void {
    this.#stopping.abort();
    clearTimeout(this.#timer);
  }

  status(): { readonly keysFetchedAt: number | undefined; readonly error: string | undefined } {
    return { keysFetchedAt: this.#fetchedAt, error: this.#error };
  }

  /** The key named by a header. Throws the error of jose if there is none, IDENTITY_PROVIDER_UNAVAILABLE if the keys are unavailable. */
  readonly keyOf: JWTVerifyGetKey<Awaited<ReturnType<LocalJWKSet>>> = async (header, token) => {
    const keys = await this.#usableKeys();
    try {
      return await keys(header, token);
    } catch (error) {
      if (!(error instanceof jose().errors.JWKSNoMatchingKey) || !(await this.#refetchForUnknownKey())) throw error;
      return (await this.#usableKeys())(header, token);
    }
  };

  async #usableKeys(): Promise<LocalJWKSet> {
    const { clock, limits } = this.#options;
    const isGood = () => this.#fetchedAt !== undefined && clock() - this.#fetchedAt < limits.outageMs;
    if (!isGood() && (this.#fetching || clock() - this.#failedAt >= limits.retryMs)) await this.#refresh();
    if (this.#keys && isGood()) return this.#keys;
    throw new Failure('IDENTITY_PROVIDER_UNAVAILABLE', 'the signing keys of the identity provider are unavailable');
  }

  /** An unknown key may be new. Fetches are limited, because anyone can make up the name of a key. */
  async #refetchForUnknownKey(): Promise<boolean> {
    const { clock, limits } = this.#options;
    if (!this.#fetching) {
      if (clock() - this.#unknownKeyAt < limits.unknownKeyMs) return false;
      this.#unknownKeyAt = clock();
    }
    await this.#refresh();
    return true;
  }

  /** One at a time; never throws. */
  #refresh(): Promise<void> {
    this.#fetching ??= this.#fetch().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #fetch(): Promise<void> {
    const { clock, limits, observe, name, changed } = this.#options;
    try {
      const found = await this.#fetchKeys();
      const print = JSON.stringify(found);
      const isChanged = this.#keys !== undefined && print !== this.#fingerprint;
      this.#keys = jose().createLocalJWKSet({ keys: found });
      this.#fingerprint = print;
      this.#fetchedAt = clock();
      this.#error = undefined;
      observe({ kind: 'identityKeysFetched', provider: name, keys: found.length });
      if (isChanged && !this.#stopping.signal.aborted) changed();
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#failedAt = clock();
      this.#error = reasonOf(error);
      observe({ kind: 'identityKeysFailed', provider: name, reason: this.#error });
    }
    clearTimeout(this.#timer);
    if (this.#stopping.signal.aborted) return;
    const pauseMs = this.#error === undefined ? limits.refreshMs : limits.backgroundRetryMs;
    this.#timer = setTimeout(() => this.start(), pauseMs).unref();
  }

  async #fetchKeys(): Promise<JWK[]> {
    const { limits } = this.#options;
    const signal = AbortSignal.any([AbortSignal.timeout(limits.fetchMs), this.#stopping.signal]);
    const { keys } = await this.#fetchKeySet(signal).catch((error: unknown) => {
      // The error of an aborted connection does not contain the reason for the abort.
      throw (signal.reason as Error | undefined)?.name === 'TimeoutError'
        ? new KeysFault('it did not respond in time')
        : error;
    });
    if (!Array.isArray(keys)) throw new KeysFault('its response is not a set of keys');
    if (keys.length > keysMax) throw new KeysFault(`it has more than ${keysMax} keys`);
    return keys.filter(isPublic);
  }

  async #fetchKeySet(signal: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
    const { jwksUri } = this.#options;
    return this.#read(jwksUri === undefined ? await this.#discoverJwksUri(signal) : urlOf(jwksUri), signal);
  }

  async #discoverJwksUri(signal: AbortSignal): Promise<URL> {
    const { issuer } = this.#options;
    const found = await this.#read(urlOf(issuer.replace(/\/$/, '') + discoveryPath), signal);
    if (found.issuer !== issuer) throw new KeysFault('its discovery document is for another issuer');
    if (typeof found.jwks_uri !== 'string') throw new KeysFault('its discovery document has no jwks_uri');
    const url = urlOf(found.jwks_uri);
    // A remote issuer must not refer to this machine.
    if (url.protocol !== 'https:' && issuer.startsWith('https:')) throw new KeysFault(notHttps);
    return url;
  }

  async #read(url: URL, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
    return readJson(await this.#options.fetch(url, { signal, headers: { accept: 'application/json' } }));
  }
}

/** The JSON object in a response, limited in size. Throws an error whose message is for the log. */
export async function readJson(response: Response): Promise<Readonly<Record<string, unknown>>> {
  if (response.status !== 200) {
    await response.body?.cancel();
    const isRedirect = response.status >= 300 && response.status < 400;
    throw new KeysFault(isRedirect ? 'it redirects' : `it returned status ${response.status}`);
  }
  const parsed = parsedOf(await textOf(response));
  if (typeof parsed !== 'object' || parsed === null) throw new KeysFault('its response is not a JSON object');
  return parsed as Record<string, unknown>;
}

function isPublic(key: unknown): key is JWK {
  if (typeof key !== 'object' || key === null) return false;
  return !('d' in key) && 'kty' in key && typeof key.kty === 'string' && key.kty !== 'oct';
}

function urlOf(text: string): URL {
  const url = secureUrl(text);
  if (!url) throw new KeysFault(notHttps);
  return url;
}

/** https, or http on loopback; without user and fragment. */
export function secureUrl(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback.test(url.hostname));
  return isSafe && url.username === '' && url.password === '' && url.hash === '' ? url : undefined;
}

async function textOf(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.byteLength;
    if (bytes > answerBytesMax) throw new KeysFault(`its response is larger than ${answerBytesMax} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

function parsedOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new KeysFault('its response is not a JSON object');
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof KeysFault) return error.message;
  if (error instanceof jose().errors.JOSEError) return 'its response is not a set of keys';
  return error instanceof Failure && error.code === 'HOST_NOT_ALLOWED' ? error.message : 'it is not reachable';
}
