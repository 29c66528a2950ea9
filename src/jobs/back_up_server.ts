// A backup of the whole server as a task; the id of the task is the id of the backup. A retry takes a new snapshot and sends the pieces
// that are missing.
import { type ServerBackups, serverBackupTask } from '../backups/server/server_backups.ts';
import type { TaskKind } from '../tasks/task.ts';

export function backUpServerKind(backups: ServerBackups): TaskKind<'server_backup'> {
  return {
    type: serverBackupTask,
    attemptsMax: 10,
    actsAsPrincipal: true,
    run: (task, context) => backups.run(task, context),
    ended: (task) => backups.settle(task),
    removed: (task) => backups.settle(task),
  };
}
