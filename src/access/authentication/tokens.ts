// Tokens: secrets that programs use instead of a user's password. Created here, returned once, and stored as a digest. The time of the
// last use is written up to a minute late, so that using a token costs no write.
import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Selectable } from 'kysely';
import { dayMs } from '../../model/durations.ts';
import { newId } from '../../model/ids.ts';
import { foldName } from '../../model/names.ts';
import type { Actor, ObjectVersion, Scope } from '../../model/principal.ts';
import type { Observe } from '../../observe/observations.ts';
import { requireExpectedVersion } from '../../standard/expected_version.ts';
import { Failure } from '../../standard/failure.ts';
import type { ChangeFeed } from '../../store/changes/change_feed.ts';
import type { TokensTable } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import { afterCommit } from '../../store/transactions.ts';
import type { Trail } from '../audit/audit_log.ts';
import type { Directory } from '../authorization/directory.ts';
import type { TokenSignIn } from '../authorization/directory_types.ts';
import { digestOfToken, tokenPrefix } from './authenticator.ts';

export type TokenRow = Selectable<TokensTable>;

export interface TokensOptions {
  readonly store: Store;
  readonly changes: Pick<ChangeFeed, 'append'>;
  /** Knows when tokens were last used. */
  readonly directory: Pick<Directory, 'tokens'>;
  readonly trail: Trail;
  readonly observe: Observe;
  readonly clock?: () => number;
}

export interface NewToken {
  readonly userId: string;
  readonly name: string;
  readonly scopes: readonly Scope[] | undefined;
  /** Milliseconds since 1970. */
  readonly expiresAt: number | undefined;
  /** If it was created by signing in at an identity provider. */
  readonly signIn?: TokenSignIn | undefined;
}

/** A token never changes. */
export const versionOfToken = ({ token_id: objectId, name }: TokenRow): ObjectVersion => ({
  objectId,
  category: 'tokens',
  name,
  version: 1,
});

const tokensPerUserMax = 1000;
/** How long an expired token is shown: signing in to the console creates one each time. */
const expiredRetentionMs = 30 * dayMs;
const secretBytes = 32;
const flushMs = 60_000;

/** `tbl_pat_`, 256 random bits, and a checksum by which secret scanners recognize a token. */
function newSecret(): string {
  const random = randomBytes(secretBytes).toString('base64url');
  return `${tokenPrefix}pat_${random}${crc32(random).toString(36).padStart(7, '0')}`;
}

export class Tokens {
  readonly #options: TokensOptions;
  readonly #clock: () => number;
  readonly #flushedUses = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();

  constructor(options: TokensOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  start(): void {
    this.#timer = setInterval(() => void this.flush(), flushMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  /** The secret is returned only here. Throws OBJECT_ALREADY_EXISTS, CHANGE_NOT_SUPPORTED. */
  async create(token: NewToken, actor: Actor): Promise<{ readonly row: TokenRow; readonly secret: string }> {
    const { store, changes, trail } = this.#options;
    const secret = newSecret();
    const now = this.#clock();
    const row: TokenRow = {
      token_id: newId(now),
      user_id: token.userId,
      name: token.name,
      folded_name: foldName(token.name),
      digest: digestOfToken(secret),
      scopes: token.scopes === undefined ? null : JSON.stringify(token.scopes),
      sign_in: token.signIn === undefined ? null : JSON.stringify(token.signIn),
      expires_at: token.expiresAt ?? null,
      last_used_at: null,
      created_at: now,
      created_by: actor.name,
    };
    await store.transaction(async (tx) => {
      const tokensOfUser = tx.selectFrom('tokens').where('user_id', '=', token.userId);
      const same = await tokensOfUser.select('name').where('folded_name', '=', row.folded_name).executeTakeFirst();
      if (same) {
        const result = { category: 'tokens', name: same.name };
        throw new Failure('OBJECT_ALREADY_EXISTS', `the user already has a token ${JSON.stringify(same.name)}`, result);
      }
      const { count } = await tokensOfUser.select((e) => e.fn.countAll<number>().as('count')).executeTakeFirstOrThrow();
      if (Number(count) >= tokensPerUserMax)
        throw new Failure(
          'CHANGE_NOT_SUPPORTED',
          `a user can have at most ${tokensPerUserMax} tokens; delete some first`,
        );
      await tx.insertInto('tokens').values(row).execute();
      const details = { tokenId: row.token_id, name: row.name, scoped: row.scopes !== null };
      await trail.append(tx, actor, { outcome: '0', objectId: token.userId, details });
      changes.append(tx, { kind: 'token', tokenId: row.token_id, digest: row.digest, token: row });
    });
    return { row, secret };
  }

  async list(
    userId: string,
    options: { readonly after?: string | undefined; readonly limit?: number },
  ): Promise<TokenRow[]> {
    let query = this.#options.store.db.selectFrom('tokens').selectAll().where('user_id', '=', userId).orderBy('name');
    if (options.limit !== undefined) query = query.limit(options.limit);
    if (options.after !== undefined) query = query.where('name', '>', options.after);
    return (await query.execute()).map((row) => this.#withLastUse(row));
  }

  async find(userId: string, name: string): Promise<TokenRow | undefined> {
    const row = await this.#options.store.db
      .selectFrom('tokens')
      .selectAll()
      .where('user_id', '=', userId)
      .where('name', '=', name)
      .executeTakeFirst();
    return row && this.#withLastUse(row);
  }

  async remove(row: TokenRow, actor: Actor): Promise<boolean> {
    const { store, changes, trail } = this.#options;
    return store.transaction(async (tx) => {
      requireExpectedVersion(versionOfToken(row), actor, (effect) => afterCommit(tx, effect));
      const { numDeletedRows } = await tx.deleteFrom('tokens').where('token_id', '=', row.token_id).executeTakeFirst();
      if (numDeletedRows === 0n) return false;
      const { token_id: tokenId, digest, name } = row;
      await trail.append(tx, actor, { outcome: '0', objectId: row.user_id, details: { tokenId, name } });
      changes.append(tx, { kind: 'token', tokenId, digest, token: undefined });
      return true;
    });
  }

  /** Deletes tokens that expired long ago. */
  async sweep(): Promise<void> {
    const { store, changes } = this.#options;
    await store.transaction(async (tx) => {
      const expired = await tx
        .deleteFrom('tokens')
        .where('expires_at', '<=', this.#clock() - expiredRetentionMs)
        .returning(['token_id', 'digest'])
        .execute();
      for (const { token_id: tokenId, digest } of expired)
        changes.append(tx, { kind: 'token', tokenId, digest, token: undefined });
    });
  }

  /** Writes when tokens were last used. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#flush());
    return this.#flushing;
  }

  async #flush(): Promise<void> {
    const { store, directory, observe } = this.#options;
    try {
      for (const { tokenId, lastUsedAt } of directory.tokens.values()) {
        if (lastUsedAt === undefined || this.#flushedUses.get(tokenId) === lastUsedAt) continue;
        await store.db
          .updateTable('tokens')
          .set({ last_used_at: lastUsedAt })
          .where('token_id', '=', tokenId)
          .execute();
        this.#flushedUses.set(tokenId, lastUsedAt);
      }
    } catch (error) {
      observe({ kind: 'backgroundError', what: 'last use of tokens', error });
    }
  }

  #withLastUse(row: TokenRow): TokenRow {
    const used = this.#options.directory.tokens.get(row.digest)?.lastUsedAt;
    return used === undefined ? row : { ...row, last_used_at: used };
  }
}
