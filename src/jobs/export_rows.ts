// An export as a task. What it wrote is known by the task: an attempt after a crash begins with nothing of the one before.
import { type Exports, exportTask } from '../query/exports/exports.ts';
import type { TaskKind } from '../tasks/task.ts';

export function exportRowsKind(exports: () => Exports): TaskKind {
  return {
    type: exportTask,
    attemptsMax: 5,
    actsAsPrincipal: true,
    run: (task, context) => exports().run(task, context),
    ended: (task) => exports().settle(task),
    removed: (task) => exports().forget(task),
  };
}
