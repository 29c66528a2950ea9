// Changes of objects that have to write data again: the catalog wrote down what is to be done, the task does it.
import type { Catalog } from '../catalog/catalog.ts';
import type { TaskKind } from '../tasks/task.ts';

/** One kind for each type of task that a change can become; all run the catalog's intent. */
export function changeKinds(catalog: () => Catalog): TaskKind[] {
  return ['alter_table', 'rename_database', 'undrop_table', 'undrop_database'].map((type) => ({
    type,
    attemptsMax: 100,
    async run(task, { signal, progress }) {
      const { name, version } = await catalog().runIntent(task.taskId, { signal, progress });
      return { name, version };
    },
    // Also where it ran out of attempts: its names are free at once.
    ended: async (task) => {
      if (task.state !== 'succeeded') await catalog().settleTask(task.taskId);
    },
  }));
}
