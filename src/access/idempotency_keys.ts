// Requests that are sent again (rest-standard B6): the same key, caller, route and body within a day have the first answer. That
// the change was made is noted in the change's own transaction; the answer is kept a moment later, and made anew where a crash
// came between.
import { newId } from '../model/ids.ts';
import type { Guard } from '../model/principal.ts';
import { Failure } from '../standard/failure.ts';
import type { Store } from '../store/store.ts';

export interface KeptAnswer {
  readonly status: number;
  readonly location: string | undefined;
  readonly body: string;
}

export type Begun =
  /** Nothing is known to have been done with it. `isAgain`: it was begun before, and a crash came in between. */
  | { readonly kind: 'new'; readonly guard: Guard; readonly isAgain: boolean }
  | { readonly kind: 'answered'; readonly answer: KeptAnswer }
  /** The change was made; of its answer nothing is kept. */
  | { readonly kind: 'done'; readonly guard: Guard; readonly objectId: string | undefined };

const keptMs = 24 * 3_600_000;
/** Larger answers are made anew. */
const bodyCharactersMax = 262_144;
export const idempotencyKeyForm = /^[\x21-\x7e]{1,255}$/;

export class IdempotencyKeys {
  readonly #store: Store;
  readonly #clock: () => number;

  constructor(store: Store, clock: () => number = Date.now) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Durable when it returns. Throws IDEMPOTENCY_KEY_REUSED. */
  async begin(owner: string, key: string, fingerprint: string): Promise<Begun> {
    const now = this.#clock();
    return this.#store.transaction(async (tx): Promise<Begun> => {
      const of = tx.selectFrom('idempotency_keys').selectAll().where('owner', '=', owner).where('key', '=', key);
      const known = await of.executeTakeFirst();
      if (known && known.created_at > now - keptMs) {
        if (known.fingerprint !== fingerprint)
          throw new Failure('IDEMPOTENCY_KEY_REUSED', 'the idempotency key was sent with another request before');
        const guard = { owner, key, keyId: known.key_id };
        const { status, body, location } = known;
        if (status !== null && body !== null)
          return { kind: 'answered', answer: { status, body, location: location ?? undefined } };
        return known.state === 'begun'
          ? { kind: 'new', guard, isAgain: true }
          : { kind: 'done', guard, objectId: known.object_id ?? undefined };
      }
      const keyId = newId(now);
      const fresh = { object_id: null, status: null, location: null, body: null };
      const row = { key_id: keyId, fingerprint, state: 'begun', created_at: now, ...fresh };
      await tx
        .insertInto('idempotency_keys')
        .values({ owner, key, ...row })
        .onConflict((c) => c.columns(['owner', 'key']).doUpdateSet(row))
        .execute();
      return { kind: 'new', guard: { owner, key, keyId }, isAgain: false };
    });
  }

  /** What is kept of a request that was answered; `fingerprint` is asked for only where the key is known. */
  async answerOf(owner: string, key: string, fingerprint: () => Promise<string>): Promise<KeptAnswer | undefined> {
    const known = await this.#store.db
      .selectFrom('idempotency_keys')
      .selectAll()
      .where('owner', '=', owner)
      .where('key', '=', key)
      .where('created_at', '>', this.#clock() - keptMs)
      .executeTakeFirst();
    if (!known || known.status === null || known.body === null) return undefined;
    if (known.fingerprint !== (await fingerprint())) return undefined;
    return { status: known.status, location: known.location ?? undefined, body: known.body };
  }

  /** One that is too large is made anew where it is asked for again. */
  async answered({ owner, key, keyId }: Guard, answer: KeptAnswer): Promise<void> {
    const kept = answer.body.length <= bodyCharactersMax ? answer : undefined;
    await this.#store.db
      .updateTable('idempotency_keys')
      .set({
        state: 'done',
        ...(kept ? { status: kept.status, location: kept.location ?? null, body: kept.body } : {}),
      })
      .where('owner', '=', owner)
      .where('key', '=', key)
      .where('key_id', '=', keyId)
      .execute();
  }

  /** The change that a crash came into was made after all, by who went on with it. Undefined: it was not. */
  async doneSince({ owner, key, keyId }: Guard): Promise<{ readonly objectId: string | undefined } | undefined> {
    const known = await this.#store.db
      .selectFrom('idempotency_keys')
      .select(['state', 'object_id'])
      .where('owner', '=', owner)
      .where('key', '=', key)
      .where('key_id', '=', keyId)
      .executeTakeFirst();
    return known?.state === 'done' ? { objectId: known.object_id ?? undefined } : undefined;
  }

  /** It came to nothing, and may be tried again with the same key. */
  async release({ owner, key, keyId }: Guard): Promise<void> {
    await this.#store.db
      .deleteFrom('idempotency_keys')
      .where('owner', '=', owner)
      .where('key', '=', key)
      .where('key_id', '=', keyId)
      .where('state', '=', 'begun')
      .execute();
  }

  /** An engine's memory of the work of a keyed request is kept as long as the key. */
  async keepStep(step: string, at: { readonly warehouse: string; readonly catalogId: string }): Promise<void> {
    await this.#store.db
      .insertInto('spent_steps')
      .values({
        step,
        warehouse: at.warehouse,
        catalog_id: at.catalogId,
        object_id: at.catalogId,
        task_id: null,
        not_before: this.#clock() + 2 * keptMs,
      })
      .onConflict((c) => c.doNothing())
      .execute();
  }

  /** Forgets what is older than a day. Returns how many. */
  async sweep(): Promise<number> {
    const { numDeletedRows } = await this.#store.db
      .deleteFrom('idempotency_keys')
      .where('created_at', '<=', this.#clock() - keptMs)
      .executeTakeFirst();
    return Number(numDeletedRows);
  }
}

/** What an engine remembers the work of a keyed request by. */
export function stepOf(guard: Guard | undefined): string | undefined {
  return guard && `key/${guard.keyId}`;
}
