// The handler of `load` of a table. See query/loads/loads.ts.
import type { SharedHandlers } from '../../api/handlers.ts';
import type { loadTableApi } from '../../api/transfer/load_table.ts';
import { loadTableTask } from '../../query/loads/loads.ts';
import { uriOf } from '../../standard/paths.ts';
import type { Context } from '../records/handler_context.ts';
import { splitTaskOptions } from '../records/task_fields.ts';
import { accepted } from '../records/task_record.ts';
import { splitSource } from './load_fields.ts';

export const loadTable: SharedHandlers<typeof loadTableApi, Context> = {
  load: async ({ segments, body }, context) => {
    const { request: fields, options } = await splitTaskOptions(body, context);
    const { source, credentials } = splitSource(fields.source);
    const { principal, actor, version } = context.call;
    const request = await context.loads.request(segments, { ...fields, source }, principal);
    const target = uriOf(version, segments);
    const task = await context.submitLoad(
      { type: loadTableTask, principal, guard: actor.guard, target, request, ...options },
      request.tableId,
      actor,
      credentials,
    );
    return accepted(task, context);
  },
};
