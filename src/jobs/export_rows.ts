// An export as a task. Its files are recorded by task: a retry after a crash first removes those of the previous attempt.
import { type Exports, exportTask } from '../query/exports/exports.ts';
import type { TaskKind } from '../tasks/task.ts';

export function exportRowsKind(exports: Exports): TaskKind<'export'> {
  return {
    type: exportTask,
    attemptsMax: 5,
    actsAsPrincipal: true,
    writesFiles: true,
    run: (task, context) => exports.run(task, context),
    ended: (task) => exports.settle(task),
    removed: (task) => exports.deleteFiles(task),
  };
}
