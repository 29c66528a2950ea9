// Waits for a task with its progress on the terminal. A command that is stopped cancels the task.
import { TabulariumError } from '../../client/errors.ts';
import type { Task, TaskRecord } from '../../client/task.ts';
import { CommandError } from '../exit_codes.ts';
import { cancelTask } from './cancelling.ts';
import type { Output } from './output/output.ts';
import { progressLine } from './output/progress_line.ts';

/**
 * The result of the task. Throws the error of a failed one; after an abort, when the task has been cancelled, or NotCancelled; CommandError
 * if the server is lost, which continues the task when it returns.
 */
export async function waitForTask<R>(task: Task<R>, output: Output, signal: AbortSignal): Promise<R> {
  const line = progressLine(output);
  const began = performance.now();
  const lost = new AbortController();
  const cancel = () =>
    void cancelTask(task.taskId, (within) => task.cancel(within)).catch((error: unknown) => lost.abort(error));
  if (signal.aborted) cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const onProgress = (record: TaskRecord) => line.show(textOf(record), record.progress, began);
    return await task.done({ onProgress, signal: lost.signal });
  } catch (error) {
    if (!(error instanceof TabulariumError) || error.status !== 0) throw error;
    throw new CommandError(
      'unavailable',
      `${error.message}; the server continues task ${task.taskId}, also after a restart: "tabularium tasks watch ${task.taskId}" shows what became of it`,
      { cause: error },
    );
  } finally {
    signal.removeEventListener('abort', cancel);
    line.end();
  }
}

function textOf({ type, state, progressText }: TaskRecord): string {
  return `${type}: ${progressText || state}`;
}
