// Who sends a request: its credentials are checked when it arrives, and again after it has waited. Those that a browser adds to the requests
// of other sites do not count.
import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import type { Authenticator, Session } from '../access/authentication/authenticator.ts';
import type { RateLimits } from '../access/limits/rate_limits.ts';
import { Failure } from '../standard/failure.ts';
import type { RequestForwarding } from './forwarding/request_forwarding.ts';
import { authorizationOf } from './request_headers.ts';

interface RequestAuthenticationOptions {
  readonly access: Pick<Authenticator, 'authenticate' | 'isValid'>;
  readonly limits: Pick<RateLimits, 'chargeAddress'>;
  readonly forwarding?: Pick<RequestForwarding<never>, 'authorizationOf'> | undefined;
}

/** A request under way. */
export interface Authenticated {
  session: Session;
  readonly incoming: IncomingMessage;
  readonly actor: { readonly address: string };
}

/** Rate limit cost of a failed authentication, charged to the address. */
export const failedAuthenticationCost = 10;

export class RequestAuthentication {
  readonly #options: RequestAuthenticationOptions;

  constructor(options: RequestAuthenticationOptions) {
    this.#options = options;
  }

  /** Returns a promise only when a password hash or a signature must be computed. Throws UNAUTHENTICATED, RATE_LIMITED. */
  authenticate(incoming: IncomingMessage, address: string): Session | Promise<Session> {
    try {
      const session = this.#sessionOf(incoming, address);
      return session instanceof Promise ? session.catch((error: unknown) => this.#refused(address, error)) : session;
    } catch (error) {
      return this.#refused(address, error);
    }
  }

  /**
   * Undefined if the credentials are certainly valid. Otherwise they are checked as those of a new request, because they need not be the
   * ones that have ended. Throws UNAUTHENTICATED.
   */
  authenticateAgain(request: Authenticated): Promise<void> | undefined {
    const { session, incoming, actor } = request;
    if (this.#options.access.isValid(session)) return undefined;
    return (async () => {
      const current = await this.#sessionOf(incoming, actor.address);
      if (!isDeepStrictEqual(current.principal, session.principal)) throw revoked();
      request.session = current;
    })();
  }

  #sessionOf(incoming: IncomingMessage, address: string): Session | Promise<Session> {
    const authorization = this.#options.forwarding?.authorizationOf(incoming) ?? authorizationOf(incoming);
    if (authorization === null)
      throw new Failure('UNAUTHENTICATED', 'the request has more than one Authorization header');
    return this.#options.access.authenticate(authorization, address);
  }

  /** Failed authentication counts against the rate limit of the address; RATE_LIMITED takes precedence over the error. */
  #refused(address: string, error: unknown): never {
    this.#options.limits.chargeAddress(address, failedAuthenticationCost);
    throw error;
  }
}

export const revoked = () => new Failure('UNAUTHENTICATED', 'the credentials are no longer valid');

/**
 * Browsers send the credentials that they remember with requests from any page, and name the origin in Sec-Fetch-Site. Pages of other
 * sites must not use those credentials. Clients that are not browsers do not send this header.
 */
export function refuseOtherSites({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'];
  if (site === 'same-origin' || site === 'none') return;
  // Over plain HTTP, browsers send Sec-Fetch-Site to this machine only, but the origin with each request that changes something.
  const { origin, authorization } = headers;
  const mayBeRemembered = authorization === undefined || /^basic /i.test(authorization);
  if (site === undefined && (origin === undefined || !mayBeRemembered || URL.parse(origin)?.host === headers.host))
    return;
  throw new Failure('FORBIDDEN', 'requests from pages of other sites are refused');
}
