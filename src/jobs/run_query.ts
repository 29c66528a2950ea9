// A SQL statement as a task: it runs to its end whether or not a caller waits, and its rows are stored as pages. A writing statement is
// applied once, however often a crash restarts the task: its step is the id of the task.
import type { Directory } from '../access/authorization/directory.ts';
import type { Queries, QueryRun } from '../query/statements/queries.ts';
import {
  profileQueryTask,
  profileResult,
  type QuerySubmitter,
  runQueryTask,
} from '../query/statements/query_submission.ts';
import { Failure } from '../standard/failure.ts';
import { actorOfTask, RetryableError, type TaskContext, type TaskKind, type TaskRecord } from '../tasks/task.ts';

interface Parts {
  readonly submitter: QuerySubmitter;
  readonly queries: Pick<Queries, 'hasWritten'>;
  readonly directory: Directory;
}

/** The task kinds of queries and of profiles. */
export function runQueryKinds(parts: Parts): readonly [TaskKind<'run_query'>, TaskKind<'profile_query'>] {
  return [
    {
      ...common,
      type: runQueryTask,
      leavesResult: true,
      run: async (task, context) => {
        const { taskId, principal } = task;
        const owner = { taskId, principal, requireHeld: context.requireHeld };
        if (context.isRetry) await parts.submitter.deleteResult(owner);
        return runStatement(parts, task, context, (run) => parts.submitter.saveResult(owner, run));
      },
      isDecided: async ({ taskId, request: { step = taskId } }) => step !== null && parts.queries.hasWritten(step),
      // A result may have been stored although a later step failed.
      ended: async (task) => {
        if (task.state !== 'succeeded') await parts.submitter.deleteResult(task);
      },
      removed: (task) => parts.submitter.deleteResult(task),
    },
    {
      ...common,
      type: profileQueryTask,
      run: (task, context) => runStatement(parts, task, context, async (run) => profileResult(run)),
    },
  ];
}

/** For half a minute: within that an outage of a cluster ends, and a write that has begun is not left half done. */
const common = { attemptsMax: 6, actsAsPrincipal: true } as const;

async function runStatement<R>(
  { submitter, directory }: Parts,
  task: TaskRecord<'run_query' | 'profile_query'>,
  { signal, progress }: TaskContext,
  toResult: (run: QueryRun) => Promise<R>,
): Promise<R> {
  const { taskId, principal, request } = task;
  directory.requireActive(principal);
  const actor = actorOfTask(task);
  try {
    if (request.streamed)
      throw new Failure('TASK_INTERRUPTED', 'the server stopped before the result was complete; run the query again');
    const { step = taskId } = request;
    return await toResult(await submitter.run(request, { principal, actor, signal, progress, step, taskId }));
  } catch (error) {
    if (error instanceof Failure) throw error;
    // The write may have been applied: the next attempt finds out.
    throw new RetryableError('the statement was interrupted', { cause: error });
  }
}
