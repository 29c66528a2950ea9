// The line of tasks that could begin: by priority; in one priority the owners take turns, each with its own in the order of their
// submission; and now and then who waits longest goes first, so that nobody waits for ever. All of it is in the store, found by
// indexes, whatever the length of the line; nothing of it is in memory.
import type { Kysely, Transaction } from 'kysely';
import { isPaused, isQueued } from '../store/migrations/task_line.ts';
import { type PreparedQuery, prepareQuery } from '../store/prepared.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import type { TaskError } from './task.ts';
import { ending, moveTask, readTask, type TaskRow } from './task_rows.ts';

/** Of so many that begin, one is the one that waits longest, whatever its priority. */
export const longestWaitingEvery = 8;
/** No pause is longer: one that is was worked out from a clock that has been set back since, and is over. */
export const pauseBelievedMsMax = 3_600_000;
/** How many are put into the line, or told of an end, in one transaction. */
const batchMax = 100;

type Standing = Pick<TaskRow, 'owner' | 'priority'>;

type None = Record<string, never>;

interface Statements {
  readonly first: PreparedQuery<None, TaskRow>;
  readonly oldest: PreparedQuery<None, TaskRow>;
  readonly least: PreparedQuery<Pick<Standing, 'priority'>, { place: number | null }>;
  readonly lastOf: PreparedQuery<Standing, { place: number | null }>;
}

let compiled: Statements | undefined;

/** Compiled once; they run on any connection of a store. */
function statements(db: Kysely<Schema>): Statements {
  compiled ??= compile(db);
  return compiled;
}

function compile(db: Kysely<Schema>): Statements {
  return {
    first: prepareQuery<None>()(db, (on) =>
      on
        .selectFrom('tasks')
        .selectAll()
        .where(isQueued)
        .orderBy('priority')
        .orderBy('place')
        .orderBy('task_id')
        .limit(1),
    ),
    oldest: prepareQuery<None>()(db, (on) =>
      on.selectFrom('tasks').selectAll().where(isQueued).orderBy('task_id').limit(1),
    ),
    least: prepareQuery<Pick<Standing, 'priority'>>()(db, (on, slot) =>
      on
        .selectFrom('tasks')
        .select('place')
        .where('priority', '=', slot('priority'))
        .where(isQueued)
        .orderBy('place')
        .limit(1),
    ),
    lastOf: prepareQuery<Standing>()(db, (on, slot) =>
      on
        .selectFrom('tasks')
        .select('place')
        .where('owner', '=', slot('owner'))
        .where('priority', '=', slot('priority'))
        .where(isQueued)
        .orderBy('place', 'desc')
        .limit(1),
    ),
  };
}

/**
 * The place of one more task: after its owner's last, or else with those that go next. So each owner's tasks have places in a row, and
 * whoever comes new stands beside the next of everyone else.
 */
export async function positionOf(on: Kysely<Schema>, { owner, priority }: Standing): Promise<number> {
  const { lastOf, least } = statements(on);
  const last = await lastOf.first(on, { owner, priority });
  if (last) return (last.place as number) + 1;
  return (await least.first(on, { priority }))?.place ?? 0;
}

/** What happened to tasks that waited for one that ended. */
export interface WaitOutcome {
  /** That failed, because what they waited for did. */
  readonly failed: readonly TaskRow[];
  readonly more: boolean;
}

export class TaskQueue {
  readonly #store: Store;
  readonly #clock: () => number;
  #begun = 0;

  constructor(store: Store, clock: () => number) {
    this.#store = store;
    this.#clock = clock;
  }

