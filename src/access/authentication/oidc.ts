// Tokens of identity providers (JWTs of OpenID Connect): whether one is good, and what it says of who and until when. Cryptography is
// jose's, keys are oidc_keys.ts; who the subject is here is oidc_users.ts.
import { createHash } from 'node:crypto';
import type { errors, JWTPayload, JWTVerifyOptions } from 'jose';
import type { Observe } from '../../observe/observations.ts';
import { strictBase64url } from '../../standard/base64url.ts';
import { Failure } from '../../standard/failure.ts';
import { type FetchKeys, type IssuerKeyLimits, IssuerKeys, issuerKeyLimits, jose, secureUrl } from './oidc_keys.ts';

export interface IdentityProvider {
  readonly id: string;
  readonly name: string;
  /** Exactly as `iss` has it. */
  readonly issuer: string;
  /** A token is for one of them. */
  readonly audiences: readonly string[];
  /** Those that are accepted. HS* count only with a `clientSecret`. */
  readonly algorithms: readonly string[];
  readonly jwksUri?: string;
  /** `sub`, or the path of another claim. */
  readonly userClaim: string;
  /** A claim, or its path: `realm_access.roles`. */
  readonly rolesClaim?: string;
  /** From values of the claim to names of roles. */
  readonly roleMapping?: Readonly<Record<string, string>>;
  readonly clientSecret?: string;
  /** Since `iat`, which is then required. */
  readonly maxTokenAgeSeconds?: number;
  readonly disabled: boolean;
}

export interface VerifiedToken {
  readonly providerId: string;
  readonly issuer: string;
  readonly subject: string;
  /** What `userClaim` says; absent where the issuer does not vouch for it. */
  readonly userName?: string;
  /** Names of roles here; each once. */
  readonly roles: readonly string[];
  /** From then on it is refused; milliseconds since 1970. */
  readonly expiresAt: number;
  readonly tokenId?: string;
}

export interface OidcOptions {
  readonly fetch: FetchKeys;
  readonly clock?: () => number;
  readonly observe: Observe;
  /** An issuer has other keys than before: sessions that came of tokens are to be looked at again. */
  readonly changed?: () => void;
  readonly limits?: Partial<IssuerKeyLimits>;
}

interface KnownKeys {
  /** What they were fetched for; with another, they are others. */
  readonly place: string;
  readonly keys: IssuerKeys;
}

interface Issuer {
  readonly provider: IdentityProvider;
  readonly algorithms: string[];
  /** Undefined where only the client secret is used. */
  readonly keys: IssuerKeys | undefined;
}

export const tokenCharactersMax = 16_384;
const clockToleranceSeconds = 30;
const verifiedMax = 20_000;
const claimCharactersMax = 512;
const roleValuesMax = 1000;
/** Of keys that a token without a key's name is tried with. */
const keysTriedMax = 8;
const secretBytesMin: Readonly<Record<string, number>> = { HS256: 32, HS384: 48, HS512: 64 };
const asymmetric = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

export class Oidc {
  readonly #options: OidcOptions;
  readonly #clock: () => number;
  #issuers = new Map<string, Issuer>();
  #keysOfProvider = new Map<string, KnownKeys>();
  /** By SHA-256 of the token. */
  readonly #verified = new Map<string, VerifiedToken>();
  /** Counts what makes earlier answers void. */
  #generation = 0;

  constructor(options: OidcOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  /** In place of those before. Fetches their keys ahead of need. */
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
    this.#void();
  }

  /** A token that was found good and still is. */
  cached(token: string): VerifiedToken | undefined {
    if (token.length > tokenCharactersMax) return undefined;
    const key = digestOf(token);
    const known = this.#verified.get(key);
    if (!known || known.expiresAt > this.#clock()) return known;
    this.#verified.delete(key);
    return undefined;
  }

  /** Throws UNAUTHENTICATED, and IDENTITY_PROVIDER_UNAVAILABLE where nobody can tell. */
  async verify(token: string): Promise<VerifiedToken> {
    for (;;) {
      const generation = this.#generation;
      const issuer = this.#issuerOf(token);
      const found = verifiedOf(await this.#payloadOf(token, issuer), issuer.provider, this.#clock());
      // Providers or keys may have changed meanwhile.
      if (generation !== this.#generation) continue;
      this.#remember(token, found);
      return found;
    }
  }

  /** When the keys of a provider were fetched last, in milliseconds since 1970, and why they could not be since. */
  status(id: string): { readonly keysFetchedAt: number | undefined; readonly error: string | undefined } {
    return this.#keysOfProvider.get(id)?.keys.status() ?? { keysFetchedAt: undefined, error: undefined };
  }

  /** Stops fetching. */
  close(): void {
    this.setProviders([]);
  }

  #keysOf({ id, name, issuer, jwksUri }: IdentityProvider, before: Map<string, KnownKeys>): IssuerKeys {
    const place = JSON.stringify([name, issuer, jwksUri]);
    const known = before.get(id);
    if (known?.place === place) {
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
        this.#void();
        this.#options.changed?.();
      },
    });
    this.#keysOfProvider.set(id, { place, keys });
    keys.start();
    return keys;
  }

  #void(): void {
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

  /** Whose the token says it is; nothing of it is proved yet. */
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
    if (!found) throw notValid('its issuer is not known');
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
      // By the kind of algorithm, so that a public key is never taken for a secret.
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

/** A token that does not name its key, of an issuer that has several. */
async function tryEach(
  token: string,
  keys: errors.JWKSMultipleMatchingKeys,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  let tried = 0;
  for await (const key of keys) {
    if (++tried > keysTriedMax) break;
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

/** A claim by its name, which may have dots in it (`https://example.com/roles`), or by its path. */
function claimOf(payload: JWTPayload, path: string): unknown {
  if (Object.hasOwn(payload, path)) return payload[path];
  let at: unknown = payload;
  for (const step of path.split('.')) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return undefined;
    at = (at as Record<string, unknown>)[step];
  }
  return at;
}

function isName(text: unknown): text is string {
  return typeof text === 'string' && text.trim() !== '' && text.length <= claimCharactersMax && text.isWellFormed();
}

/** Some issuers send it as text. */
const isVerified = (claim: unknown): boolean => claim === true || claim === 'true';

/** Media types of tokens that authenticate (RFC 7519, RFC 9068): not those that report a logout or another event. */
const headerTypes: readonly string[] = ['jwt', 'at+jwt'];
/** Keycloak repeats the use of a token in a claim; a refresh token is none that authenticates. */
const claimedTypes: readonly string[] = ['bearer', 'id', 'jwt', 'at+jwt'];

function isType(type: unknown, types: readonly string[]): boolean {
  if (type === undefined) return true;
  return typeof type === 'string' && types.includes(type.toLowerCase().replace(/^application\//, ''));
}

const digestOf = (token: string): string => createHash('sha256').update(token).digest('base64');

/** The cause is for the log; the caller is told no more than `reason`. */
function notValid(reason?: string, cause?: unknown): Failure {
  const message = reason === undefined ? 'the token is not valid' : `the token is not valid: ${reason}`;
  return cause instanceof Failure ? cause : new Failure('UNAUTHENTICATED', message, {}, { cause });
}
