// A backup as a task; the id of the task is the id of the backup. A retry continues with the files that the previous attempt sent.
import { type Backups, backupTask } from '../backups/backups.ts';
import type { TaskKind } from '../tasks/task.ts';

export function backUpKind(backups: Backups): TaskKind<'backup'> {
  return {
    type: backupTask,
    attemptsMax: 10,
    actsAsPrincipal: true,
    // Repairs find the directory of the backup by it (recorded_targets.ts).
    isNeededAfterEnd: true,
    writesFiles: true,
    run: (task, context) => backups.run(task, context),
    ended: (task) => backups.settle(task),
    removed: (task) => backups.settle(task),
  };
}
