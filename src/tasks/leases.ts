// Task leases: a runner holds each task that it runs by a lease in its own name, which its heartbeat renews. Its writes to a task count
// only while it holds the lease; a task with an expired lease has lost its runner and can be taken over.
import type { Kysely } from 'kysely';
import { isRunning } from '../store/index_conditions.ts';
import { type ClockTimes, type Lease, type LeaseHolder, ownLeaseMs, passedMs } from '../store/leases.ts';
import type { Schema, TaskState } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { ofServer } from './queue.ts';
import { HandedBack } from './task.ts';
import type { TaskRow } from './task_rows.ts';

/** Abort reason: another runner has the task, or may have it, and then the result of this run is discarded. */
export class LeaseLost extends HandedBack {
  override name = 'LeaseLost';
  constructor() {
    super('the server could not renew its lease of the task');
  }
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

  /** Whether another runner may have a task whose lease was last renewed then, although this one was not notified. */
  hasLapsed(renewedAt: ClockTimes): boolean {
    return this.#holder.isShared && passedMs(renewedAt, this.#clock()) > ownLeaseMs;
  }

  /** The columns that identify this holder; renewals do not change them. */
  get own(): Pick<Lease, 'leased_by'> {
    return { leased_by: this.#holder.id };
  }

  /** Whether this runner has the task. */
  async isHeld(db: Kysely<Schema>, taskId: string): Promise<boolean> {
    const own = db.selectFrom('tasks').select('task_id').where('task_id', '=', taskId).where(isRunning);
    return (await own.where('leased_by', '=', this.#holder.id).executeTakeFirst()) !== undefined;
  }

  /** Renews the leases of these tasks. @returns those that this runner holds, with their states: another server may have taken over or cancelled one. */
  async renew(taskIds: readonly string[]): Promise<Map<string, TaskState>> {
    const { lease_until } = this.newLease();
    const heldTasks = await this.#store.transaction((tx) =>
      tx
        .updateTable('tasks')
        .set({ lease_until })
        .where(isRunning)
        .where('leased_by', '=', this.#holder.id)
        .where('task_id', 'in', taskIds)
        .returning(['task_id', 'state'])
        .execute(),
    );
    return new Map(heldTasks.map(({ task_id, state }) => [task_id, state]));
  }

  /**
   * Running tasks whose runner is lost, or that this one does not know although they are in its name: the commit of their start was not answered.
   * Those that belong to another server wait for it. `known`: the tasks that run here.
   */
  async abandoned(known: ReadonlySet<string>): Promise<TaskRow[]> {
    const now = this.#clock();
    const rows = await this.#store.db
      .selectFrom('tasks')
      .selectAll()
      .where(isRunning)
      .where((e) =>
        e.or([
          e('leased_by', 'is', null),
          e.and([e('leased_by', '!=', this.#holder.id), this.#holder.isFree(now)]),
          // One that is only just known has a lease that has not expired.
          e.and([e('leased_by', '=', this.#holder.id), e('lease_until', '<=', this.#holder.expiredUntil(now))]),
        ]),
      )
      .where(ofServer(this.#holder.serverId))
      .execute();
    return rows.filter((row) => row.leased_by !== this.#holder.id || !known.has(row.task_id));
  }
}
