// A move of a catalog as a task. A retry continues with what the previous attempt has copied, if that is still equal.
import { type Moves, moveCatalogTask } from '../moves/moves.ts';
import type { TaskKind } from '../tasks/task.ts';

export const moveCatalogKind = ({ moves }: { readonly moves: Moves }): TaskKind<'move_catalog'> => ({
  type: moveCatalogTask,
  attemptsMax: 10,
  actsAsPrincipal: true,
  run: (task, context) => moves.run(task, context),
  isDecided: (task) => moves.hasSwitched(task),
  async ended(task) {
    if (task.state !== 'succeeded') await moves.settle(task);
  },
  abandoned: (task) => moves.settle(task),
});
