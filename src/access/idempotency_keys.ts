// Requests that are sent again (rest-standard B6): the same key, caller, route and body within a day have the first answer. That
// a change was made is written in the change's own transaction; the answer is stored a moment later, and made anew where a crash
// came between. While the outcome of an attempt is unknown its key stays, and with it the id by which the engine knows its work.
import type { Transaction } from 'kysely';
import { newId } from '../model/ids.ts';
import type { Granted, Guard } from '../model/principal.ts';
import { Failure } from '../standard/failure.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';

export interface StoredResponse {
  readonly status: number;
  readonly location: string | undefined;
  readonly etag: string | undefined;
  readonly body: string;
}

/** A change that was made, whose answer is not stored. */
export interface CompletedChange {
  readonly objectId: string | undefined;
  readonly granted: readonly Granted[];
}

export type Begun =
  /** Nothing is known to have been done. `isAgain`: an earlier attempt began, and its outcome is unknown. */
  | { readonly kind: 'new'; readonly guard: Guard; readonly isRetry: boolean }
  | { readonly kind: 'answered'; readonly answer: StoredResponse; readonly granted: readonly Granted[] }
  | { readonly kind: 'done'; readonly guard: Guard; readonly made: CompletedChange };

/** Work of an attempt that was handed to an engine, which knows it by `step`. */
export interface RetainedStep {
  readonly step: string;
  readonly warehouse: string;
  readonly catalogId: string;
  readonly queryId: string;
  readonly granted: readonly Granted[];
}

const keptMs = 24 * 3_600_000;
/** While the outcome is unknown the key is retained as long as the engine's memory of its work. */
const unknownKeptMs = 2 * keptMs;
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

  /** Durable when it returns. Of two attempts at once only the later one may change something. Throws IDEMPOTENCY_KEY_REUSED. */
  async begin(owner: string, key: string, fingerprint: string): Promise<Begun> {
    const now = this.#clock();
    const attempt = newId(now);
    return this.#store.transaction(async (tx): Promise<Begun> => {
      const of = tx.selectFrom('idempotency_keys').selectAll().where('owner', '=', owner).where('key', '=', key);
      const known = await of.executeTakeFirst();
      if (known && known.created_at > now - (known.state === 'begun' ? unknownKeptMs : keptMs)) {
        if (known.fingerprint !== fingerprint) throw keyReused();
        const { status, body, location, etag } = known;
        const granted = grantedOf(known.granted);
        if (status !== null && body !== null)
          return {
            kind: 'answered',
            answer: { status, body, location: location ?? undefined, etag: etag ?? undefined },
            granted,
          };
        const guard = { owner, key, keyId: known.key_id, attempt };
        if (known.state !== 'begun')
          return { kind: 'done', guard, made: { objectId: known.object_id ?? undefined, granted } };
        const taken = tx.updateTable('idempotency_keys').set({ attempt });
        await taken.where((e) => e.and(rowOf(guard))).execute();
        return { kind: 'new', guard, isRetry: true };
      }
      const keyId = newId(now);
      const fresh = { object_id: null, status: null, location: null, etag: null, body: null, granted: null };
      const row = { key_id: keyId, fingerprint, state: 'begun', created_at: now, attempt, ...fresh };
      await tx
        .insertInto('idempotency_keys')
        .values({ owner, key, ...row })
        .onConflict((c) => c.columns(['owner', 'key']).doUpdateSet(row))
        .execute();
      return { kind: 'new', guard: { owner, key, keyId, attempt }, isRetry: false };
    });
  }

  /** Whether the key was sent before. */
  async isKnown(owner: string, key: string): Promise<boolean> {
    const { db } = this.#store;
    const known = db.selectFrom('idempotency_keys').select('key_id').where('owner', '=', owner).where('key', '=', key);
    return (await known.executeTakeFirst()) !== undefined;
  }

  /** Stores an answer; one that is too large is made anew where it is asked for again. */
  async storeResponse(guard: Guard, answer: StoredResponse): Promise<void> {
    const stored = answer.body.length <= bodyCharactersMax ? answer : undefined;
    const set = this.#store.db.updateTable('idempotency_keys').set({
      state: 'done',
      granted: grantedText(guard),
      ...(stored ? { ...stored, location: stored.location ?? null, etag: stored.etag ?? null } : {}),
    });
    await set.where((e) => e.and(rowOf(guard))).execute();
  }

  /** The change was made after all, by whoever completed it. Undefined: it was not. */
  async completedChange(guard: Guard): Promise<CompletedChange | undefined> {
    const known = await this.#store.db
      .selectFrom('idempotency_keys')
      .select(['state', 'object_id', 'granted'])
      .where((e) => e.and(rowOf(guard)))
      .executeTakeFirst();
    if (known?.state !== 'done') return undefined;
    return { objectId: known.object_id ?? undefined, granted: grantedOf(known.granted) };
  }

  /** Nothing was done and nothing will be: the key may be used anew. */
  async release(guard: Guard): Promise<void> {
    const { attempt = null } = guard;
    await this.#store.db
      .deleteFrom('idempotency_keys')
      .where((e) => e.and({ ...rowOf(guard), state: 'begun', attempt }))
      .execute();
  }

  /**
   * Before an engine is handed work that it remembers by a step: the step is retained as long as a key may be, and until its task has
   * ended. `by`: the keyed request whose work it is, and its query. Throws CHANGE_IN_PROGRESS where a later attempt holds the key.
   */
  async retainStep(
    step: string,
    at: { readonly warehouse: string; readonly catalogId: string; readonly taskId?: string | undefined },
    by?: { readonly guard: Guard; readonly queryId?: string },
  ): Promise<void> {
    await this.#store.transaction(async (tx) => {
      if (by) {
        await requireKeyHeld(tx, by.guard);
        const set = { object_id: by.queryId ?? null, granted: grantedText(by.guard) };
        const noted = tx.updateTable('idempotency_keys').set(set);
        // A statement that became a task before its turn came is answered with the task.
        await noted.where((e) => e.and({ ...rowOf(by.guard), state: 'begun' })).execute();
      }
      await tx
        .insertInto('spent_steps')
        .values({
          step,
          warehouse: at.warehouse,
          catalog_id: at.catalogId,
          // No object is changed by it.
          object_id: '',
          task_id: at.taskId ?? null,
          not_before: this.#clock() + unknownKeptMs,
        })
        .onConflict((c) => c.doNothing())
        .execute();
    });
  }

  /** What an earlier attempt handed to an engine, if it came that far. */
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
    return { step, warehouse, catalogId, queryId: object_id ?? guard.keyId, granted: grantedOf(granted) };
  }

  /** Forgets what is past its time. Returns how many. */
  async sweep(): Promise<number> {
    const now = this.#clock();
    const { numDeletedRows } = await this.#store.db
      .deleteFrom('idempotency_keys')
      .where('created_at', '<=', now - keptMs)
      .where((e) => e.or([e('state', '<>', 'begun'), e('created_at', '<=', now - unknownKeptMs)]))
      .executeTakeFirst();
    return Number(numDeletedRows);
  }
}

