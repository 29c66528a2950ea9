// Changes of objects that rewrite data: the catalog has recorded the intent, and the task carries it out.
import type { Catalog } from '../catalog/catalog.ts';
import type { TaskKind } from '../tasks/task.ts';

/** One task kind for each type of change that can become a task; all of them run the catalog's intent. */
export function changeKinds(catalog: Catalog): TaskKind[] {
  return ['alter_table', 'rename_database', 'undrop_table', 'undrop_database'].map((type) => ({
    type,
    attemptsMax: 100,
    async run(task, { signal, progress }) {
      const { name, version } = await catalog.runIntent(task.taskId, { signal, progress });
      return { name, version };
    },
    // Also after the last attempt failed: the reserved names become available at once.
    ended: async (task) => {
      if (task.state !== 'succeeded') await catalog.settleTask(task.taskId);
    },
  }));
}
