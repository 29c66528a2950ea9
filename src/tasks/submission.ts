// Inserts submitted tasks into the store, with a queue position or with their unfinished dependencies. Concurrent submissions share a
// transaction, which costs one disk flush.
import type { Kysely, Transaction } from 'kysely';
import { Failure, invalidParameter } from '../standard/failure.ts';
import { BatchQueue } from '../store/batch_queue.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { StoreFailure } from '../store/store_errors.ts';
import { positionOf } from './queue.ts';
import { priorities, type TaskRequest } from './task.ts';
import { insertRow, isTerminal, noteEnd, readTask, type TaskRow } from './task_rows.ts';

/** The maximum number of tasks written in one transaction, for which all others wait. */
const batchMax = 64;

/** Inserts a pending task. Throws INVALID_PARAMETER before any write if a dependency does not exist. */
export async function insertTask(tx: Transaction<Schema>, request: TaskRequest, now: number): Promise<TaskRow> {
  const after = [...new Set(request.after ?? [])];
  const waits = after.length > 0 ? await unfinishedTasks(tx, after) : [];
  const queueKey = { owner: request.principal.id, priority: priorities.indexOf(request.priority ?? 'normal') };
  const place = waits.length === 0 ? await positionOf(tx, queueKey) : null;
  const row = await insertRow(tx, { ...request, after }, now, { place, waits_for: waits.length });
  for (const { task_id, state } of waits) {
    await tx.insertInto('task_waits').values({ after_id: task_id, task_id: row.task_id }).execute();
    if (isTerminal(state)) await noteEnd(tx, task_id, state);
  }
  return row;
}

/** The dependencies that have not succeeded, including those that failed. */
async function unfinishedTasks(db: Kysely<Schema>, after: readonly string[]): Promise<TaskRow[]> {
  const rows: TaskRow[] = [];
  for (const [i, taskId] of after.entries()) {
    const row = await readTask(db, taskId);
    if (!row) {
      const message = `refers to a task that does not exist: ${JSON.stringify(taskId)}`;
      throw invalidParameter(`/after/${i}`, 'exists', message, `/after ${message}`);
    }
    if (row.state !== 'succeeded') rows.push(row);
  }
  return rows;
}

interface PendingWrite<T> {
  readonly write: (tx: Transaction<Schema>) => Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/** Groups concurrent writes into one transaction. A write that throws a Failure must not have written anything before. */
export class GroupedWrites<T> {
  readonly #store: Store;
  readonly #batches = new BatchQueue<PendingWrite<T>>(batchMax, (batch) => this.#writeBatch(batch));

  constructor(store: Store) {
    this.#store = store;
  }

  write(write: PendingWrite<T>['write']): Promise<T> {
    return new Promise((resolve, reject) => this.#batches.add({ write, resolve, reject }));
  }

  async #writeBatch(batch: readonly PendingWrite<T>[]): Promise<void> {
    try {
      const notifications = await this.#store.transaction(async (tx) => {
        const settled: (() => void)[] = [];
        for (const { write, resolve, reject } of batch) {
          try {
            const value = await write(tx);
            settled.push(() => resolve(value));
          } catch (error) {
            if (!(error instanceof Failure) || error instanceof StoreFailure) throw error;
            settled.push(() => reject(error));
          }
        }
        return settled;
      });
      for (const notify of notifications) notify();
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
