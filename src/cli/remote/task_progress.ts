// Waits for a task with its progress on the terminal. Ctrl-C cancels the task.
import type { Task, TaskRecord } from '../../client/task.ts';
import type { Output } from './output/output.ts';
import { progressLine } from './output/progress_line.ts';

/** The result of the task. Throws the error of a failed one; after an abort, when the task has been cancelled. */
export async function waitForTask<R>(task: Task<R>, output: Output, signal: AbortSignal): Promise<R> {
  const line = progressLine(output);
  const began = performance.now();
  const cancel = () => void task.cancel().catch(() => undefined);
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const onProgress = (record: TaskRecord) => line.show(textOf(record), record.progress, began);
    return await task.done({ onProgress });
  } finally {
    signal.removeEventListener('abort', cancel);
    line.end();
  }
}

function textOf({ type, state, progressText }: TaskRecord): string {
  return `${type}: ${progressText || state}`;
}
