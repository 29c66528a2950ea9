// A backup of the whole server as a task: its id is the backup's. Another attempt sends what the one before it has not sent, as it is then.
import { type ServerBackups, serverBackupTask } from '../backups/server/server_backups.ts';
import type { TaskKind } from '../tasks/task.ts';

export function backUpServerKind(backups: () => ServerBackups): TaskKind {
  return {
    type: serverBackupTask,
    attemptsMax: 10,
    actsAsPrincipal: true,
    run: (task, context) => backups().run(task, context),
    ended: (task) => backups().settle(task),
    removed: (task) => backups().settle(task),
  };
}
