// Task leases: a runner holds each task that it runs by a lease in its own name, which its heartbeat renews. Its writes to a task count
// only while it holds the lease; a task with an expired lease has lost its runner and can be taken over.
import { isRunning } from '../store/index_conditions.ts';
import type { Lease, LeaseHolder } from '../store/leases.ts';
import type { TaskState } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { ofServer } from './queue.ts';
import { HandedBack } from './task.ts';
import type { TaskRow } from './task_rows.ts';

/** Abort reason: another runner has the task, and the result of this run is discarded. */
export class LeaseLost extends HandedBack {
  override name = 'LeaseLost';
}

export class Leases {
  readonly #holder: LeaseHolder;
  readonly #store: Store;
  readonly #clock: () => number;

  constructor(store: Store, clock: () => number, holder: LeaseHolder) {
    this.#store = store;
    this.#clock = clock;
    this.#holder = holder;
  }

  /** The lease columns of a task that starts here. */
  newLease(): Lease {
    return this.#holder.lease(this.#clock());
  }

  /** The columns that identify this holder; renewals do not change them. */
  get own(): Pick<Lease, 'leased_by'> {
    return { leased_by: this.#holder.id };
  }

  /** Renews all leases of this runner and returns the held tasks with their states: another server may have taken over or cancelled one. */
  async renew(): Promise<Map<string, TaskState>> {
    const { lease_until } = this.newLease();
    const heldTasks = await this.#store.transaction((tx) =>
      tx
        .updateTable('tasks')
        .set({ lease_until })
        .where(isRunning)
        .where('leased_by', '=', this.#holder.id)
        .returning(['task_id', 'state'])
        .execute(),
    );
    return new Map(heldTasks.map(({ task_id, state }) => [task_id, state]));
  }

  /** Running tasks whose runner is lost. Those that belong to another server wait for it. */
  abandoned(): Promise<TaskRow[]> {
    return this.#store.db
      .selectFrom('tasks')
      .selectAll()
      .where(isRunning)
      .where((e) => e.or([e('leased_by', 'is', null), e('leased_by', '!=', this.#holder.id)]))
      .where(ofServer(this.#holder.serverId))
      .where(this.#holder.isFree(this.#clock()))
      .execute();
  }
}
