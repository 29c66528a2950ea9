// The leases of intents: a change is worked on by one process at a time, the one that holds its intent (store/leases.ts). The intent of a
// task is not renewed: the lease of the task decides who works on it, and the name in the intent only stops a runner that lost the task.
import type { Selectable } from 'kysely';
import type { Observe } from '../../observe/observations.ts';
import { Failure } from '../../standard/failure.ts';
import { HeldLeases } from '../../store/held_leases.ts';
import type { Lease, LeaseHolder } from '../../store/leases.ts';
import type { IntentsTable } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';

type IntentRow = Selectable<IntentsTable>;

interface IntentLeasesOptions {
  readonly store: Store;
  readonly holder: LeaseHolder;
  readonly clock: () => number;
  readonly observe: Observe;
}

/** A step that takes longer is cancelled, and its outcome is unknown. Steps of tasks have no limit. */
export const engineStepMsMax = 120_000;
/** The step and its commit. */
const holdMsMax = 2 * engineStepMsMax;

/** Another server has taken the change over: whether it is completed or undone is not known here. */
export function takenOver(): Failure {
  const message = 'another server has taken over this change, because this one did not respond in time';
  return new Failure('CHANGE_IN_PROGRESS', message, {}, { outcome: 'unknown' });
}

export class IntentLeases {
  readonly #options: IntentLeasesOptions;
  readonly #held: HeldLeases<string>;
  #lookedUntil = 0;

  constructor(options: IntentLeasesOptions) {
    this.#options = options;
    const { holder, observe } = options;
    this.#held = new HeldLeases({ holder, observe, holdMsMax, renew: (ids) => this.#renew(ids) });
  }

  get holderId(): string {
    return this.#options.holder.id;
  }

  /** The lease columns of an intent that a request begins, or a task. */
  newLease(byTask: boolean): Lease {
    const { holder, clock } = this.#options;
    return holder.lease(clock(), byTask ? 0 : undefined);
  }

  /** Whether another process works on the intent. */
  isHeldElsewhere(intent: IntentRow): boolean {
    return this.#options.holder.isTaken(intent, this.#options.clock());
  }

  /** Whether another server let the lease of a change expire since the last call. Changes of tasks are taken over with their tasks. */
  async haveExpired(): Promise<boolean> {
    const { store, holder, clock } = this.#options;
    const until = holder.expiredUntil(clock());
    if (until <= this.#lookedUntil) return false;
    const expired = await store.db
      .selectFrom('intents')
      .select('id')
      .where('task_id', 'is', null)
      .where('leased_by', '!=', holder.id)
      .where('lease_until', '>', this.#lookedUntil)
      .where('lease_until', '<=', until)
      .limit(1)
      .executeTakeFirst();
    this.#lookedUntil = until;
    return expired !== undefined;
  }

  /** Renews the lease while `work` runs. The signal is aborted when another process has taken the intent over. */
  async whileHeld<T>({ id }: IntentRow, work: (lost: AbortSignal) => Promise<T>): Promise<T> {
    const lost = this.#held.hold(id, id);
    try {
      return await work(lost);
    } finally {
      this.#held.release(id);
    }
  }

  /** Puts an open intent into this process's name. Undefined if it has ended, or somebody works on it. */
  async claim(db: Store['db'], { id }: IntentRow): Promise<IntentRow | undefined> {
    if (this.#held.has(id)) return undefined;
    const { holder, clock } = this.#options;
    const now = clock();
    const open = db.updateTable('intents').set(holder.lease(now)).where('id', '=', id);
    return open.where(holder.isFree(now)).returningAll().executeTakeFirst();
  }

  /** Throws if the intent has ended, or another process has taken it over. */
  async confirm({ id }: IntentRow): Promise<void> {
    const { store, holder } = this.#options;
    const own = store.db.selectFrom('intents').select('id').where('id', '=', id).where('leased_by', '=', holder.id);
    if (!(await own.executeTakeFirst())) throw takenOver();
  }

  async #renew(ids: readonly string[]): Promise<string[]> {
    const { store, holder, clock } = this.#options;
    const rows = await store.db
      .updateTable('intents')
      .set(holder.lease(clock()))
      .where('id', 'in', ids)
      .where('leased_by', '=', holder.id)
      .returning('id')
      .execute();
    return rows.map(({ id }) => id);
  }
}
