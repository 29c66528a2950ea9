// The handlers of `tasks`: work that outlives its request. Submitted by other endpoints; polled, cancelled and deleted here
// (rest-standard B5).
import { tasksApi } from '../../api/tasks/tasks.ts';
import type { Privilege } from '../../model/privileges.ts';
import { type Failure, objectNotFound } from '../../standard/failure.ts';
import type { TaskFilter } from '../../tasks/task_search.ts';
import { timeOf } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { type Page, pageOf } from '../records/list_page.ts';
import { deleted, done, found } from '../records/outcomes.ts';
import { requireOnCollection } from '../records/permissions.ts';
import { searchWith } from '../records/search.ts';
import { runningStatements, taskRecord } from '../records/task_record.ts';
import { taskWithLinks } from './result_links.ts';

export function taskMissing(taskId: string): Failure {
  return objectNotFound('tasks', taskId, `there is no task ${JSON.stringify(taskId)}`);
}

/** A task belongs to its submitter; others need the privilege on all tasks. Throws FORBIDDEN whether or not the task exists. */
export async function permitTask(privilege: Privilege, taskId: string, context: Context): Promise<void> {
  const task = await context.tasks.get(taskId);
  const { call, access } = context;
  if (!task || !access.authorizer.isSubmitter(call.principal, task.principal))
    await requireOnCollection(privilege, 'tasks', context);
  call.permitted = true;
}

async function tasksPage(page: Page, filter: TaskFilter, context: Context) {
  const { reach, principal } = context.call;
  const restrictedTo = reach === 'within' ? principal : undefined;
  const read = async (after: string | undefined, limit: number) => {
    const { items, ...rest } = await context.tasks.list({ limit, after, of: restrictedTo, filter });
    const statements = await runningStatements(items, context);
    return { items: items.map((task) => taskRecord(task, context, statements)), ...rest };
  };
  return pageOf(page, 'taskId', read, (record) => record);
}

export const tasks = implement(tasksApi, {
  list: ({ page }, context) => tasksPage(page, {}, context),
  get: async ({ path: { taskId }, query: { waitSeconds = 0 } }, context) => {
    await permitTask('read', taskId, context);
    const task =
      waitSeconds === 0
        ? await context.tasks.get(taskId)
        : await context.tasks.wait(taskId, waitSeconds * 1000, context.call.signal);
    if (!task) throw taskMissing(taskId);
    return found(await taskWithLinks(task, context));
  },
  delete: async ({ path: { taskId } }, context) => {
    await permitTask('drop', taskId, context);
    return deleted(await context.tasks.remove(taskId, context.call.actor));
  },
  cancel: async ({ path: { taskId } }, context) => {
    await permitTask('operate', taskId, context);
    const task = await context.tasks.cancel(taskId, context.call.actor);
    if (!task) throw taskMissing(taskId);
    return done(await taskWithLinks(task, context));
  },
  search: searchWith(({ from, to, ...filter }, { page }, context) => {
    const times = { submittedFrom: timeOf(from, '/from'), submittedBefore: timeOf(to, '/to') };
    return tasksPage(page, { ...filter, ...times }, context);
  }),
});
