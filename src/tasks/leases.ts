// Who runs a task: each runner holds what it runs by a lease in its own name, which its heartbeat renews. What a runner writes of a
// task counts only while it holds it; what is held by a lease that is over has lost its runner, and another may take it over.
import { newId } from '../model/ids.ts';
import { isRunning } from '../store/migrations/task_line.ts';
import type { TaskState } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { HandedBack } from './task.ts';
import type { TaskRow } from './task_rows.ts';

export const leaseMs = 30_000;
/** Two heartbeats may be late or fail before a lease is over. */
export const heartbeatEveryMs = leaseMs / 3;

export type Lease = Pick<TaskRow, 'leased_by' | 'lease_until'>;

/** Reason of an abort: another runner has the task now, and what comes of this one's work is not kept. */
export class LeaseLost extends HandedBack {
  override name = 'LeaseLost';
}

export class Leases {
  /** New with each process. */
  readonly #holder = newId();
  readonly #store: Store;
  readonly #clock: () => number;

  constructor(store: Store, clock: () => number) {
    this.#store = store;
    this.#clock = clock;
  }

  /** As columns of a task that begins here. */
  begun(): Lease {
    return { leased_by: this.#holder, lease_until: this.#clock() + leaseMs };
  }

  /** What holds while this runner has it, however often it was renewed. */
  get own(): Pick<Lease, 'leased_by'> {
    return { leased_by: this.#holder };
  }

  /** Renews all that is held, and answers what that is: another server may have taken a task, or told it to stop. */
  async renew(): Promise<Map<string, TaskState>> {
    const { lease_until } = this.begun();
    const held = await this.#store.transaction((tx) =>
      tx
        .updateTable('tasks')
        .set({ lease_until })
        .where(isRunning)
        .where('leased_by', '=', this.#holder)
        .returning(['task_id', 'state'])
        .execute(),
    );
    return new Map(held.map(({ task_id, state }) => [task_id, state]));
  }

  /** What is under way elsewhere and has lost its runner; `all`: where nobody else can have the store open, all of it. */
  abandoned(all: boolean): Promise<TaskRow[]> {
    let query = this.#store.db
      .selectFrom('tasks')
      .selectAll()
      .where(isRunning)
      .where((e) => e.or([e('leased_by', 'is', null), e('leased_by', '!=', this.#holder)]));
    if (!all) query = query.where((e) => e.or([e('lease_until', 'is', null), e('lease_until', '<', this.#clock())]));
    return query.execute();
  }
}
