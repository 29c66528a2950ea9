// Maps a token of an identity provider to a principal: the user with its subject, created at the first login if the provider may create
// users, with the roles that the token grants.
import type { Principal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import type { Directory } from '../authorization/directory.ts';
import type { User } from '../authorization/directory_types.ts';
import type { Oidc, VerifiedToken } from './oidc.ts';

export interface OidcUsersOptions {
  readonly oidc: Pick<Oidc, 'cached' | 'verify'>;
  readonly directory: Directory;
  /** Creates the user of a subject at its first login; returns undefined if the provider may not create users. */
  readonly makeUser: (token: VerifiedToken) => Promise<User | undefined>;
}

export class OidcUsers {
  readonly #options: OidcUsersOptions;
  /** Users that are being created: the first requests of a client often arrive together. */
  readonly #making = new Map<string, Promise<User | undefined>>();

  constructor(options: OidcUsersOptions) {
    this.#options = options;
  }

  /** Throws UNAUTHENTICATED, and IDENTITY_PROVIDER_UNAVAILABLE if the provider's keys are unavailable. */
  async principalOf(
    text: string,
  ): Promise<{ readonly principal: Principal; readonly expiresAt: number; readonly provider: string }> {
    const { oidc, directory } = this.#options;
    const token = oidc.cached(text) ?? (await oidc.verify(text));
    const user = directory.userOfIdentity(token.providerId, token.subject) ?? (await this.#createOnce(token));
    if (!user) throw new Failure('UNAUTHENTICATED', 'the token is valid, but no user exists for it');
    const roles = token.roles.flatMap((name) => directory.roleNamed(name)?.id ?? []);
    return {
      principal: { id: user.id, name: user.name, roles },
      expiresAt: token.expiresAt,
      provider: token.providerId,
    };
  }

  #createOnce(token: VerifiedToken): Promise<User | undefined> {
    const key = JSON.stringify([token.providerId, token.subject]);
    const running = this.#making.get(key);
    if (running) return running;
    const making = this.#options.makeUser(token).finally(() => this.#making.delete(key));
    this.#making.set(key, making);
    return making;
  }
}
