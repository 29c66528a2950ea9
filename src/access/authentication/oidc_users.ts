// Who a token of an identity provider is here: the user that has its subject, made at the first visit where the provider may
// make users; with the roles that the token vouches for.
import type { Principal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import type { Directory } from '../authorization/directory.ts';
import type { User } from '../authorization/directory_types.ts';
import type { Oidc, VerifiedToken } from './oidc.ts';

export interface OidcUsersOptions {
  readonly oidc: Pick<Oidc, 'cached' | 'verify'>;
  readonly directory: Directory;
  /** Makes the user of a subject that comes for the first time; undefined where its provider may not. */
  readonly makeUser: (token: VerifiedToken) => Promise<User | undefined>;
}

export class OidcUsers {
  readonly #options: OidcUsersOptions;
  /** Users that are just being made: many first requests come at once. */
  readonly #making = new Map<string, Promise<User | undefined>>();

  constructor(options: OidcUsersOptions) {
    this.#options = options;
  }

  /** Throws UNAUTHENTICATED, and a 503 where the provider's keys are not to be had. */
  async principalOf(text: string): Promise<{ readonly principal: Principal; readonly expiresAt: number }> {
    const { oidc, directory } = this.#options;
    const token = oidc.cached(text) ?? (await oidc.verify(text));
    const user = directory.userOfIdentity(token.providerId, token.subject) ?? (await this.#made(token));
    if (!user) throw new Failure('UNAUTHENTICATED', 'the token is good, but there is no user for it');
    const roles = token.roles.flatMap((name) => directory.roleNamed(name)?.id ?? []);
    return { principal: { id: user.id, name: user.name, roles }, expiresAt: token.expiresAt };
  }

  #made(token: VerifiedToken): Promise<User | undefined> {
    const key = JSON.stringify([token.providerId, token.subject]);
    const running = this.#making.get(key);
    if (running) return running;
    const making = this.#options.makeUser(token).finally(() => this.#making.delete(key));
    this.#making.set(key, making);
    return making;
  }
}
