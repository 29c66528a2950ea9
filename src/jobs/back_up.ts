// A backup as a task: its id is the backup's. An attempt after another goes on with the files that the one before it has sent.
import { type Backups, backupTask } from '../backups/backups.ts';
import type { TaskKind } from '../tasks/task.ts';

export function backUpKind(backups: () => Backups): TaskKind {
  return {
    type: backupTask,
    attemptsMax: 10,
    actsAsPrincipal: true,
    run: (task, context) => backups().run(task, context),
    ended: (task) => backups().settle(task),
    removed: (task) => backups().settle(task),
  };
}
