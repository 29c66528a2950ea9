// The fields of bodies that say how a task is to be run: what it comes after, and before which others it goes. For every endpoint that
// makes tasks.
import { Type } from 'typebox';
import { Failure } from '../standard/failure.ts';
import type { Notify, Priority, TaskRequest } from '../tasks/task.ts';
import type { Context } from './context.ts';
import { invalid } from './fields.ts';

const afterMax = 100;

export const PriorityField = Type.Union([Type.Literal('high'), Type.Literal('normal'), Type.Literal('low')], {
  description:
    'Which goes first of the tasks that wait for a runner. In one priority users take turns; every eighth to begin is the one that waits longest.',
});

/** For those that take a notice too: `notifyField`. */
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

export const secretCharactersMin = 16;

export const notifyField = {
  notify: Type.Optional(
    Type.Object(
      {
        url: Type.String({
          minLength: 1,
          maxLength: 2048,
          description: 'http or https, of a host that the setting `webhookHosts` allows. Not shown again.',
        }),
        secret: Type.Optional(
          Type.String({
            minLength: secretCharactersMin,
            maxLength: 256,
            description: 'What the notice is signed with. Kept encrypted until it was sent, never shown.',
          }),
        ),
      },
      {
        additionalProperties: false,
        description:
          'Who is told of the end of the task, by a POST that is sent until it is answered with 2xx, or given up; at least once.',
      },
    ),
  ),
};

interface Asked {
  readonly priority?: Priority;
  readonly after?: readonly string[];
  readonly notify?: Notify;
}

/** Throws HOST_NOT_ALLOWED; INVALID_PARAMETER where a task to come after is not one that the caller may read. */
export async function taskOptions(
  body: Asked,
  context: Context,
): Promise<Pick<TaskRequest, 'priority' | 'after' | 'notify'>> {
  const { priority, after = [], notify } = body;
  if (notify) checkNotify(notify, context);
  for (const [i, taskId] of after.entries())
    if (!(await mayRead(taskId, context)))
      throw invalid(`/after/${i}`, 'exists', `names no task that the caller may read: ${JSON.stringify(taskId)}`);
  return { priority, after, notify };
}

/** A task is its submitter's; others need the privilege on all tasks. */
async function mayRead(taskId: string, { tasks, access, call }: Context): Promise<boolean> {
  const { decisions } = access;
  // Asked first, so that time does not tell whether the task is there.
  const mayReadAll = await decisions.may(call.principal, 'read', { category: 'tasks', path: [] });
  const task = await tasks.get(taskId);
  return task !== undefined && (mayReadAll || decisions.isOwn(call.principal, task.principal));
}

function checkNotify(notify: Notify, context: Context): void {
  try {
    context.notices.check(notify);
  } catch (error) {
    if (error instanceof Failure && error.code === 'INVALID_PARAMETER')
      throw invalid('/notify/url', 'url', `is not acceptable: ${error.message}`);
    throw error;
  }
}
