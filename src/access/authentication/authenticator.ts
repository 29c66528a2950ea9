// Authentication: turns an Authorization header into a session. Knows no HTTP.
import { createHash, timingSafeEqual } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Principal } from '../../model/principal.ts';
import { rootPrincipal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import { Authorizer, type AuthorizerOptions } from '../authorization/authorizer.ts';
import type { Directory } from '../authorization/directory.ts';
import type { Token, User } from '../authorization/directory_types.ts';
import type { FailedLogins } from './failed_logins.ts';
import type { OidcUsers } from './oidc_users.ts';
import type { Passwords } from './passwords.ts';

/** Recognizable to secret scanners; 256 random bits and a checksum follow. */
export const tokenPrefix = 'tbl_';

/** Credentials that were verified. */
export interface Session {
  readonly principal: Principal;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  readonly credential: 'root token' | 'token' | 'password' | 'identity provider';
  readonly token: Token | undefined;
  /** `credentialsVersion` of the directory when the credentials were last verified. */
  version: number;
}

export interface AuthenticatorOptions extends Omit<AuthorizerOptions, 'directory'> {
  readonly rootToken: string;
  readonly directory: Directory;
  readonly passwords: Passwords;
  readonly failedLogins: FailedLogins;
  readonly oidc: OidcUsers;
  /** The ids of the roles that a provider may assign; undefined if its users may not sign in. */
  readonly rolesOfProvider: (providerId: string) => ReadonlySet<string> | undefined;
  readonly clock?: () => number;
}

const authorizationCharactersMax = 16_384;
const sessionsMax = 20_000;
const neverMs = Number.MAX_SAFE_INTEGER;
/** Recording the last use at each request would allocate a number object that outlives the request. */
const lastUseIntervalMs = 1000;

export class Authenticator {
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly #options: AuthenticatorOptions;
  readonly #clock: () => number;
  readonly #rootToken: Buffer;
  /** By the unparsed Authorization header. */
  readonly #sessions = new Map<string, Session>();
  /** Password verifications in progress, by address and credentials. */
  readonly #attempts = new Map<string, Promise<Session>>();
  /** One principal for each user or token: rights are cached by this object. */
  readonly #principals = new WeakMap<User | Token, Principal>();

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
    this.directory = options.directory;
    this.authorizer = new Authorizer(options);
    this.#clock = options.clock ?? Date.now;
    this.#rootToken = Buffer.from(options.rootToken);
  }

  /**
   * Throws UNAUTHENTICATED, and RATE_LIMITED after too many failed attempts. Returns a promise only if a password or a signature has
   * to be verified, or the credentials are not valid.
   */
  authenticate(authorization: string | undefined, address: string): Session | Promise<Session> {
    if (authorization === undefined || authorization === '') throw unauthenticated('credentials are missing');
    const cached = this.#sessions.get(authorization);
    if (cached) {
      const now = this.#clock();
      if (this.#isValidAt(cached, now)) {
        if (cached.token) recordUse(cached.token, now);
        return cached;
      }
    }
    if (authorization.length > authorizationCharactersMax)
      throw unauthenticated('the Authorization header is too long');
    const [, scheme = '', value = ''] = /^([A-Za-z]+) +([\x21-\x7e]+)$/.exec(authorization) ?? [];
    const cache = (session: Session) => this.#cacheSession(authorization, session);
    switch (scheme.toLowerCase()) {
      case 'bearer':
        return this.#authenticateBearer(value, address, cache);
      case 'basic':
        return this.#authenticateBasic(value, address, cache);
      default:
        throw unauthenticated('the Authorization header is neither "Bearer <token>" nor "Basic <base64>"');
    }
  }

  /** Whether the credentials of an existing session are still valid. */
  isValid(session: Session): boolean {
    return this.#isValidAt(session, this.#clock());
  }

  #isValidAt(session: Session, now: number): boolean {
    if (session.expiresAt <= now) return false;
    const { credentialsVersion } = this.directory;
    if (session.version === credentialsVersion) return true;
    if (!this.#revalidate(session)) return false;
    session.version = credentialsVersion;
    return true;
  }

  /** Called after some credentials were invalidated, which need not be those of this session. */
  #revalidate({ principal, credential, token }: Session): boolean {
    if (!this.directory.isActive(principal)) return false;
    if (credential === 'root token') return true;
    // A password may have been changed: it is verified again, which the cache of verified passwords makes cheap.
    if (credential !== 'token' || token === undefined || this.directory.tokens.get(token.digest) !== token)
      return false;
    const roles = this.#rolesOf(token);
    return roles === undefined ? token.signIn === undefined : isDeepStrictEqual(roles, principal.roles);
  }

  #cacheSession(authorization: string, session: Session): Session {
    // Cleared as a whole: deleting entries one by one makes the map rehash repeatedly.
    if (this.#sessions.size >= sessionsMax) this.#sessions.clear();
    this.#sessions.set(authorization, session);
    return session;
  }

  #authenticateBearer(
    value: string,
    address: string,
    cache: (session: Session) => Session,
  ): Session | Promise<Session> {
    const session = this.#sessionOfSecret(value);
    if (session) return cache(session);
    if (!value.startsWith(tokenPrefix) && value.split('.').length === 3)
      return this.#authenticateJwt(value, address, cache);
    return this.#refuseToken(address);
  }

  async #refuseToken(address: string): Promise<never> {
    const { failedLogins } = this.#options;
    await failedLogins.beginAttempt(address, undefined);
    await failedLogins.recordFailure(address, undefined);
    throw unauthenticated('the token is not valid');
  }

  async #authenticateJwt(value: string, address: string, cache: (session: Session) => Session): Promise<Session> {
    const { failedLogins, oidc } = this.#options;
    try {
      const { principal, expiresAt } = await oidc.principalOf(value);
      if (!this.directory.isActive(principal)) throw unauthenticated('the token is not valid');
      return cache(this.#createSession(principal, 'identity provider', expiresAt));
    } catch (error) {
      if (error instanceof Failure && error.code === 'UNAUTHENTICATED') {
        await failedLogins.beginAttempt(address, undefined);
        await failedLogins.recordFailure(address, undefined);
      }
      throw error;
    }
  }

  #authenticateBasic(value: string, address: string, cache: (session: Session) => Session): Session | Promise<Session> {
    const decoded = /^[A-Za-z0-9+/]+={0,2}$/.test(value) ? Buffer.from(value, 'base64').toString() : '';
    const colon = decoded.indexOf(':');
    if (colon < 0) throw unauthenticated('the user name or password is not valid');
    const [name, secret] = [decoded.slice(0, colon), decoded.slice(colon + 1)];
    // For tools that support only Basic, a token is accepted as the password.
    if (secret.startsWith(tokenPrefix)) {
      const session = this.#sessionOfSecret(secret);
      if (session?.principal.name === name) return cache(session);
    }
    // The first requests of one client often arrive together: they count as one attempt.
    const key = `${address} ${value}`;
    const running = this.#attempts.get(key);
    if (running) return running;
    const attempt = this.#authenticatePassword(name, secret, address, cache).finally(() => this.#attempts.delete(key));
    this.#attempts.set(key, attempt);
    return attempt;
  }

  async #authenticatePassword(
    name: string,
    secret: string,
    address: string,
    cache: (session: Session) => Session,
  ): Promise<Session> {
    const { passwords, failedLogins } = this.#options;
    const hash = this.directory.userNamed(name)?.spec.passwordHash;
    // Before the hash is computed: a throttled caller must not cause that work. Recently verified pairs are not throttled.
    if (!passwords.isVerified(hash, secret)) await failedLogins.beginAttempt(address, name);
    const isCorrect = await passwords.check(hash, secret);
    // Looked up again: the user may have changed while the hash was computed.
    const user = this.directory.userNamed(name);
    if (!isCorrect || !user || user.spec.passwordHash !== hash || !this.directory.isActive(this.#principalOf(user))) {
      await failedLogins.recordFailure(address, name);
      throw unauthenticated('the user name or password is not valid');
    }
    const session = this.#createSession(this.#principalOf(user), 'password', neverMs);
    await failedLogins.recordSuccess(address, name);
    return cache(session);
  }

  /** The session of the root token or of a user's token; undefined for any other secret. */
  #sessionOfSecret(secret: string): Session | undefined {
    if (!secret.startsWith(tokenPrefix)) return undefined;
    const secretBytes = Buffer.from(secret);
    if (secretBytes.length === this.#rootToken.length && timingSafeEqual(secretBytes, this.#rootToken))
      return this.#createSession(rootPrincipal, 'root token', neverMs);
    const token = this.directory.tokens.get(digestOfToken(secret));
    const user = token && this.directory.users.get(token.userId);
    if (!token || !user) return undefined;
    if (token.signIn && !this.#rolesOf(token)) return undefined;
    const expiresAt = token.expiresAt ?? neverMs;
    const principal = this.#principalOf(user, token);
    if (expiresAt <= this.#clock() || !this.directory.isActive(principal)) return undefined;
    token.lastUsedAt = this.#clock();
    return this.#createSession(principal, 'token', expiresAt, token);
  }

  /** The roles that the identity provider assigned at the sign-in and may still assign. */
  #rolesOf({ signIn }: Token): readonly string[] | undefined {
    const assignable = signIn && this.#options.rolesOfProvider(signIn.provider);
    return assignable && signIn.roles.filter((id) => assignable.has(id));
  }

  #principalOf(user: User, token?: Token): Principal {
    const roles = token && this.#rolesOf(token);
    if (roles) return { id: user.id, name: user.name, roles };
    const key = token ?? user;
    const cached = this.#principals.get(key);
    if (cached?.name === user.name) return cached;
    const { id, name } = user;
    const principal: Principal =
      id === rootPrincipal.id && !token?.scopes
        ? rootPrincipal
        : { id, name, ...(token?.scopes ? { scopes: token.scopes } : {}) };
    this.#principals.set(key, principal);
    return principal;
  }

  #createSession(principal: Principal, credential: Session['credential'], expiresAt: number, token?: Token): Session {
    return { principal, credential, expiresAt, token, version: this.directory.credentialsVersion };
  }
}

/** SHA-256 in hexadecimal: the secrets are random and long, so a slow hash would add no security. */
export function digestOfToken(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

function recordUse(token: Token, now: number): void {
  const { lastUsedAt } = token;
  if (lastUsedAt === undefined || now - lastUsedAt >= lastUseIntervalMs || now < lastUsedAt) token.lastUsedAt = now;
}

function unauthenticated(message: string): Failure {
  return new Failure('UNAUTHENTICATED', message);
}
