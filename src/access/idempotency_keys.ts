// Idempotency keys (rest-standard B6): a request with the same key, caller, route and body within a day gets the first response. That a
// change was made is recorded in the transaction of the change; the response is stored shortly after, and built again if a crash came in
// between. While the outcome of an attempt is unknown, its key is retained, with the id by which the engine knows its work. An attempt holds
// its key by a lease, so that of several servers one runs the request at a time.
import type { Transaction } from 'kysely';
import { newId } from '../model/ids.ts';
import type { Granted, Guard } from '../model/principal.ts';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import { HeldLeases } from '../store/held_leases.ts';
import { LeaseHolder, noLease } from '../store/leases.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';

export interface StoredResponse {
  readonly status: number;
  readonly location: string | undefined;
  readonly etag: string | undefined;
  readonly body: string;
}

/** A change that was made, without a stored response. */
export interface CompletedChange {
  readonly objectId: string | undefined;
  readonly granted: readonly Granted[];
}

export type Begun =
  /** No change is known to have been made. `isRetry`: the outcome of an earlier attempt is unknown. */
  | { readonly kind: 'new'; readonly guard: Guard; readonly isRetry: boolean }
  /** Another server runs the request. */
  | { readonly kind: 'running' }
  | { readonly kind: 'answered'; readonly response: StoredResponse; readonly granted: readonly Granted[] }
  /** The change was made. `isResponsePending`: another server holds the key and is about to store the response. */
  | {
      readonly kind: 'done';
      readonly guard: Guard;
      readonly completed: CompletedChange;
      readonly isResponsePending: boolean;
    };

/** Work of an attempt that was passed to an engine, which identifies it by `step`. */
export interface RetainedStep {
  readonly step: string;
  readonly warehouse: string;
  readonly catalogId: string;
  readonly queryId: string;
  readonly granted: readonly Granted[];
}

const retentionMs = 24 * 3_600_000;
/** While the outcome is unknown the key is retained as long as the engine's memory of its work. */
const unknownRetentionMs = 2 * retentionMs;
/** Larger responses are not stored but built again. */
const bodyCharactersMax = 262_144;
/**
 * Of the responses of one caller larger than this that one server stores in a day; further ones are built again too. Refusals are smaller:
 * they cannot be built again.
 */
const largeBodyCharactersMin = 32_768;
const largeBodiesCharactersDefault = 64 * 1024 * 1024;
export const idempotencyKeyForm = /^[\x21-\x7e]{1,255}$/;

export class IdempotencyKeys {
  readonly #store: Store;
  readonly #clock: () => number;
  readonly #holder: LeaseHolder;
  readonly #held: HeldLeases<Guard>;
  readonly #largeBodiesCharactersMax: number;
  /** The characters of large responses stored since a time, by owner. */
  readonly #large = new Map<string, { readonly since: number; readonly characters: number }>();

  /** `holder`: this process; by default the only one that uses the store. */
  constructor(
    store: Store,
    clock: () => number = Date.now,
    holder: LeaseHolder = new LeaseHolder(),
    observe: Observe = () => {},
    largeBodiesCharactersMax = largeBodiesCharactersDefault,
  ) {
    this.#largeBodiesCharactersMax = largeBodiesCharactersMax;
    this.#store = store;
    this.#clock = clock;
    this.#holder = holder;
    this.#held = new HeldLeases({ holder, observe, holdMsMax: retentionMs, renew: (guards) => this.#renew(guards) });
  }

  /**
   * Durable when it returns. If an attempt lost its lease to a later one, only the later one may make a change. The caller calls `end` when
   * a new attempt has ended. Throws IDEMPOTENCY_KEY_REUSED.
   */
  async begin(owner: string, key: string, fingerprint: string): Promise<Begun> {
    const begun = await this.#begin(owner, key, fingerprint);
    if (begun.kind === 'new') this.#held.hold(begun.guard.keyId, begun.guard);
    return begun;
  }

