// Waits for the task that does the work of a request. A failure of the task becomes that of the request.
import type { TaskType } from '../../api/tasks/task_types.ts';
import { Failure } from '../../standard/failure.ts';
import { isOfType, type TaskRecord } from '../../tasks/task.ts';
import type { Context } from '../records/handler_context.ts';
import { requireTask } from '../records/task_record.ts';

/** The task once it has succeeded, or its current state after the wait time. Throws the failure of the task. */
export async function waitForTask<T extends TaskType>(
  taskId: string,
  type: T,
  waitSeconds: number,
  context: Context,
): Promise<TaskRecord<T>> {
  const waited =
    waitSeconds === 0 ? undefined : await context.tasks.wait(taskId, waitSeconds * 1000, context.call.signal);
  const task = waited && isOfType(waited, type) ? waited : await requireTask(taskId, type, context);
  if (task.state === 'cancelled')
    throw new Failure('STATEMENT_CANCELLED', 'the task of the request was cancelled', { taskId });
  if (task.state === 'failed' && task.error) {
    const { code, message, result } = task.error;
    throw new Failure(code, message, { ...result, taskId });
  }
  return task;
}
