// A SQL statement as a task: it runs to its end whether or not a caller waits, and its rows are stored as pages. A writing statement is
// applied once, however often a crash restarts the task: its step is the id of the task.
import type { Directory } from '../access/authorization/directory.ts';
import type { Queries, QueryRequest } from '../query/statements/queries.ts';
import { profileQueryTask, type QuerySubmitter, runQueryTask } from '../query/statements/query_submission.ts';
import { Failure } from '../standard/failure.ts';
import { RetryableError, type TaskKind } from '../tasks/task.ts';

/** The task kinds of queries and of profiles. */
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
      // A user who was disabled meanwhile must not continue.
      if (!parts.directory.isActive(principal)) throw new Failure('FORBIDDEN', 'the submitter was disabled or deleted');
      const actor = { id: principal.id, name: principal.name, action: 'tasks.run', target };
      try {
        const request = task.request as QueryRequest;
        const { step = taskId } = request;
        const run = await parts.queries().run(request, { principal, actor, signal, progress, step, taskId });
        return await parts.submitter().saveResult(task, run, { durable: true });
      } catch (error) {
        if (error instanceof Failure) throw error;
        // The write may have been applied: the next attempt finds out.
        throw new RetryableError('the statement was interrupted', { cause: error });
      }
    },
    // A result may have been stored although a later step failed.
    ended: async (task) => {
      if (task.state !== 'succeeded') await parts.submitter().deleteResult(task);
    },
    removed: (task) => parts.submitter().deleteResult(task),
  };
  return [runQueryTask, profileQueryTask].map((type) => ({ ...kind, type }));
}