  async #begin(owner: string, key: string, fingerprint: string): Promise<Begun> {
    const now = this.#clock();
    const attempt = newId(now);
    const lease = this.#holder.lease(now);
    return this.#store.transaction(async (tx): Promise<Begun> => {
      const query = tx.selectFrom('idempotency_keys').selectAll().where('owner', '=', owner).where('key', '=', key);
      const known = await query.executeTakeFirst();
      if (known && known.created_at > now - (known.state === 'begun' ? unknownRetentionMs : retentionMs)) {
        if (known.fingerprint !== fingerprint) throw keyReused();
        const { status, body, location, etag } = known;
        const granted = parseGranted(known.granted);
        if (status !== null && body !== null)
          return {
            kind: 'answered',
            response: { status, body, location: location ?? undefined, etag: etag ?? undefined },
            granted,
          };
        const guard = { owner, key, keyId: known.key_id, attempt };
        const isTaken = this.#holder.isTaken(known, now);
        if (known.state !== 'begun') {
          const completed = { objectId: known.object_id ?? undefined, granted };
          return { kind: 'done', guard, completed, isResponsePending: isTaken };
        }
        if (isTaken) return { kind: 'running' };
        const takeover = tx.updateTable('idempotency_keys').set({ attempt, ...lease });
        await takeover.where((e) => e.and(rowOf(guard))).execute();
        return { kind: 'new', guard, isRetry: true };
      }
      const keyId = newId(now);
      const fresh = { object_id: null, status: null, location: null, etag: null, body: null, granted: null };
      const row = { key_id: keyId, fingerprint, state: 'begun', created_at: now, attempt, ...lease, ...fresh };
      await tx
        .insertInto('idempotency_keys')
        .values({ owner, key, ...row })
        .onConflict((c) => c.columns(['owner', 'key']).doUpdateSet(row))
        .execute();
      return { kind: 'new', guard: { owner, key, keyId, attempt }, isRetry: false };
    });
  }

  /** Whether another server runs the request with the key. */
  async isHeldElsewhere(owner: string, key: string): Promise<boolean> {
    if (!this.#holder.isShared) return false;
    const { db } = this.#store;
    const query = db.selectFrom('idempotency_keys').select(['state', 'leased_by', 'lease_until']);
    const known = await query.where('owner', '=', owner).where('key', '=', key).executeTakeFirst();
    return known?.state === 'begun' && this.#holder.isTaken(known, this.#clock());
  }

  /** Whether the key was used before. */
  async isKnown(owner: string, key: string): Promise<boolean> {
    const { db } = this.#store;
    const known = db.selectFrom('idempotency_keys').select('key_id').where('owner', '=', owner).where('key', '=', key);
    return (await known.executeTakeFirst()) !== undefined;
  }

  /** Ends the lease of an attempt: the next one need not wait until it expires. */
  async end(guard: Guard): Promise<void> {
    // Alone on its store, a server knows the attempts that run.
    if (!this.#held.release(guard.keyId) || !this.#holder.isShared) return;
    const { attempt = null } = guard;
    const held = { ...rowOf(guard), attempt, leased_by: this.#holder.id };
    const ended = this.#store.db.updateTable('idempotency_keys').set(noLease);
    await ended.where((e) => e.and(held)).execute();
  }

  /** Stores a response, unless a later attempt holds the key; one that is too large is built again for a repeated request. */
  async storeResponse(guard: Guard, response: StoredResponse): Promise<void> {
    const stored = this.#isStored(guard.owner, response) ? response : undefined;
    const set = this.#store.db.updateTable('idempotency_keys').set({
      state: 'done',
      granted: serializeGranted(guard),
      ...noLease,
      ...(stored ? { ...stored, location: stored.location ?? null, etag: stored.etag ?? null } : {}),
    });
    const { attempt = null } = guard;
    await set.where((e) => e.and({ ...rowOf(guard), attempt })).execute();
    this.#held.release(guard.keyId);
  }

  #isStored(owner: string, { status, body: { length: characters } }: StoredResponse): boolean {
    // A refusal cannot be built again.
    if (characters < largeBodyCharactersMin || (status >= 400 && characters <= bodyCharactersMax)) return true;
    const now = this.#clock();
    const before = this.#large.get(owner);
    const current = before && before.since > now - retentionMs ? before : { since: now, characters: 0 };
    const total = current.characters + characters;
    if (characters > bodyCharactersMax || total > this.#largeBodiesCharactersMax) return false;
    this.#large.set(owner, { ...current, characters: total });
    return true;
  }

  /** The change if it was completed in the meantime, by whichever attempt or recovery; otherwise undefined. */
  async completedChange(guard: Guard): Promise<CompletedChange | undefined> {
    const known = await this.#store.db
      .selectFrom('idempotency_keys')
      .select(['state', 'object_id', 'granted'])
      .where((e) => e.and(rowOf(guard)))
      .executeTakeFirst();
    if (known?.state !== 'done') return undefined;
    return { objectId: known.object_id ?? undefined, granted: parseGranted(known.granted) };
  }

  /** No change was made and none will be: the key may be used again. */
  async release(guard: Guard): Promise<void> {
    const { attempt = null } = guard;
    await this.#store.db
      .deleteFrom('idempotency_keys')
      .where((e) => e.and({ ...rowOf(guard), state: 'begun', attempt }))
      .execute();
  }

  /**
   * To be called before work with a step is passed to an engine: the step is retained as long as a key may be, and until its task has
   * ended. `by`: the request with an idempotency key, and its query. Throws CHANGE_IN_PROGRESS if a later attempt holds the key.
   */
  async retainStep(
    step: string,
    location: { readonly warehouse: string; readonly catalogId: string; readonly taskId?: string | undefined },
    by?: { readonly guard: Guard; readonly queryId?: string },
  ): Promise<void> {
    await this.#store.transaction(async (tx) => {
      if (by) {
        await requireKeyHeld(tx, by.guard);
        const set = { object_id: by.queryId ?? null, granted: serializeGranted(by.guard) };
        const noted = tx.updateTable('idempotency_keys').set(set);
        // A statement that became a task while it was queued is answered with the task.
        await noted.where((e) => e.and({ ...rowOf(by.guard), state: 'begun' })).execute();
      }
      await tx
        .insertInto('spent_steps')
        .values({
          step,
          warehouse: location.warehouse,
          catalog_id: location.catalogId,
          // No object is changed by it.
          object_id: '',
          task_id: location.taskId ?? null,
          not_before: this.#clock() + unknownRetentionMs,
        })
        .onConflict((c) => c.doNothing())
        .execute();
    });
  }

  /** The catalog of the work with this step, if some may have been passed to an engine. */
  async catalogOfStep(step: string): Promise<string | undefined> {
    const found = this.#store.db.selectFrom('spent_steps').select('catalog_id').where('step', '=', step);
    return (await found.executeTakeFirst())?.catalog_id;
  }

  /** The work that an earlier attempt passed to an engine, if any. */
  async stepOf(guard: Guard): Promise<RetainedStep | undefined> {
    const step = keyedStep(guard);
    const row = await this.#store.db
      .selectFrom('spent_steps')
      .innerJoin('idempotency_keys', (join) => join.on('idempotency_keys.key_id', '=', guard.keyId))
      .select(['warehouse', 'catalog_id', 'idempotency_keys.object_id', 'granted'])
      .where('step', '=', step)
      .executeTakeFirst();
    if (!row) return undefined;
    const { warehouse, catalog_id: catalogId, object_id, granted } = row;
    return { step, warehouse, catalogId, queryId: object_id ?? guard.keyId, granted: parseGranted(granted) };
  }

  async #renew(guards: readonly Guard[]): Promise<string[]> {
    const lease = this.#holder.lease(this.#clock());
    return this.#store.transaction(async (tx) => {
      const renewed: string[] = [];
      for (const { keyId, attempt = null, ...guard } of guards) {
        const held = { ...rowOf({ ...guard, keyId }), attempt };
        const renewal = tx.updateTable('idempotency_keys').set(lease);
        const { numUpdatedRows } = await renewal.where((e) => e.and(held)).executeTakeFirst();
        if (numUpdatedRows > 0n) renewed.push(keyId);
      }
      return renewed;
    });
  }

  /** Removes expired keys. Returns how many. */
  async sweep(): Promise<number> {
    const now = this.#clock();
    const { numDeletedRows } = await this.#store.db
      .deleteFrom('idempotency_keys')
      .where('created_at', '<=', now - retentionMs)
      .where((e) => e.or([e('state', '<>', 'begun'), e('created_at', '<=', now - unknownRetentionMs)]))
      .executeTakeFirst();
    return Number(numDeletedRows);
  }
}

