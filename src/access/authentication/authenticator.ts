// The gate: whose credentials these are, and what the rest of the house asks about what they may. Knows no HTTP.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Principal } from '../../model/principal.ts';
import { rootPrincipal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import { Authorizer, type AuthorizerOptions } from '../authorization/authorizer.ts';
import type { Directory } from '../authorization/directory.ts';
import type { Token, User } from '../authorization/directory_types.ts';
import type { FailedLogins } from './failed_logins.ts';
import type { OidcUsers } from './oidc_users.ts';
import type { Passwords } from './passwords.ts';

/** Recognisable to secret scanners; 256 random bits and a checksum follow. */
export const tokenPrefix = 'tbl_';

/** Credentials that were found good. */
export interface Session {
  readonly principal: Principal;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  /** How they were given. */
  readonly credential: 'root token' | 'token' | 'password' | 'identity provider';
  readonly token: Token | undefined;
  /** Of the directory, when they were looked at. */
  version: number;
}

export interface AuthenticatorOptions extends Omit<AuthorizerOptions, 'directory'> {
  readonly rootToken: string;
  readonly directory: Directory;
  readonly passwords: Passwords;
  readonly failedLogins: Pick<FailedLogins, 'beginAttempt' | 'recordFailure' | 'recordSuccess'>;
  readonly oidc: OidcUsers;
  readonly clock?: () => number;
}

const authorizationCharactersMax = 16_384;
const sessionsMax = 20_000;
const neverMs = Number.MAX_SAFE_INTEGER;
/** A number written at each request is a new object each time, and one that outlives it. */
const useNotedEveryMs = 1000;

export class Authenticator {
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly #options: AuthenticatorOptions;
  readonly #clock: () => number;
  readonly #rootToken: Buffer;
  /** By the header as it came. */
  readonly #sessions = new Map<string, Session>();
  /** Passwords that are being worked out. */
  readonly #attempts = new Map<string, Promise<Session>>();
  /** One for each set of credentials, so that what is worked out of it is found again. */
  readonly #principals = new WeakMap<User | Token, Principal>();

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
    this.directory = options.directory;
    this.authorizer = new Authorizer(options);
    this.#clock = options.clock ?? Date.now;
    this.#rootToken = Buffer.from(options.rootToken);
  }

  /**
   * Throws UNAUTHENTICATED, and RATE_LIMITED where too many failed before. A promise only where a password or a signature has to be
   * worked out.
   */
  authenticate(authorization: string | undefined, address: string): Session | Promise<Session> {
    if (authorization === undefined || authorization === '') throw unauthenticated('credentials are missing');
    const known = this.#sessions.get(authorization);
    if (known) {
      const now = this.#clock();
      if (this.#isGoodAt(known, now)) {
        if (known.token) noteUse(known.token, now);
        return known;
      }
    }
    if (authorization.length > authorizationCharactersMax)
      throw unauthenticated('the Authorization header is too long');
    const [, scheme = '', value = ''] = /^([A-Za-z]+) +([\x21-\x7e]+)$/.exec(authorization) ?? [];
    const keep = (session: Session) => this.#keep(authorization, session);
    switch (scheme.toLowerCase()) {
      case 'bearer':
        return this.#bearer(value, address, keep);
      case 'basic':
        return this.#basic(value, address, keep);
      default:
        throw unauthenticated('the Authorization header is neither "Bearer <token>" nor "Basic <base64>"');
    }
  }

  /** Whether credentials that were good still are. */
  isValid(session: Session): boolean {
    return this.#isGoodAt(session, this.#clock());
  }

  #isGoodAt(session: Session, now: number): boolean {
    if (session.expiresAt <= now) return false;
    const { credentialsVersion } = this.directory;
    if (session.version === credentialsVersion) return true;
    if (!this.#isStillGood(session)) return false;
    session.version = credentialsVersion;
    return true;
  }

  /** Something that makes credentials void changed since; it need not have been these. */
  #isStillGood({ principal, credential, token }: Session): boolean {
    if (!this.directory.isActive(principal)) return false;
    if (credential === 'root token') return true;
    // A password may have been changed: it is looked at again, which a cache makes cheap.
    return credential === 'token' && token !== undefined && this.directory.tokens.get(token.digest) === token;
  }

  #keep(authorization: string, session: Session): Session {
    // All at once: a map whose entries go one by one is made anew all the time.
    if (this.#sessions.size >= sessionsMax) this.#sessions.clear();
    this.#sessions.set(authorization, session);
    return session;
  }

  #bearer(value: string, address: string, keep: (session: Session) => Session): Session | Promise<Session> {
    const session = this.#ofSecret(value);
    if (session) return keep(session);
    if (!value.startsWith(tokenPrefix) && value.split('.').length === 3) return this.#jwt(value, address, keep);
    this.#options.failedLogins.beginAttempt(address, undefined);
    this.#options.failedLogins.recordFailure(address, undefined);
    throw unauthenticated('the token is not valid');
  }

  async #jwt(value: string, address: string, keep: (session: Session) => Session): Promise<Session> {
    const { failedLogins, oidc } = this.#options;
    try {
      const { principal, expiresAt } = await oidc.principalOf(value);
      if (!this.directory.isActive(principal)) throw unauthenticated('the token is not valid');
      return keep(this.#session(principal, 'identity provider', expiresAt));
    } catch (error) {
      if (error instanceof Failure && error.code === 'UNAUTHENTICATED') {
        failedLogins.beginAttempt(address, undefined);
        failedLogins.recordFailure(address, undefined);
      }
      throw error;
    }
  }

  #basic(value: string, address: string, keep: (session: Session) => Session): Session | Promise<Session> {
    const decoded = /^[A-Za-z0-9+/]+={0,2}$/.test(value) ? Buffer.from(value, 'base64').toString() : '';
    const colon = decoded.indexOf(':');
    if (colon < 0) throw unauthenticated('the user name or password is not valid');
    const [name, secret] = [decoded.slice(0, colon), decoded.slice(colon + 1)];
    // Where a tool knows Basic only, a token may stand for the password.
    if (secret.startsWith(tokenPrefix)) {
      const session = this.#ofSecret(secret);
      if (session?.principal.name === name) return keep(session);
    }
    // Many first requests of one client come at once: they are one attempt.
    const key = `${address} ${value}`;
    const running = this.#attempts.get(key);
    if (running) return running;
    const attempt = this.#password(name, secret, address, keep).finally(() => this.#attempts.delete(key));
    this.#attempts.set(key, attempt);
    return attempt;
  }

  async #password(
    name: string,
    secret: string,
    address: string,
    keep: (session: Session) => Session,
  ): Promise<Session> {
    const { passwords, failedLogins } = this.#options;
    const hash = this.directory.userNamed(name)?.spec.passwordHash;
    // Before the work: who is slowed down shall not have it done. Who was found good lately is not asked.
    if (!passwords.isVerified(hash, secret)) failedLogins.beginAttempt(address, name);
    const fits = await passwords.check(hash, secret);
    // Looked up again: it may have changed while the password was worked out.
    const user = this.directory.userNamed(name);
    if (!fits || !user || user.spec.passwordHash !== hash || !this.directory.isActive(this.#principalOf(user))) {
      failedLogins.recordFailure(address, name);
      throw unauthenticated('the user name or password is not valid');
    }
    failedLogins.recordSuccess(address, name);
    return keep(this.#session(this.#principalOf(user), 'password', neverMs));
  }

  /** A secret that is one of ours: the root token, or a user's. */
  #ofSecret(secret: string): Session | undefined {
    if (!secret.startsWith(tokenPrefix)) return undefined;
    const given = Buffer.from(secret);
    if (given.length === this.#rootToken.length && timingSafeEqual(given, this.#rootToken))
      return this.#session(rootPrincipal, 'root token', neverMs);
    const token = this.directory.tokens.get(digestOfToken(secret));
    const user = token && this.directory.users.get(token.userId);
    if (!token || !user) return undefined;
    const expiresAt = token.expiresAt ?? neverMs;
    const principal = this.#principalOf(user, token);
    if (expiresAt <= this.#clock() || !this.directory.isActive(principal)) return undefined;
    token.lastUsedAt = this.#clock();
    return this.#session(principal, 'token', expiresAt, token);
  }

  #principalOf(user: User, token?: Token): Principal {
    const key = token ?? user;
    const known = this.#principals.get(key);
    if (known?.name === user.name) return known;
    const { id, name } = user;
    const made: Principal =
      id === rootPrincipal.id && !token?.scopes
        ? rootPrincipal
        : { id, name, ...(token?.scopes ? { scopes: token.scopes } : {}) };
    this.#principals.set(key, made);
    return made;
  }

  #session(principal: Principal, credential: Session['credential'], expiresAt: number, token?: Token): Session {
    return { principal, credential, expiresAt, token, version: this.directory.credentialsVersion };
  }
}

/** SHA-256 in hexadecimal: the secrets are random and long, so that a slow hash would add nothing. */
export function digestOfToken(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

function noteUse(token: Token, now: number): void {
  const { lastUsedAt } = token;
  if (lastUsedAt === undefined || now - lastUsedAt >= useNotedEveryMs || now < lastUsedAt) token.lastUsedAt = now;
}

function unauthenticated(message: string): Failure {
  return new Failure('UNAUTHENTICATED', message);
}
