// The short-lived tokens that the console signs in with: by a one-time link, or by an identity provider. By password, the console creates
// its token itself (`POST /users/{user}/tokens`).
import { randomUUID } from 'node:crypto';
import type { Actor, Principal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import type { Directory } from '../authorization/directory.ts';
import type { OidcSignIn } from './oidc_sign_in.ts';
import type { OidcUsers } from './oidc_users.ts';
import type { SignInLinks } from './sign_in_links.ts';
import type { Tokens } from './tokens.ts';

/** How long one stays signed in. */
const consoleTokenMs = 12 * 3_600_000;

export interface SignInCode {
  readonly identityProvider: string;
  readonly code: string;
  readonly codeVerifier: string;
  readonly redirectUri: string;
  readonly nonce: string;
}

export type SignInRequest = { readonly link: string } | SignInCode;

export interface ConsoleToken {
  readonly user: string;
  readonly name: string;
  readonly secret: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

export interface ConsoleTokensOptions {
  readonly links: SignInLinks;
  readonly oidc: OidcSignIn;
  readonly oidcUsers: Pick<OidcUsers, 'principalOf'>;
  readonly directory: Directory;
  readonly tokens: Tokens;
  readonly clock?: () => number;
}

export class ConsoleTokens {
  readonly #options: ConsoleTokensOptions;

  constructor(options: ConsoleTokensOptions) {
    this.#options = options;
  }

  /** Throws UNAUTHENTICATED, IDENTITY_PROVIDER_UNAVAILABLE. `actorOf`: for the audit trail. */
  async create(request: SignInRequest, actorOf: (principal: Principal) => Actor): Promise<ConsoleToken> {
    const { directory, tokens, clock = Date.now } = this.#options;
    const { principal, provider } = await this.#principalOf(request);
    if (!directory.isActive(principal)) throw new Failure('UNAUTHENTICATED', 'the user is disabled');
    const name = `console-${randomUUID()}`;
    const expiresAt = clock() + consoleTokenMs;
    const { roles = [] } = principal;
    const { secret } = await tokens.create(
      {
        userId: principal.id,
        name,
        scopes: undefined,
        expiresAt,
        signIn: provider === undefined ? undefined : { provider, roles },
      },
      actorOf(principal),
    );
    return { user: principal.name, name, secret, expiresAt };
  }

  async #principalOf(
    request: SignInRequest,
  ): Promise<{ readonly principal: Principal; readonly provider?: string | undefined }> {
    const { links, oidc, oidcUsers, directory } = this.#options;
    if ('link' in request) {
      const id = links.redeem(request.link);
      return { principal: { id, name: directory.nameOf(id) } };
    }
    const { identityProvider, ...code } = request;
    return oidcUsers.principalOf(await oidc.idTokenOf(identityProvider, code));
  }
}