/** The step by which an engine identifies the work of a request with an idempotency key. */
export function keyedStep(guard: Guard): string {
  return `key/${guard.keyId}`;
}

/** Records in the transaction of a change that it was made. Throws CHANGE_IN_PROGRESS if a later attempt holds the key. */
export async function markKey(tx: Transaction<Schema>, guard: Guard, objectId: string | undefined): Promise<void> {
  await requireKeyHeld(tx, guard);
  const set = { state: 'done', object_id: objectId ?? null, granted: serializeGranted(guard) };
  const marked = tx.updateTable('idempotency_keys').set(set);
  await marked.where((e) => e.and({ ...rowOf(guard), state: 'begun' })).execute();
}

/** In the transaction that begins a change. Throws CHANGE_IN_PROGRESS if a later attempt holds the key. */
export async function requireKeyHeld(tx: Transaction<Schema>, guard: Guard): Promise<void> {
  if (guard.attempt === undefined) return;
  const row = await tx
    .selectFrom('idempotency_keys')
    .select('attempt')
    .where((e) => e.and(rowOf(guard)))
    .executeTakeFirst();
  if (row && row.attempt !== guard.attempt)
    throw new Failure('CHANGE_IN_PROGRESS', 'a later request with the same idempotency key is in progress');
}

const keyReused = (): Failure =>
  new Failure('IDEMPOTENCY_KEY_REUSED', 'the idempotency key was already used with a different request');

/** The row of one use of a key. */
const rowOf = ({ owner, key, keyId }: Guard) => ({ owner, key, key_id: keyId });
const serializeGranted = ({ granted }: Guard): string => JSON.stringify(granted ?? []);
const parseGranted = (text: string | null): readonly Granted[] =>
  text === null ? [] : (JSON.parse(text) as readonly Granted[]);
