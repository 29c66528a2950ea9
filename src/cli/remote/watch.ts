// `tasks watch`: shows a task until it ends, or all unfinished tasks as they change.

import { setTimeout as pause } from 'node:timers/promises';
import { Command } from 'commander';
import type { TaskRecord } from '../../client/task.ts';
import { addServerOptions, type CallOptions, type Runtime } from './call_options.ts';
import { progressLine } from './output/progress_line.ts';
import { exactJson } from './output/value_text.ts';
import { requireName } from './resource_commands.ts';

const pollMs = 1_000;
const openStates = ['pending', 'running', 'cancelling'] as const;

export function watchCommand(runtime: Runtime): Command {
  const command = new Command('watch')
    .description('Shows a task until it ends, or without an id all tasks that have not ended, until interrupted.')
    .argument('[taskId]', 'the task');
  addServerOptions(command).addHelpText(
    'after',
    '\nExample:\n  tabularium tasks watch 01a1fc25-2a8a-7300-aa8f-120af41ed0ae',
  );
  return command.action(async (taskId: string | undefined) => {
    const options = command.opts<CallOptions>();
    if (taskId === undefined) return watchAll(options, runtime);
    requireName(taskId, 'the taskId of the task');
    await watchOne(taskId, options, runtime);
  });
}

/** Watching is not owning: Ctrl-C ends the command, not the task. */
async function watchOne(taskId: string, options: CallOptions, runtime: Runtime): Promise<void> {
  const { client } = runtime.connect(options);
  const output = runtime.output(options);
  const line = progressLine(output);
  const began = performance.now();
  const { signal } = runtime;
  try {
    const task = await client.task<Readonly<Record<string, unknown>> | null>(taskId, { signal });
    const onProgress = (record: TaskRecord) => line.show(lineOf(record), record.progress, began);
    const result = await task.done({ onProgress, signal });
    line.end();
    await output.write(options.json ? `${exactJson(task.record, 2)}\n` : `${lineOf(task.record)}\n`);
    if (!options.json && result) await output.write(`${exactJson(result, 2)}\n`);
  } finally {
    line.end();
  }
}

/** A line for each change of a task. */
async function watchAll(options: CallOptions, runtime: Runtime): Promise<void> {
  const { client } = runtime.connect(options);
  const output = runtime.output(options);
  const { signal } = runtime;
  const shown = new Map<string, string>();
  const show = async (record: TaskRecord) => {
    const text = lineOf(record);
    if (shown.get(record.taskId) === text) return;
    shown.set(record.taskId, text);
    await output.write(options.json ? `${exactJson(record)}\n` : `${record.taskId}  ${text}\n`);
  };
  while (!signal.aborted) {
    const open = (
      await Promise.all(openStates.map((state) => client.tasks.search({ state }, { signal }).all()))
    ).flat();
    for (const record of open) await show(record);
    const ended = [...shown.keys()].filter((id) => !open.some(({ taskId }) => taskId === id));
    for (const taskId of ended) {
      const task = await client.task(taskId, { signal }).catch(() => undefined);
      if (task) await show(task.record);
      shown.delete(taskId);
    }
    await pause(pollMs, undefined, { signal }).catch(() => undefined);
  }
}

function lineOf({ type, state, progress, progressText, error }: TaskRecord): string {
  const percent = progress === null || state !== 'running' ? '' : ` ${Math.floor(progress * 100)}%`;
  const detail = error ? `${error.code}: ${error.message}` : progressText;
  return `${type} ${state}${percent}${detail ? `  ${detail}` : ''}`;
}
