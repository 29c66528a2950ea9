// Task leases: a runner holds each task that it runs by a lease in its own name, which its heartbeat renews. Its writes to a task count
// only while it holds the lease; a task with an expired lease has lost its runner and can be taken over.
import { newId } from '../model/ids.ts';
import { isRunning } from '../store/index_conditions.ts';
import type { TaskState } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { HandedBack } from './task.ts';
import type { TaskRow } from './task_rows.ts';

export const leaseMs = 30_000;
/** Two heartbeats may be late or fail before a lease expires. */
export const heartbeatEveryMs = leaseMs / 3;

export type Lease = Pick<TaskRow, 'leased_by' | 'lease_until'>;

/** Abort reason: another runner has the task, and the result of this run is discarded. */
export class LeaseLost extends HandedBack {
  override name = 'LeaseLost';
}

export class Leases {
  /** A new id for each process. */
  readonly #holder = newId();
  readonly #store: Store;
  readonly #clock: () => number;

  constructor(store: Store, clock: () => number) {
    this.#store = store;
    this.#clock = clock;
  }

  /** The lease columns of a task that starts here. */
  newLease(): Lease {
    return { leased_by: this.#holder, lease_until: this.#clock() + leaseMs };
  }

  /** The columns that identify this holder; renewals do not change them. */
  get own(): Pick<Lease, 'leased_by'> {
    return { leased_by: this.#holder };
  }

  /** Renews all leases of this runner and returns the held tasks with their states: another server may have taken over or cancelled one. */
  async renew(): Promise<Map<string, TaskState>> {
    const { lease_until } = this.newLease();
    const heldTasks = await this.#store.transaction((tx) =>
      tx
        .updateTable('tasks')
        .set({ lease_until })
        .where(isRunning)
        .where('leased_by', '=', this.#holder)
        .returning(['task_id', 'state'])
        .execute(),
    );
    return new Map(heldTasks.map(({ task_id, state }) => [task_id, state]));
  }

  /** Running tasks whose runner is lost. `all`: every task of other holders, when no other process can have the store open. */
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
