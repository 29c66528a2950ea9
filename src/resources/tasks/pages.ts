// The handlers of `pages` of a query's result, which are stored as long as their task.
import { pagesApi } from '../../api/tasks/pages.ts';
import { runQueryTask } from '../../query/statements/query_submission.ts';
import { JsonText } from '../../standard/envelope.ts';
import { Failure } from '../../standard/failure.ts';
import { pageUri } from '../queries/sql_actions.ts';
import { implement } from '../records/handler_context.ts';
import { found, listed } from '../records/outcomes.ts';
import { permitTask, taskMissing } from './tasks.ts';

export const pages = implement(pagesApi, {
  list: async ({ path: { taskId }, page: { after, limit } }, context) => {
    await permitTask('read', taskId, context);
    const task = await context.tasks.get(taskId);
    if (!task || task.type !== runQueryTask) throw taskMissing(taskId);
    const pageCount = task.result?.pageCount ?? 0;
    const from = after === undefined ? 0 : Number(after) + 1;
    const pages = Array.from({ length: Math.min(limit, pageCount - from) }, (_, i) => from + i);
    return listed(
      pages.map((page) => ({ page, pageCount, uri: pageUri(context, taskId, page) })),
      from + limit < pageCount ? String(from + limit - 1) : undefined,
    );
  },
  get: async ({ path: { taskId, page: text } }, context) => {
    await permitTask('read', taskId, context);
    const task = await context.tasks.get(taskId);
    if (!task || task.type !== runQueryTask) throw taskMissing(taskId);
    if (task.state !== 'succeeded' || task.result?.files || !/^(?:0|[1-9]\d{0,8})$/.test(text)) {
      throw new Failure(
        'OBJECT_NOT_FOUND',
        `the task has no page ${JSON.stringify(text)}; its state is ${task.state}`,
        { category: 'pages', name: text },
      );
    }
    const { columns, rows, page, pageCount } = await context.submitter.page(task, Number(text));
    const uri = pageUri(context, taskId, page);
    const rest = {
      page,
      pageCount,
      ...(page + 1 < pageCount ? { nextPage: pageUri(context, taskId, page + 1) } : {}),
      uri,
    };
    return found(
      new JsonText(`{"columns":${JSON.stringify(columns)},"rows":[`, rows, `],${JSON.stringify(rest).slice(1)}`),
    );
  },
});
