// Reads the fields of bodies that say how a task runs: its dependencies, its priority, and who is notified of its end. For every
// endpoint that may submit tasks.

import { waitSecondsDefault } from '../../api/task_fields.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import type { Segment } from '../../standard/paths.ts';
import type { Notify, Priority, TaskRequest } from '../../tasks/task.ts';
import type { Context } from './handler_context.ts';

export interface TaskBody {
  readonly priority?: Priority;
  readonly after?: readonly string[];
  readonly notify?: Notify;
}

export type TaskOptions = Pick<TaskRequest, 'priority' | 'after' | 'notify'>;

/**
 * Throws HOST_NOT_ALLOWED; INVALID_PARAMETER if the caller may not read a task that is named as a dependency. `within`: the JSON
 * pointer of the object that contains the fields.
 */
export async function taskOptions(body: TaskBody, context: Context, pointer = ''): Promise<TaskOptions> {
  const { priority, after = [], notify } = body;
  if (notify) checkNotify(notify, context, pointer);
  for (const [i, taskId] of after.entries())
    if (!(await mayRead(taskId, context)))
      throw invalidParameter(
        `${pointer}/after/${i}`,
        'exists',
        `refers to a task that does not exist or that the caller may not read: ${JSON.stringify(taskId)}`,
      );
  return { priority, after, notify };
}

/** Separates the request, which the task may show, from the options of the task, which it may not. Throws as `taskOptions`. */
export async function splitTaskOptions<B extends TaskBody>(
  body: B,
  context: Context,
): Promise<{ readonly request: Omit<B, keyof TaskBody>; readonly options: TaskOptions }> {
  const { priority: _, after: __, notify: ___, ...request } = body;
  return { request, options: await taskOptions(body, context) };
}

/** How long the caller waits before the statement becomes a task. A statement with dependencies is a task from the beginning. */
export function waitSecondsOf(
  { waitSeconds, after }: Pick<TaskBody, 'after'> & { readonly waitSeconds?: number },
  pointer = '',
): number {
  if (after === undefined || after.length === 0) return waitSeconds ?? waitSecondsDefault;
  if (!waitSeconds) return 0;
  const message = 'must be 0 with `after`: a statement with dependencies is a task from the beginning';
  throw invalidParameter(`${pointer}/waitSeconds`, 'after', message);
}

/**
 * For statements that wait `waitSeconds` before they become a task: throws WAREHOUSE_BUSY if the queue of the warehouse is full, before any
 * other work on them. A task does not need a place yet.
 */
export async function requireQueueCapacity(
  waitSeconds: number,
  [root]: readonly [Segment, ...Segment[]],
  { queries, call }: Context,
): Promise<void> {
  if (waitSeconds > 0) await queries.queueCapacity.require(root.name, call);
}

/** A task belongs to its submitter; others need the privilege on all tasks. */
async function mayRead(taskId: string, { tasks, access, call }: Context): Promise<boolean> {
  const { authorizer } = access;
  // Authorized before the look-up, so that the response time does not reveal whether the task exists.
  const mayReadAll = await authorizer.isAllowed(call.principal, 'read', { category: 'tasks', path: [] });
  const task = await tasks.get(taskId);
  return task !== undefined && (mayReadAll || authorizer.isSubmitter(call.principal, task.principal));
}

/** Throws as `taskOptions`. */
export function checkNotify(notify: Notify, context: Context, pointer = ''): void {
  try {
    context.webhooks.check(notify);
  } catch (error) {
    if (error instanceof Failure && error.code === 'INVALID_PARAMETER')
      throw invalidParameter(`${pointer}/notify/url`, 'url', `is not acceptable: ${error.message}`);
    throw error;
  }
}
