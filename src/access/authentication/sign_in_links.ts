// One-time links by which the user of this machine signs in to the console without copying a token. They are in memory only: a restart
// ends them.
import { randomBytes } from 'node:crypto';
import { Failure } from '../../standard/failure.ts';
import { digestOfToken } from './authenticator.ts';

export const linkLifetimeMs = 15 * 60_000;
const secretBytes = 32;

export class SignInLinks {
  readonly #clock: () => number;
  /** By the digest of the secret: the user, and when the link expires. */
  readonly #links = new Map<string, { readonly userId: string; readonly expiresAt: number }>();

  constructor(clock: () => number = Date.now) {
    this.#clock = clock;
  }

  /** Returns the secret of a new link. */
  create(userId: string): string {
    const secret = randomBytes(secretBytes).toString('base64url');
    this.#links.set(digestOfToken(secret), { userId, expiresAt: this.#clock() + linkLifetimeMs });
    return secret;
  }

  /** Ends the link and returns the id of its user. Throws UNAUTHENTICATED. */
  redeem(secret: string): string {
    const digest = digestOfToken(secret);
    const link = this.#links.get(digest);
    this.#links.delete(digest);
    if (!link || link.expiresAt <= this.#clock())
      throw new Failure(
        'UNAUTHENTICATED',
        'the sign-in link was used, has expired, or was printed by an earlier start of the server',
      );
    return link.userId;
  }
}
