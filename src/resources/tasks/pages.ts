// The handlers of `pages` of a query's result, which are stored as long as their task. While the result is computed, its complete pages
// are served too.
import type { RecordOf } from '../../api/handlers.ts';
import { pagesApi } from '../../api/tasks/pages.ts';
import type { ResultPage } from '../../query/results/result_store.ts';
import { runQueryTask } from '../../query/statements/query_submission.ts';
import { codes } from '../../standard/codes.ts';
import { Failure, objectNotFound } from '../../standard/failure.ts';
import { JsonText } from '../../standard/record_body.ts';
import { isOfType, type TaskRecord } from '../../tasks/task.ts';
import { pageUri } from '../queries/sql_actions.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { found, listed } from '../records/outcomes.ts';
import { permitTask, taskMissing } from './tasks.ts';

/** How long a task may take to record its end after its result is stored. */
const endMsMax = 20_000;

type QueryTask = TaskRecord<typeof runQueryTask>;

export const pages = implement(pagesApi, {
  list: async ({ path: { taskId }, page: { after, limit } }, context) => {
    await permitTask('read', taskId, context);
    const task = await context.tasks.get(taskId);
    if (!task || !isOfType(task, runQueryTask)) throw taskMissing(taskId);
    const isStreamed = task.request.streamed || context.submitter.hasLivePages(taskId);
    const hasPages = task.state === 'succeeded' ? !task.result?.files : isStreamed && task.endedAt === null;
    const all = hasPages ? await context.submitter.pages(task) : [];
    const pageCount = task.result?.pageCount ?? null;
    const from = after === undefined ? 0 : Number(after) + 1;
    return listed(
      all
        .slice(from, from + limit)
        .map((rows, i) => ({ page: from + i, ...rows, pageCount, uri: pageUri(context, taskId, from + i) })),
      from + limit < all.length ? String(from + limit - 1) : undefined,
    );
  },
  get: async ({ path: { taskId, page: text } }, context) => {
    await permitTask('read', taskId, context);
    let task = await context.tasks.get(taskId);
    if (!task || !isOfType(task, runQueryTask)) throw taskMissing(taskId);
    const page = /^(?:0|[1-9]\d{0,8})$/.test(text) ? Number(text) : undefined;
    const isStreamed = task.request.streamed || context.submitter.hasLivePages(taskId);
    if (page !== undefined && isStreamed && task.state !== 'succeeded') {
      const { signal } = context.call;
      const streamed = await context.submitter.streamedPage(task, page, signal);
      if (streamed) return found(pageText(streamed, taskId, context));
      task = await context.tasks.wait(taskId, endMsMax, signal);
      if (!task || !isOfType(task, runQueryTask)) throw taskMissing(taskId);
      requireComputed(task);
    }
    if (page === undefined || task.state !== 'succeeded' || task.result?.files) {
      throw objectNotFound('pages', text, `the task has no page ${JSON.stringify(text)}; its state is ${task.state}`);
    }
    return found(pageText(await context.submitter.page(task, page), taskId, context));
  },
});

/** Throws the failure of a statement whose later pages are not computed any more. */
function requireComputed({ state, error }: QueryTask): void {
  if (state === 'cancelled') throw new Failure('STATEMENT_CANCELLED', 'the statement was cancelled');
  if (state !== 'failed' || !error) return;
  if (codes[error.code].status === 400) throw new Failure(error.code, error.message, error.result);
  // Requesting the page again would not help.
  const message = `the statement failed before this page was computed: ${error.message} (${error.code}); run the query again`;
  throw new Failure('RESULT_EXPIRED', message);
}

function pageText(
  { columns, rows, firstRow, rowCount, page, pageCount, isPending }: ResultPage,
  taskId: string,
  context: Context,
) {
  const next = isPending ? page : page + 1;
  const rest = {
    page,
    firstRow,
    rowCount,
    pageCount,
    ...(pageCount === null || next < pageCount ? { nextPage: pageUri(context, taskId, next) } : {}),
    uri: pageUri(context, taskId, page),
  };
  return new JsonText<RecordOf<typeof pagesApi>>(
    `{"columns":${JSON.stringify(columns)},"rows":[`,
    rows,
    `],${JSON.stringify(rest).slice(1)}`,
  );
}