  /** The task whose turn it is. */
  async next(): Promise<TaskRow | undefined> {
    const { first, oldest } = statements(this.#store.db);
    const turn = (this.#begun + 1) % longestWaitingEvery === 0 ? oldest : first;
    return turn.first(this.#store.db, {});
  }

  /** A task that was next has begun. */
  hasBegun(): void {
    this.#begun++;
  }

  /** When the next of those that pause may go on; undefined where none does. */
  async nextDueAt(): Promise<number | undefined> {
    const row = await this.#store.db
      .selectFrom('tasks')
      .select('not_before')
      .where(isPaused)
      .orderBy('not_before')
      .limit(1)
      .executeTakeFirst();
    return row?.not_before;
  }

  /** Those whose pause is over take their place. */
  async resume(): Promise<void> {
    for (let more = true; more; ) {
      const now = this.#clock();
      const at = await this.nextDueAt();
      if (at === undefined || isAhead(at, now)) return;
      more = await this.#store.transaction(async (tx) => {
        const due = await tx
          .selectFrom('tasks')
          .select(['task_id', 'owner', 'priority'])
          .where(isPaused)
          .where((e) => e.or([e('not_before', '<=', now), e('not_before', '>', now + pauseBelievedMsMax)]))
          .orderBy('not_before')
          .limit(batchMax)
          .execute();
        for (const row of due) await enter(tx, row);
        return due.length === batchMax;
      });
    }
  }

  /** Tells those that wait for a task of its end, a bounded number at a time. */
  async settle(): Promise<WaitOutcome> {
    const any = await this.#store.db.selectFrom('task_ends').select('task_id').limit(1).executeTakeFirst();
    if (!any) return { failed: [], more: false };
    return this.#store.transaction(async (tx) => {
      const end = await tx.selectFrom('task_ends').selectAll().orderBy('task_id').limit(1).executeTakeFirst();
      if (!end) return { failed: [], more: false };
      const waits = await tx
        .selectFrom('task_waits')
        .select('task_id')
        .where('after_id', '=', end.task_id)
        .limit(batchMax)
        .execute();
      const failed: TaskRow[] = [];
      for (const { task_id } of waits) {
        const error = end.state === 'succeeded' ? undefined : dependencyFailed(end.task_id, end.state);
        const row = error ? await this.#fail(tx, task_id, error) : await release(tx, task_id, end.task_id);
        if (row) failed.push(row);
      }
      const done = waits.length < batchMax;
      if (done) await tx.deleteFrom('task_ends').where('task_id', '=', end.task_id).execute();
      return { failed, more: true };
    });
  }

  async #fail(tx: Transaction<Schema>, taskId: string, error: TaskError): Promise<TaskRow | undefined> {
    await tx.deleteFrom('task_waits').where('task_id', '=', taskId).execute();
    const moved = await moveTask(tx, taskId, ['pending'], ending('failed', this.#clock(), { error }));
    return moved ? readTask(tx, taskId) : undefined;
  }
}

/** One less to wait for; with the last, the task takes its place. */
async function release(tx: Transaction<Schema>, taskId: string, afterId: string): Promise<undefined> {
  await tx.deleteFrom('task_waits').where('after_id', '=', afterId).where('task_id', '=', taskId).execute();
  const row = await readTask(tx, taskId);
  if (row?.state !== 'pending') return;
  const waits_for = Math.max(0, row.waits_for - 1);
  await tx.updateTable('tasks').set({ waits_for }).where('task_id', '=', taskId).execute();
  if (waits_for === 0) await enter(tx, row);
}

async function enter(tx: Transaction<Schema>, row: Standing & Pick<TaskRow, 'task_id'>): Promise<void> {
  const place = await positionOf(tx, row);
  await tx.updateTable('tasks').set({ place }).where('task_id', '=', row.task_id).execute();
}

const isAhead = (at: number, now: number): boolean => at > now && at <= now + pauseBelievedMsMax;

function dependencyFailed(taskId: string, state: string): TaskError {
  const message = `The task that it comes after has not succeeded: ${taskId} is ${state}.`;
  return { code: 'TASK_DEPENDENCY_FAILED', message, result: { taskId, state } };
}
