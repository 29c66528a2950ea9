// Code that must compile, and code that must not: task types with their requests and results. Checked by the compiler only; not run.
import { action } from '../../src/api/declare.ts';
import { noFields } from '../../src/api/fields.ts';
import type { Handlers } from '../../src/api/handlers.ts';
import type { tablesApi } from '../../src/api/tables/tables.ts';
import type { TaskType } from '../../src/api/tasks/task_types.ts';
import type { StoredRequests, StoredTask, TaskKind, TaskRecord } from '../../src/tasks/task.ts';
import type { Tasks } from '../../src/tasks/tasks.ts';

/** The types of tasks without a declared type of their stored request. */
type Undeclared = { [T in TaskType]: unknown extends StoredRequests[T] ? T : never }[TaskType];
export const none: Record<Undeclared, never> = {};

const commonFields = { type: 'optimize_table', attemptsMax: 1 } as const;
export const good: TaskKind<'optimize_table'> = {
  ...commonFields,
  run: async ({ request }) => ({ rowCount: request.objectId.length, dataBytes: 0, dataBytesBefore: 0 }),
};
export const wrongResult: TaskKind<'optimize_table'> = {
  ...commonFields,
  // @ts-expect-error a field of the result is missing
  run: async () => ({ rowCount: 1, dataBytes: 0 }),
};
export const wrongField: TaskKind<'optimize_table'> = {
  ...commonFields,
  // @ts-expect-error the request has no such field
  run: async ({ request }) => ({ rowCount: 1, dataBytes: request.bytes, dataBytesBefore: 0 }),
};

const submission = { principal: { id: '', name: '' }, target: '' };
export async function submit(tasks: Tasks): Promise<number | undefined> {
  const task = await tasks.submit({ ...submission, type: 'optimize_table', request: { objectId: '' } });
  // @ts-expect-error the request of another type
  await tasks.submit({ ...submission, type: 'optimize_table', request: { table: '' } });
  return task.result?.dataBytes;
}

export function pagesOf(task: StoredTask): number | undefined {
  // @ts-expect-error not every result has pages
  task.result?.pageCount;
  return task.type === 'run_query' ? task.result?.pageCount : undefined;
}

type Optimize = Handlers<typeof tablesApi, object>['optimize'];
declare const optimized: TaskRecord<'optimize_table'>;
declare const checked: TaskRecord<'check_catalog'>;
export const accepting: Optimize = async () => ({ outcome: 'accepted', task: optimized, uri: '' });
// @ts-expect-error a task of another type than the declared one
export const otherTask: Optimize = async () => ({ outcome: 'accepted', task: checked, uri: '' });

const permission = { privilege: 'alter', on: 'object' } as const;
// @ts-expect-error a type of task that does not exist
export const misspelled = action('object', { summary: '', permission, body: noFields, task: 'optimise_table' });
