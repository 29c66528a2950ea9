// Verifies tokens of identity providers (JWTs of OpenID Connect) and extracts subject, roles and expiry. The cryptography is in jose,
// keys are in oidc_keys.ts, and oidc_users.ts maps subjects to users.

import { createHash } from 'node:crypto';
import type { errors, JWTPayload, JWTVerifyOptions } from 'jose';
import { signingAlgorithms } from '../../model/signing_algorithms.ts';
import type { Observe } from '../../observe/observations.ts';
import { strictBase64url } from '../../standard/base64url.ts';
import { Failure } from '../../standard/failure.ts';
import { type FetchKeys, type IssuerKeyLimits, IssuerKeys, issuerKeyLimits, jose, secureUrl } from './oidc_keys.ts';

export interface IdentityProvider {
  readonly id: string;
  readonly name: string;
  /** Exactly as in the claim `iss`. */
  readonly issuer: string;
  /** The claim `aud` must contain one of them. */
  readonly audiences: readonly string[];
  /** The accepted algorithms. HS* only with a `clientSecret`. */
  readonly algorithms: readonly string[];
  readonly jwksUri?: string;
  /** `sub`, or the path of another claim. */
  readonly userClaim: string;
  /** A claim, or its path: `realm_access.roles`. */
  readonly rolesClaim?: string;
  /** Maps values of the claim to names of roles. */
  readonly roleMapping?: Readonly<Record<string, string>>;
  readonly clientSecret?: string;
  /** The client id of the console; absent: it is not for the console. */
  readonly consoleClientId?: string;
  /** Since `iat`, which is then required. */
  readonly maxTokenAgeSeconds?: number;
  readonly disabled: boolean;
}

export interface VerifiedToken {
  readonly providerId: string;
  readonly issuer: string;
  readonly subject: string;
  /** The value of `userClaim`; absent if the issuer has not verified it. */
  readonly userName?: string;
  /** Names of roles in this server; each once. */
  readonly roles: readonly string[];
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  readonly tokenId?: string;
}

export interface OidcOptions {
  readonly fetch: FetchKeys;
  readonly clock?: () => number;
  readonly observe: Observe;
  /** Called when the keys of an issuer changed: sessions of its tokens must be verified again. */
  readonly changed?: () => void;
  readonly limits?: Partial<IssuerKeyLimits>;
}

interface ProviderKeys {
  /** The settings with which the keys were fetched; if they change, the keys are fetched again. */
  readonly source: string;
  readonly keys: IssuerKeys;
}

interface Issuer {
  readonly provider: IdentityProvider;
  readonly algorithms: string[];
  /** Undefined if only the client secret is used. */
  readonly keys: IssuerKeys | undefined;
}

const tokenCharactersMax = 16_384;
const clockToleranceSeconds = 30;
const verifiedMax = 20_000;
const claimCharactersMax = 512;
const roleValuesMax = 1000;
/** How many keys are tried for a token that does not name its key. */
const keysTriedMax = 8;
const secretBytesMin: Readonly<Record<string, number>> = { HS256: 32, HS384: 48, HS512: 64 };
/** `Ed25519` is the newer name of `EdDSA`, which tokens may have. */
const asymmetric: readonly string[] = [...signingAlgorithms.filter((name) => !(name in secretBytesMin)), 'Ed25519'];

export class Oidc {
  readonly #options: OidcOptions;
  readonly #clock: () => number;
  #issuers = new Map<string, Issuer>();
  #keysOfProvider = new Map<string, ProviderKeys>();
  /** By SHA-256 of the token. */
  readonly #verified = new Map<string, VerifiedToken>();
  /** Incremented when earlier verifications become invalid. */
  #generation = 0;

