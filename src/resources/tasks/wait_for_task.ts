// A request that waits for the task that does its work: the task's failure is the request's.
import type { Code } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import type { TaskRecord } from '../../tasks/task.ts';
import { defined } from '../records/fields.ts';
import { type Context, requireTask } from '../records/handler_context.ts';

/** The task once it has succeeded, or as it is when the time is over. Throws what it failed with. */
export async function waitForTask(taskId: string, waitSeconds: number, context: Context): Promise<TaskRecord> {
  const waited =
    waitSeconds === 0 ? undefined : await context.tasks.wait(taskId, waitSeconds * 1000, context.call.signal);
  const task = waited ?? (await requireTask(taskId, context));
  if (task.state === 'cancelled')
    throw new Failure('STATEMENT_CANCELLED', 'the task of the request was cancelled', { taskId });
  if (task.state === 'failed' && task.error) {
    const { code, message, result } = task.error;
    throw new Failure(code as Code, message, defined({ ...(result as object | undefined), taskId }));
  }
  return task;
}
