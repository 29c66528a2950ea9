// A restore as a task. The restored object is not visible before it is complete. A retry continues where the previous attempt ended.
import { type Restores, restoreTask } from '../backups/restores.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { TaskKind } from '../tasks/task.ts';

export function restoreBackupKind(parts: {
  readonly restores: Restores;
  readonly catalog: Catalog;
}): TaskKind<'restore'> {
  return {
    type: restoreTask,
    attemptsMax: 10,
    actsAsPrincipal: true,
    run: (task, context) => parts.restores.run(task, context),
    async ended(task) {
      await parts.restores.settle(task);
      // Undoes the leftovers of a last attempt that could not be undone at the time.
      if (task.state !== 'succeeded') await parts.catalog.settleTask(task.taskId);
    },
    abandoned: (task) => parts.catalog.settleTask(task.taskId),
    removed: (task) => parts.restores.settle(task),
  };
}
