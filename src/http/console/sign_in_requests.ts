// Signing in to the console: the ways there are (`GET /console/sign_in_methods`), and a one-time link or the code of an identity provider
// for a short-lived token (`POST /console/tokens`). Open to callers without credentials; the response is in the envelope of the API.
import type { IncomingMessage } from 'node:http';
import type { AuditTrail } from '../../access/audit/audit_log.ts';
import type { ConsoleTokens, SignInRequest } from '../../access/authentication/console_tokens.ts';
import type { FailedLogins } from '../../access/authentication/failed_logins.ts';
import type { OidcSignIn } from '../../access/authentication/oidc_sign_in.ts';
import type { RateLimits } from '../../access/limits/rate_limits.ts';
import type { Principal } from '../../model/principal.ts';
import { type ApiResponse, successResponse } from '../../standard/envelope.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { parseJson } from '../../standard/json/parse_json.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { readBody } from '../bodies/body.ts';
import { isLoopback } from '../connection/transport.ts';
import { failedAuthenticationCost, refuseOtherSites } from '../request_authentication.ts';
import { CallActor } from '../request_context.ts';
import { systemEndpointCost } from '../request_pipeline.ts';

export interface SignInRequestsOptions {
  readonly consoleTokens: ConsoleTokens;
  readonly oidcSignIn: Pick<OidcSignIn, 'methods'>;
  readonly failedLogins: Pick<FailedLogins, 'beginAttempt' | 'recordFailure'>;
  readonly addressOf: (incoming: IncomingMessage) => string;
  readonly limits: Pick<RateLimits, 'chargeAddress'>;
  readonly audit: Pick<AuditTrail, 'enqueue'>;
}

const methodsPath = '/console/sign_in_methods';
const tokensPath = '/console/tokens';
const bodyBytesMax = 16_384;
const fieldCharactersMax = 4096;

export class SignInRequests {
  readonly #options: SignInRequestsOptions;

  constructor(options: SignInRequestsOptions) {
    this.#options = options;
  }

  /** Whether a path is one of sign-in. */
  static has(path: string): boolean {
    return path === methodsPath || path === tokensPath;
  }

  /** Throws a Failure to respond with. */
  async serve(incoming: IncomingMessage, path: string, requestId: string): Promise<ApiResponse> {
    const { addressOf, limits } = this.#options;
    const method = path === methodsPath ? 'GET' : 'POST';
    if (incoming.method !== method)
      throw new Failure('METHOD_NOT_ALLOWED', `this URI supports only ${method}`, { allow: [method] });
    const address = addressOf(incoming);
    limits.chargeAddress(address, systemEndpointCost);
    if (path === tokensPath) return this.#createToken(incoming, address, requestId);
    const identityProviders = await this.#options.oidcSignIn.methods();
    return successResponse({ outcome: 'done', result: { identityProviders } }, noKey, noKey);
  }

  async #createToken(incoming: IncomingMessage, address: string, requestId: string): Promise<ApiResponse> {
    const { audit, consoleTokens, failedLogins, limits } = this.#options;
    const actor = new CallActor('tokens.create', requestId, address, tokensPath);
    const actorOf = ({ id, name }: Principal) => Object.assign(actor, { id, name });
    try {
      refuseOtherSites(incoming);
      const request = await requestOf(incoming);
      if ('link' in request && !isLoopback(address))
        throw new Failure(
          'FORBIDDEN',
          'the sign-in link works only from the machine of the server; sign in with a token',
        );
      await failedLogins.beginAttempt(address, undefined);
      const { user, name, secret, expiresAt } = await consoleTokens.create(request, actorOf);
      const uri = uriOf('v2', [segment('users', user), segment('tokens', name)]);
      const record = { name, user, secret, expiresAt: new Date(expiresAt).toISOString(), uri };
      return successResponse({ outcome: 'created', record, created: true, uri }, noKey, noKey);
    } catch (error) {
      if (error instanceof Failure && (error.code === 'UNAUTHENTICATED' || error.code === 'FORBIDDEN')) {
        await failedLogins.recordFailure(address, undefined);
        limits.chargeAddress(address, failedAuthenticationCost);
        audit.enqueue({ action: actor.action, requestId, address, target: tokensPath }, { outcome: error.code });
      }
      throw error;
    }
  }
}

/** Neither response is a list. */
const noKey = () => '';

async function requestOf(incoming: IncomingMessage): Promise<SignInRequest> {
  // A page of another site cannot send this type without asking first (CORS), which is refused.
  if (!/^application\/json\s*(;|$)/i.test(incoming.headers['content-type'] ?? ''))
    throw new Failure('UNSUPPORTED_MEDIA_TYPE', 'the body must be application/json');
  const body = parseJson((await readBody(incoming, bodyBytesMax, () => {})).content.toString());
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalidParameter('', 'type', 'must be an object');
  const fields = body as Readonly<Record<string, unknown>>;
  const text = (name: string): string => {
    const value = fields[name];
    if (typeof value === 'string' && value !== '' && value.length <= fieldCharactersMax) return value;
    throw invalidParameter(`/${name}`, 'type', `must be a string of 1 to ${fieldCharactersMax} characters`);
  };
  if ('link' in fields) return { link: text('link') };
  return {
    identityProvider: text('identityProvider'),
    code: text('code'),
    codeVerifier: text('codeVerifier'),
    redirectUri: text('redirectUri'),
    nonce: text('nonce'),
  };
}
