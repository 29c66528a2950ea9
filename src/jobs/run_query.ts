// A SQL statement as a task: run to its end whoever waits, its rows kept as pages. A statement that writes happens once,
// however often a crash makes it run: the task's id is its step.
import type { Directory } from '../access/authorization/directory.ts';
import type { Queries, QueryRequest } from '../query/statements/queries.ts';
import { profileQueryTask, type QuerySubmitter, runQueryTask } from '../query/statements/query_submission.ts';
import { Failure } from '../standard/failure.ts';
import { RetryableError, type TaskKind } from '../tasks/task.ts';

/** Also those of which the profile alone is wanted. */
export function runQueryKinds(parts: {
  readonly queries: () => Queries;
  readonly submitter: () => QuerySubmitter;
  readonly directory: Directory;
}): TaskKind[] {
  const kind: Omit<TaskKind, 'type'> = {
    attemptsMax: 3,
    actsAsPrincipal: true,
    async run(task, { signal, progress }) {
      const { taskId, principal, target } = task;
      // Who was disabled since may not go on.
      if (!parts.directory.isActive(principal)) throw new Failure('FORBIDDEN', 'the submitter was disabled or deleted');
      const actor = { id: principal.id, name: principal.name, action: 'tasks.run', target };
      try {
        const request = task.request as QueryRequest;
        const { step = taskId } = request;
        const run = await parts.queries().run(request, { principal, actor, signal, progress, step, taskId });
        return await parts.submitter().saveResult(task, run, { durable: true });
      } catch (error) {
        if (error instanceof Failure) throw error;
        // What it writes may be written: run again, it finds that out.
        throw new RetryableError('the statement was interrupted', { cause: error });
      }
    },
    // A result may be there already, where what came after it failed.
    ended: async (task) => {
      if (task.state !== 'succeeded') await parts.submitter().deleteResult(task);
    },
    removed: (task) => parts.submitter().deleteResult(task),
  };
  return [runQueryTask, profileQueryTask].map((type) => ({ ...kind, type }));
}
