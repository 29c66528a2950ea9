// Pages of a query's result, each complete. A result is kept as long as its task.

import { ColumnOfResult } from '../../api/queries/statement_fields.ts';
import { runQueryTask } from '../../query/statements/query_submission.ts';
import type { Category } from '../../standard/endpoint.ts';
import { JsonText } from '../../standard/envelope.ts';
import { Failure } from '../../standard/failure.ts';
import { Type } from '../../standard/type.ts';
import { pageUri } from '../queries/sql_actions.ts';
import { type Context, found, get, list, listed } from '../records/handler_context.ts';
import { permitTask, taskMissing } from './tasks.ts';

export const pages: Category<Context> = {
  name: 'pages',
  singular: 'page',
  title: 'Pages',
  doc: 'The pages of the result of a query task, numbered from 0.',
  parameter: 'page',
  idField: 'page',
  parent: 'tasks',
  record: Type.Object({
    columns: Type.Optional(Type.Array(ColumnOfResult, { description: 'Not in lists.' })),
    rows: Type.Optional(Type.Array(Type.Array(Type.Unknown()), { description: 'Not in lists.' })),
    page: Type.Integer(),
    pageCount: Type.Integer(),
    nextPage: Type.Optional(Type.String({ description: 'URI of the next page, where there is one.' })),
    uri: Type.String(),
  }),
  example: {
    columns: [{ name: 'n', type: 'BIGINT' }],
    rows: [[1], [2]],
    page: 0,
    pageCount: 1,
    uri: '/api/v2/tasks/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d/pages/0',
  },
  endpoints: [
    list({
      summary: 'Lists the pages of the result of a query task, without their rows.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
      codes: ['OBJECT_NOT_FOUND', 'RESULT_EXPIRED'],
      handle: async ({ path, page: { after, limit } }, context) => {
        const taskId = path.taskId as string;
        await permitTask('read', taskId, context);
        const task = await context.tasks.get(taskId);
        if (!task || task.type !== runQueryTask) throw taskMissing(taskId);
        const { pageCount = 0 } = (task.state === 'succeeded' ? task.result : {}) as { pageCount?: number };
        const from = after === undefined ? 0 : Number(after) + 1;
        const pages = Array.from({ length: Math.min(limit, pageCount - from) }, (_, i) => from + i);
        return listed(
          pages.map((page) => ({ page, pageCount, uri: pageUri(context, taskId, page) })),
          from + limit < pageCount ? String(from + limit - 1) : undefined,
        );
      },
    }),
    get({
      summary: 'Shows a page of the result of a query task.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
      codes: ['RESULT_EXPIRED'],
      handle: async ({ path }, context) => {
        const taskId = path.taskId as string;
        const text = path.page as string;
        await permitTask('read', taskId, context);
        const task = await context.tasks.get(taskId);
        if (!task || task.type !== runQueryTask) throw taskMissing(taskId);
        if (task.state !== 'succeeded' || !/^(?:0|[1-9]\d{0,8})$/.test(text)) {
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
    }),
  ],
};