/** What an engine remembers the work of a keyed request by. */
export function keyedStep(guard: Guard): string {
  return `key/${guard.keyId}`;
}

/** In the transaction of a change: that it was made. Throws CHANGE_IN_PROGRESS where a later attempt holds the key. */
export async function markKey(tx: Transaction<Schema>, guard: Guard, objectId: string | undefined): Promise<void> {
  await requireKeyHeld(tx, guard);
  const set = { state: 'done', object_id: objectId ?? null, granted: grantedText(guard) };
  const marked = tx.updateTable('idempotency_keys').set(set);
  await marked.where((e) => e.and({ ...rowOf(guard), state: 'begun' })).execute();
}

/** In the transaction that begins a change. Throws CHANGE_IN_PROGRESS where a later attempt holds the key. */
export async function requireKeyHeld(tx: Transaction<Schema>, guard: Guard): Promise<void> {
  if (guard.attempt === undefined) return;
  const row = await tx
    .selectFrom('idempotency_keys')
    .select('attempt')
    .where((e) => e.and(rowOf(guard)))
    .executeTakeFirst();
  if (row && row.attempt !== guard.attempt)
    throw new Failure('CHANGE_IN_PROGRESS', 'a later request with the same idempotency key is under way');
}

export const keyReused = (): Failure =>
  new Failure('IDEMPOTENCY_KEY_REUSED', 'the idempotency key was sent with another request before');

/** The row of one use of a key. */
const rowOf = ({ owner, key, keyId }: Guard) => ({ owner, key, key_id: keyId });
const grantedText = ({ granted }: Guard): string => JSON.stringify(granted ?? []);
const grantedOf = (text: string | null): readonly Granted[] =>
  text === null ? [] : (JSON.parse(text) as readonly Granted[]);
