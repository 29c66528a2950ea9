// A file into a table as a task. It happens once, however often a crash makes it run: the task's id, or its label, is its step.
import type { Directory } from '../access/directory.ts';
import { type LoadRequest, type Loads, loadTableTask } from '../query/loads.ts';
import { Failure } from '../standard/failure.ts';
import type { TaskKind } from '../tasks/task.ts';

export function loadTableKind(parts: { readonly loads: () => Loads; readonly directory: Directory }): TaskKind {
  return {
    type: loadTableTask,
    attemptsMax: 5,
    actsAsPrincipal: true,
    async run({ taskId, principal, target, request }, { signal }) {
      if (!parts.directory.isActive(principal)) throw new Failure('FORBIDDEN', 'the submitter may no longer do this');
      const actor = { id: principal.id, name: principal.name, action: 'tasks.run', target };
      return parts.loads().run(request as LoadRequest, { taskId, principal, actor, signal });
    },
  };
}