  constructor(options: OidcOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  /** Replaces all providers. Fetches their keys in advance. */
  setProviders(providers: readonly IdentityProvider[]): void {
    const before = this.#keysOfProvider;
    this.#keysOfProvider = new Map();
    this.#issuers = new Map();
    for (const provider of providers) {
      if (provider.disabled || this.#issuers.has(provider.issuer)) continue;
      const algorithms = algorithmsOf(provider);
      const needsKeys = algorithms.some((name) => asymmetric.includes(name)) && secureUrl(provider.issuer);
      const keys = needsKeys ? this.#keysOf(provider, before) : undefined;
      this.#issuers.set(provider.issuer, { provider, algorithms, keys });
    }
    for (const { keys } of before.values()) keys.stop();
    this.#invalidate();
  }

  /** The cached result for a token that was verified and has not expired. */
  cached(token: string): VerifiedToken | undefined {
    if (token.length > tokenCharactersMax) return undefined;
    const key = digestOf(token);
    const known = this.#verified.get(key);
    if (!known || known.expiresAt > this.#clock()) return known;
    this.#verified.delete(key);
    return undefined;
  }

  /** Throws UNAUTHENTICATED, and IDENTITY_PROVIDER_UNAVAILABLE if the keys are unavailable. */
  async verify(token: string): Promise<VerifiedToken> {
    for (;;) {
      const generation = this.#generation;
      const issuer = this.#issuerOf(token);
      const found = verifiedOf(await this.#payloadOf(token, issuer), issuer.provider, this.#clock());
      // Verified again if providers or keys changed in the meantime.
      if (generation !== this.#generation) continue;
      this.#remember(token, found);
      return found;
    }
  }

  /** When the keys of a provider were last fetched, in milliseconds since 1970, and why fetching has failed since. */
  status(id: string): { readonly keysFetchedAt: number | undefined; readonly error: string | undefined } {
    return this.#keysOfProvider.get(id)?.keys.status() ?? { keysFetchedAt: undefined, error: undefined };
  }

  /** Stops fetching. */
  close(): void {
    this.setProviders([]);
  }

  #keysOf({ id, name, issuer, jwksUri }: IdentityProvider, before: Map<string, ProviderKeys>): IssuerKeys {
    const source = JSON.stringify([name, issuer, jwksUri]);
    const known = before.get(id);
    if (known?.source === source) {
      before.delete(id);
      this.#keysOfProvider.set(id, known);
      return known.keys;
    }
    const { observe, fetch, limits } = this.#options;
    const keys = new IssuerKeys({
      name,
      issuer,
      jwksUri,
      fetch,
      clock: this.#clock,
      observe,
      limits: { ...issuerKeyLimits, ...limits },
      changed: () => {
        this.#invalidate();
        this.#options.changed?.();
      },
    });
    this.#keysOfProvider.set(id, { source, keys });
    keys.start();
    return keys;
  }

  #invalidate(): void {
    this.#generation++;
    this.#verified.clear();
  }

  #remember(token: string, found: VerifiedToken): void {
    if (this.#verified.size >= verifiedMax) {
      for (const oldest of this.#verified.keys()) {
        this.#verified.delete(oldest);
        break;
      }
    }
    this.#verified.set(digestOf(token), found);
  }

  /** The issuer that the token claims, not verified yet. */
  #issuerOf(token: string): Issuer {
    if (token.length > tokenCharactersMax || !token.split('.').every(strictBase64url)) throw notValid();
    let issuer: string | undefined;
    try {
      const { alg, crit, typ } = jose().decodeProtectedHeader(token);
      if (typeof alg !== 'string' || crit !== undefined || !isType(typ, headerTypes)) throw notValid();
      issuer = jose().decodeJwt(token).iss;
    } catch (cause) {
      throw notValid(undefined, cause);
    }
    const found = typeof issuer === 'string' ? this.#issuers.get(issuer) : undefined;
    if (!found) throw notValid('its issuer is unknown');
    return found;
  }

  async #payloadOf(token: string, { provider, algorithms, keys }: Issuer): Promise<JWTPayload> {
    const options: JWTVerifyOptions = {
      issuer: provider.issuer,
      audience: [...provider.audiences],
      algorithms,
      requiredClaims: ['exp'],
      clockTolerance: clockToleranceSeconds,
      currentDate: new Date(this.#clock()),
      ...(provider.maxTokenAgeSeconds === undefined ? {} : { maxTokenAge: provider.maxTokenAgeSeconds }),
    };
    const { alg = '' } = jose().decodeProtectedHeader(token);
    try {
      // Chosen by the algorithm, so that a public key is never used as an HMAC secret.
      if (!algorithms.includes(alg)) throw notValid();
      if (Object.hasOwn(secretBytesMin, alg))
        return (await jose().jwtVerify(token, new TextEncoder().encode(provider.clientSecret), options)).payload;
      if (!keys) throw notValid();
      return (await jose().jwtVerify(token, keys.keyOf, options)).payload;
    } catch (error) {
      if (error instanceof Failure) throw error;
      if (error instanceof jose().errors.JWKSMultipleMatchingKeys) return tryEach(token, error, options);
      throw error instanceof jose().errors.JWTExpired ? notValid('it has expired', error) : notValid(undefined, error);
    }
  }
}

/** For a token that does not name its key, of an issuer with several keys. */
async function tryEach(
  token: string,
  keys: errors.JWKSMultipleMatchingKeys,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  let keysTried = 0;
  for await (const key of keys) {
    if (++keysTried > keysTriedMax) break;
    try {
      return (await jose().jwtVerify(token, key, options)).payload;
    } catch (error) {
      if (error instanceof jose().errors.JWSSignatureVerificationFailed) continue;
      throw error instanceof jose().errors.JWTExpired ? notValid('it has expired', error) : notValid(undefined, error);
    }
  }
  throw notValid();
}

function algorithmsOf({ algorithms, clientSecret }: IdentityProvider): string[] {
  const secretBytes = Buffer.byteLength(clientSecret ?? '');
  return algorithms.filter(
    (name) => asymmetric.includes(name) || secretBytes >= (secretBytesMin[name] ?? Number.POSITIVE_INFINITY),
  );
}

function verifiedOf(payload: JWTPayload, provider: IdentityProvider, now: number): VerifiedToken {
  const { sub, exp = 0, iat, jti } = payload;
  if (iat !== undefined && !(typeof iat === 'number' && iat * 1000 <= now + clockToleranceSeconds * 1000))
    throw notValid();
  const userName = claimOf(payload, provider.userClaim);
  if (!isName(sub) || !isName(userName)) throw notValid();
  if (payload.events !== undefined || !isType(payload.typ, claimedTypes)) throw notValid();
  const { email_verified: vouched } = payload;
  if (provider.userClaim === 'email' && vouched !== undefined && !isVerified(vouched)) throw notValid();
  return {
    providerId: provider.id,
    issuer: provider.issuer,
    subject: sub,
    ...(provider.userClaim === 'email' && !isVerified(vouched) ? {} : { userName }),
    roles: rolesOf(payload, provider),
    expiresAt: Math.min((exp + clockToleranceSeconds) * 1000, Number.MAX_SAFE_INTEGER),
    ...(isName(jti) ? { tokenId: jti } : {}),
  };
}

function rolesOf(payload: JWTPayload, { rolesClaim, roleMapping = {} }: IdentityProvider): string[] {
  if (rolesClaim === undefined) return [];
  const claim = claimOf(payload, rolesClaim);
  const values: unknown[] = Array.isArray(claim) ? claim.slice(0, roleValuesMax) : [claim];
  const named = values.flatMap((value) =>
    typeof value === 'string' && Object.hasOwn(roleMapping, value) ? [roleMapping[value] as string] : [],
  );
  return [...new Set(named)];
}

/** Finds a claim by its name, which may contain dots (`https://example.com/roles`), or by its path. */
function claimOf(payload: JWTPayload, path: string): unknown {
  if (Object.hasOwn(payload, path)) return payload[path];
  let value: unknown = payload;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function isName(text: unknown): text is string {
  return typeof text === 'string' && text.trim() !== '' && text.length <= claimCharactersMax && text.isWellFormed();
}

/** Some issuers send it as text. */
const isVerified = (claim: unknown): boolean => claim === true || claim === 'true';

/** Media types of tokens that authenticate (RFC 7519, RFC 9068): not those that report a logout or another event. */
const headerTypes: readonly string[] = ['jwt', 'at+jwt'];
/** Keycloak repeats the use of a token in a claim; a refresh token does not authenticate. */
const claimedTypes: readonly string[] = ['bearer', 'id', 'jwt', 'at+jwt'];

function isType(type: unknown, types: readonly string[]): boolean {
  if (type === undefined) return true;
  return typeof type === 'string' && types.includes(type.toLowerCase().replace(/^application\//, ''));
}

const digestOf = (token: string): string => createHash('sha256').update(token).digest('base64');

/** The cause is for the log; the caller sees only `reason`. */
function notValid(reason?: string, cause?: unknown): Failure {
  const message = reason === undefined ? 'the token is not valid' : `the token is not valid: ${reason}`;
  return cause instanceof Failure ? cause : new Failure('UNAUTHENTICATED', message, {}, { cause });
}
