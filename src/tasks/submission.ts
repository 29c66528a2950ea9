// How a task gets into the store: with a place in the line, or with a note of what it waits for. Many that come at once are written
// in one transaction, which costs one flush of the disk.
import type { Kysely, Transaction } from 'kysely';
import { Failure } from '../standard/failure.ts';
import { BatchQueue } from '../store/batch_queue.ts';
import type { Schema } from '../store/schema.ts';
import { StoreFull } from '../store/sqlite.ts';
import type { Store } from '../store/store.ts';
import { positionOf } from './queue.ts';
import { priorities, type TaskRequest } from './task.ts';
import { insertRow, isTerminal, noteEnd, readTask, type TaskRow } from './task_rows.ts';

/** Tasks written in one transaction, for which all others wait. */
const groupMax = 64;

/** Adds a pending task. Throws INVALID_PARAMETER before anything is written, where a task to come after is not there. */
export async function insertTask(on: Transaction<Schema>, request: TaskRequest, now: number): Promise<TaskRow> {
  const after = [...new Set(request.after ?? [])];
  const waits = after.length > 0 ? await unfinished(on, after) : [];
  const standing = { owner: request.principal.id, priority: priorities.indexOf(request.priority ?? 'normal') };
  const place = waits.length === 0 ? await positionOf(on, standing) : null;
  const row = await insertRow(on, { ...request, after }, now, { place, waits_for: waits.length });
  for (const { task_id, state } of waits) {
    await on.insertInto('task_waits').values({ after_id: task_id, task_id: row.task_id }).execute();
    if (isTerminal(state)) await noteEnd(on, task_id, state);
  }
  return row;
}

/** Those that have not succeeded, be it not yet or never. */
async function unfinished(on: Kysely<Schema>, after: readonly string[]): Promise<TaskRow[]> {
  const rows: TaskRow[] = [];
  for (const [i, taskId] of after.entries()) {
    const row = await readTask(on, taskId);
    if (!row) {
      const message = `names no task: ${JSON.stringify(taskId)}`;
      throw new Failure('INVALID_PARAMETER', `/after ${message}`, {
        violations: [{ pointer: `/after/${i}`, rule: 'exists', message }],
      });
    }
    if (row.state !== 'succeeded') rows.push(row);
  }
  return rows;
}

interface Waiting<T> {
  readonly write: (tx: Transaction<Schema>) => Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/** Writes that share a transaction with those that come meanwhile. A write that throws a Failure has written nothing before. */
export class GroupedWrites<T> {
  readonly #store: Store;
  readonly #groups = new BatchQueue<Waiting<T>>(groupMax, (group) => this.#writeGroup(group));

  constructor(store: Store) {
    this.#store = store;
  }

  write(write: Waiting<T>['write']): Promise<T> {
    return new Promise((resolve, reject) => this.#groups.add({ write, resolve, reject }));
  }

  async #writeGroup(group: readonly Waiting<T>[]): Promise<void> {
    try {
      const answers = await this.#store.transaction(async (tx) => {
        const all: (() => void)[] = [];
        for (const { write, resolve, reject } of group) {
          try {
            const value = await write(tx);
            all.push(() => resolve(value));
          } catch (error) {
            if (!(error instanceof Failure) || error instanceof StoreFull) throw error;
            all.push(() => reject(error));
          }
        }
        return all;
      });
      for (const answer of answers) answer();
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }
}
