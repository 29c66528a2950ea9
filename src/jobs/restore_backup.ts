// A restore as a task. Nobody sees what it makes before it is whole; an attempt after another goes on where that one ended.
import { type Restores, restoreTask } from '../backups/restores.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { TaskKind } from '../tasks/task.ts';

export function restoreBackupKind(parts: {
  readonly restores: () => Restores;
  readonly catalog: () => Catalog;
}): TaskKind {
  return {
    type: restoreTask,
    attemptsMax: 10,
    actsAsPrincipal: true,
    run: (task, context) => parts.restores().run(task, context),
    async ended(task) {
      await parts.restores().settle(task);
      // What a last attempt left that could not be undone then.
      if (task.state !== 'succeeded') await parts.catalog().settleTask(task.taskId);
    },
    abandoned: (task) => parts.catalog().settleTask(task.taskId),
    removed: (task) => parts.restores().settle(task),
  };
}
