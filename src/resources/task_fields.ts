// The fields of bodies that say how a task is to be run: what it comes after, and before which others it goes. For every endpoint that
// makes tasks.
import { Type } from 'typebox';
import type { Priority, TaskRequest } from '../tasks/task.ts';
import type { Context } from './context.ts';
import { invalid } from './fields.ts';

const afterMax = 100;

export const PriorityField = Type.Union([Type.Literal('high'), Type.Literal('normal'), Type.Literal('low')], {
  description:
    'Which goes first of the tasks that wait for a runner. In one priority users take turns; every eighth to begin is the one that waits longest.',
});

export const taskFields = {
  priority: Type.Optional(PriorityField),
  after: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      maxItems: afterMax,
      description:
        'Ids of tasks that the caller may read: the task begins when all of them have succeeded, and fails with `TASK_DEPENDENCY_FAILED` when one has failed or was cancelled.',
    }),
  ),
};

interface Asked {
  readonly priority?: Priority;
  readonly after?: readonly string[];
}

/** Throws INVALID_PARAMETER where a task to come after is not one that the caller may read. */
export async function taskOptions(body: Asked, context: Context): Promise<Pick<TaskRequest, 'priority' | 'after'>> {
  const { priority, after = [] } = body;
  for (const [i, taskId] of after.entries())
    if (!(await mayRead(taskId, context)))
      throw invalid(`/after/${i}`, 'exists', `names no task that the caller may read: ${JSON.stringify(taskId)}`);
  return { priority, after };
}

/** A task is its submitter's; others need the privilege on all tasks. */
async function mayRead(taskId: string, { tasks, access, call }: Context): Promise<boolean> {
  const { decisions } = access;
  // Asked first, so that time does not tell whether the task is there.
  const mayReadAll = await decisions.may(call.principal, 'read', { category: 'tasks', path: [] });
  const task = await tasks.get(taskId);
  return task !== undefined && (mayReadAll || decisions.isOwn(call.principal, task.principal));
}
