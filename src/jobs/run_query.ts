// A SQL statement as a task: run to its end whoever waits, its rows kept as pages. A statement that writes happens once,
// however often a crash makes it run: the task's id is its step.
import type { Queries, QueryRequest } from '../query/queries.ts';
import type { ResultStore } from '../query/result_store.ts';
import { type QuerySubmitter, runQueryTask } from '../query/submit.ts';
import type { TaskKind } from '../tasks/task.ts';

export function runQueryKind(parts: {
  readonly queries: () => Queries;
  readonly submitter: () => QuerySubmitter;
  readonly results: ResultStore;
}): TaskKind {
  return {
    type: runQueryTask,
    attemptsMax: 3,
    async run(task, { signal }) {
      const { taskId, submittedBy } = task;
      const run = await parts
        .queries()
        .run(task.request as QueryRequest, { principal: { name: submittedBy }, signal, step: taskId, taskId });
      return parts.submitter().keep(taskId, run, { durable: true });
    },
    removed: (task) => parts.results.remove(task.taskId),
  };
}
